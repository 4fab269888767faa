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
  return { ...defaults, ...readGivenSizes(args, Object.keys(defaults)) };
}

/**
 * Reads `--name N` arguments, without defaults.
 *
 * @throws {RangeError} If an argument is not one of the names, or not a non-negative number.
 */
export function readGivenSizes(
  args: readonly string[],
  names: readonly string[],
): Sizes {
  const { _: rest, ...sizes } = parseArgs([...args]);
  const expected = names.map((name) => `--${name}`).join(", ");
  for (const [name, value] of Object.entries(sizes)) {
    if (!names.includes(name)) {
      throw new RangeError(`Cannot use --${name}: expected ${expected}`);
    }
    if (!(typeof value === "number" && value >= 0)) {
      throw new RangeError(
        `Cannot read --${name}: expected a number, got "${value}"`,
      );
    }
  }
  if (rest.length > 0) {
    throw new RangeError(`Cannot use "${rest[0]}": expected ${expected}`);
  }
  return sizes;
}
