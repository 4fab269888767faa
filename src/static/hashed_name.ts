/** Hexadecimal: webpack, Parcel, Rollup on request. */
const HEX = /^[\da-f]{8,}$/;

/** esbuild and Angular: eight letters of base32. */
const BASE32 = /^[A-Z2-7]{8}$/;

/** Vite and Rollup: base64url. */
const BASE64URL = /^(?=.*\d)(?=.*[a-z])(?=.*[A-Z])[\w-]{8,}$/;

/** A date such as 2026dec24 has hexadecimal digits only. */
const HEX_MONTH = /dec|feb/;

/** The length of Rollup's hashes, in which a dash may stand as well. */
const ROLLUP_LENGTH = 8;

/**
 * Tells whether a file name carries a hash of the content, as bundlers write it: `index-BxY12_9a.js`,
 * `main.3f2a9c1d.css`, `chunk-5XQJ2K7A.js`. Such a file never changes, so it may be kept for ever.
 *
 * When in doubt the answer is no. A hash without digits (`index-DiwrgTda.js`) looks like a name in camel case; to ask
 * again for a file that never changes costs a round trip, to keep one that does costs the update.
 */
export function isHashedName(name: string): boolean {
  const parts = name.split(".").slice(0, -1);
  return parts.some((part) => candidates(part).some(isHash));
}

/** Where a hash may stand between two dots: after the last dash, or after one before it that is not the hash's own. */
function candidates(part: string): string[] {
  const afterDash = part.slice(part.lastIndexOf("-") + 1);
  return part.at(-ROLLUP_LENGTH - 1) === "-" ? [afterDash, part.slice(-ROLLUP_LENGTH)] : [afterDash];
}

function isHash(text: string): boolean {
  if (BASE32.test(text) || (HEX.test(text) && !HEX_MONTH.test(text))) return changes(text) >= 2;
  return BASE64URL.test(text) && shortWords(text) * 4 >= text.length;
}

/** How often letters follow digits or digits letters: once in a word with a number, often in a hash. */
function changes(text: string): number {
  return (text.match(/\d+|\D+/g) ?? []).length - 1;
}

/** How many one would read that are too short for a word, if the text was words in camel case. */
function shortWords(text: string): number {
  const words = text.match(/[A-Z]?[a-z]+|[A-Z]+(?![a-z])/g) ?? [];
  return words.filter((word) => word.length <= 2).length;
}
