/** Hexadecimal: webpack, Parcel, and Rollup if configured. */
const HEX = /^[\da-f]{8,}$/;

/** Eight characters of base32: esbuild and Angular. */
const BASE32 = /^[A-Z2-7]{8}$/;

/** Base64url: Vite and Rollup. */
const BASE64URL = /^(?=.*\d)(?=.*[a-z])(?=.*[A-Z])[\w-]{8,}$/;

/** The months that are hexadecimal, as in the date 2026dec24. */
const HEX_MONTH = /dec|feb/;

/** The length of Rollup's hashes, which may contain a dash. */
const ROLLUP_LENGTH = 8;

/**
 * Returns whether a file name contains a hash of the content, as bundlers generate it: `index-BxY12_9a.js`,
 * `main.3f2a9c1d.css`, `chunk-5XQJ2K7A.js`. Such a file never changes, so caches may keep it without revalidation.
 *
 * If in doubt, the result is `false`: a hash without digits (`index-DiwrgTda.js`) looks like a name in camel case.
 * Revalidating a file that never changes costs a round trip; keeping one that does change would hide the update.
 */
export function isHashedName(name: string): boolean {
  const parts = name.split(".").slice(0, -1);
  return parts.some((part) => candidates(part).some(isHash));
}

/** Returns the substrings that may be a hash: what follows the last dash, or the eight characters after a dash. */
function candidates(part: string): string[] {
  const afterDash = part.slice(part.lastIndexOf("-") + 1);
  return part.at(-ROLLUP_LENGTH - 1) === "-" ? [afterDash, part.slice(-ROLLUP_LENGTH)] : [afterDash];
}

function isHash(text: string): boolean {
  if (BASE32.test(text) || (HEX.test(text) && !HEX_MONTH.test(text))) return countTransitions(text) >= 2;
  return BASE64URL.test(text) && countShortWords(text) * 4 >= text.length;
}

/** Counts the transitions between letters and digits: one in a word with a number, several in a hash. */
function countTransitions(text: string): number {
  return (text.match(/\d+|\D+/g) ?? []).length - 1;
}

/** Splits the text like camel case, and counts the parts that are too short for a word. */
function countShortWords(text: string): number {
  const words = text.match(/[A-Z]?[a-z]+|[A-Z]+(?![a-z])/g) ?? [];
  return words.filter((word) => word.length <= 2).length;
}
