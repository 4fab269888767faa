import { checkKeys, type Fields, type Report } from "../variables/fields.ts";
import { formatValue } from "../variables/format_value.ts";
import { type ManifestResult, type ManifestSettings, parseManifest } from "../variables/manifest.ts";
import { type Option, OPTIONS } from "./option_table.ts";

/** Reads a manifest with its `settings`, which are options of the command, and reports every issue. */
export function parseCommandManifest(text: string): ManifestResult {
  return parseManifest(text, readSettings);
}

function readSettings(fields: Fields, report: Report): ManifestSettings {
  const options: readonly Option<unknown>[] = Object.values(OPTIONS);
  checkKeys(fields, options.flatMap(({ manifest }) => manifest ?? []), "settings.", report);
  const settings = options.flatMap((option) => {
    const key = option.manifest;
    if (key === undefined || fields[key] === undefined) return [];
    try {
      return [[key, readSetting(fields[key], option)]];
    } catch {
      report(`settings.${key}: expected ${option.expected}, got ${formatSetting(fields[key])}`);
      return []; // the report says more than the error
    }
  });
  return Object.fromEntries(settings);
}

function readSetting(value: unknown, { yaml, read, expected }: Option<unknown>): unknown {
  if (yaml !== "list" && typeof value === yaml) return read(String(value));
  if (yaml !== "list" || !isListOfTexts(value)) throw new TypeError(expected);
  return value.length === 0 ? [] : read(value.join(","));
}

function formatSetting(value: unknown): string {
  return isListOfTexts(value) ? formatValue(value.join(",")) : formatValue(value);
}

function isListOfTexts(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((item) => typeof item === "string" && item.trim() !== "");
}
