import { didYouMean } from "../did_you_mean.ts";

/** The fields of a YAML mapping. */
export type Fields = Readonly<Record<string, unknown>>;

/** Reports an issue with the manifest, such as `variables.A.tier: expected one of …`. */
export type Report = (issue: string) => void;

/** Returns whether a YAML value is a mapping. */
export function isMapping(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/**
 * Reports the keys of a mapping that are unknown.
 *
 * @param prefix What precedes the key in the issue, such as `settings.`.
 */
export function checkKeys(fields: Fields, known: readonly string[], prefix: string, report: Report): void {
  for (const key of Object.keys(fields)) {
    if (!known.includes(key)) report(`${prefix}${key}: expected one of ${known.join(", ")}${didYouMean(key, known)}`);
  }
}
