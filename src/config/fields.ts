import { didYouMean } from "../values/did_you_mean.ts";
import { formatWord } from "./format_value.ts";

/** The fields of a YAML mapping. */
export type Fields = Readonly<Record<string, unknown>>;

/** Reports an issue with the manifest, such as `variables.A.tier: expected one of …`. */
export type Report = (issue: string) => void;

/** Options of {@linkcode checkKeys}. */
interface KeyOptions {
  /** What precedes the key in the issue, such as `settings.`. */
  readonly prefix: string;
  /**
   * Whether a key may be a value that must not be shown, such as the default of a SENSITIVE variable, unless it is a
   * short word.
   */
  readonly isSecret: boolean;
}

/** Reports the keys of a mapping that are unknown. */
export function checkKeys(
  fields: Fields,
  known: readonly string[],
  report: Report,
  { prefix, isSecret }: KeyOptions,
): void {
  const expected = `expected one of ${known.join(", ")}`;
  for (const key of Object.keys(fields).filter((key) => !known.includes(key))) {
    const word = leadingWord(key);
    if (known.includes(word)) {
      report(
        `${prefix}${word}: expected a colon and a space between key and value`,
      );
    } else if (isSecret && !isShortWord(key)) {
      report(
        `${
          prefix.replace(/\.$/, "")
        }: ${expected}, got a key that is not shown`,
      );
    } else {report(
        `${prefix}${formatKey(key)}: ${expected}${didYouMean(key, known)}`,
      );}
  }
}

/**
 * Returns whether it is letters and `_`, as the words of a manifest are, and not longer than they are. Hardly any secret
 * is, so that it may be shown where it is most likely a misspelled word.
 */
export function isShortWord(value: unknown): value is string {
  return typeof value === "string" && /^[a-z_]{1,20}$/i.test(value);
}

/** Formats a key for a message. In `{ A:value }`, the key is `A:value`: only the word at its beginning is shown. */
export function formatKey(key: string): string {
  const word = leadingWord(key);
  const isSecret = formatWord(key) !== key;
  return isSecret || word === key ? formatWord(key) : `${word}…`;
}

function leadingWord(key: string): string {
  return /^[\w.-]*/.exec(key)?.[0] ?? "";
}
