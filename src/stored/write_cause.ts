import { OptionError } from "../core/values/option_error.ts";
import type { WriteCause } from "../core/config/stored/stored_variables.ts";

/** How many characters the name of a writer may have. */
export const MAX_BY = 128;

// PostgreSQL stores no NUL, and neither half of a surrogate pair.
/** Who writes: which texts are accepted, and what messages say about them. */
export const BY = {
  pattern: /^[^\0\p{Cs}]{1,128}$/u,
  expected: `1 to ${MAX_BY} characters, without NUL`,
};
/** Why somebody writes. */
export const WHY = {
  pattern: /^[^\0\p{Cs}]{1,512}$/u,
  expected: "1 to 512 characters, without NUL",
};

/**
 * Checks who writes, and why.
 *
 * @throws {OptionError} If one of them is invalid.
 */
export function checkCause({ by = "-", why = "-" }: WriteCause): void {
  check("by", by, BY);
  check("why", why, WHY);
}

function check(
  option: string,
  text: string,
  { pattern, expected }: typeof BY,
): void {
  if (pattern.test(text)) return;
  throw new OptionError(option, expected, `${text.length} characters`);
}
