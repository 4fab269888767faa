import {
  checkKeys,
  type Fields,
  type Manifest,
  type ManifestSettings,
  parseManifest,
  type Report,
} from "../../core/config/variables/manifest.ts";
import { formatValue } from "../../core/config/variables/quote.ts";
import { redactUrl } from "../../core/values/urls.ts";
import type { Option } from "./option_kinds.ts";
import { OPTIONS, type StartOptions } from "./option_table.ts";
import { readOptions } from "./read_options.ts";

/** Parses a manifest including its `settings`, which are options of the command. */
export function parseCommandManifest(
  text: string,
  path: string | undefined,
): Manifest {
  return parseManifest(text, { path, readSettings });
}

/** Returns the options that a manifest sets, and the defaults of the others. */
export function optionsOf(manifest: Manifest | undefined): StartOptions {
  return readOptions({
    flags: new Map(),
    environment: {},
    manifest: manifest?.settings ?? {},
  });
}

function readSettings(fields: Fields, report: Report): ManifestSettings {
  const options = new Map<string, Option<unknown>>();
  for (const option of Object.values<Option<unknown>>(OPTIONS)) {
    if (option.manifest !== undefined) options.set(option.manifest, option);
  }
  checkKeys(fields, [...options.keys()], report, "settings");
  const settings: Record<string, unknown> = {};
  for (const [key, option] of options) {
    const field = fields[key];
    if (field === undefined) continue;
    settings[key] = readSetting(field, option);
    if (settings[key] !== undefined) continue;
    const got = formatSetting(field);
    report(`settings.${key}`, `expected ${option.expected}, got ${got}`);
  }
  return settings;
}

/** Returns `undefined` if the value is invalid. */
function readSetting(
  value: unknown,
  { type, parse }: Option<unknown>,
): unknown {
  if (type !== "list") {
    const got: string = typeof value;
    return got === type ? parse(String(value)) : undefined;
  }
  if (value === null) return []; // a key without items
  if (!isListOfStrings(value)) return undefined;
  return value.length === 0 ? [] : parse(value.join(","));
}

function formatSetting(value: unknown): string {
  const text = isListOfStrings(value) ? value.join(",") : value;
  return formatValue(typeof text === "string" ? redactUrl(text) : text);
}

function isListOfStrings(value: unknown): value is string[] {
  return Array.isArray(value) &&
    value.every((item) => typeof item === "string" && item.trim() !== "");
}
