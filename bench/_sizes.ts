import { parseArgs } from "@std/cli/parse-args";

/** The sizes of a benchmark, by name. */
export type Sizes = Record<string, number>;

/**
 * Reads `--name N` arguments.
 *
 * @param defaults All sizes and their default values.
 * @throws {RangeError} If an argument is unknown or not a non-negative number.
 */
export function readSizes<T extends Sizes>(
  args: readonly string[],
  defaults: T,
): T {
  const { _: rest, ...given } = parseArgs([...args]);
  const names = Object.keys(defaults);
  const expected = names.map((name) => `--${name}`).join(", ");
  if (rest.length > 0) {
    throw new RangeError(`Cannot use "${rest[0]}": expected ${expected}`);
  }
  for (const [name, value] of Object.entries(given)) {
    if (!names.includes(name)) {
      throw new RangeError(`Cannot use --${name}: expected ${expected}`);
    }
    if (!(typeof value === "number" && value >= 0)) {
      throw new RangeError(
        `Cannot read --${name}: expected a number, got "${value}"`,
      );
    }
  }
  return { ...defaults, ...given };
}
