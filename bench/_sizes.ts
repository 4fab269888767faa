import { parseArgs } from "@std/cli/parse-args";

/**
 * Reads `--name N` arguments.
 *
 * @param defaults All sizes and their default values.
 * @throws {RangeError} If an argument is unknown or not a non-negative number.
 */
export function readSizes<T extends Record<string, number>>(args: readonly string[], defaults: T): T {
  const { _: rest, ...sizes } = parseArgs([...args]);
  const names = Object.keys(defaults).map((name) => `--${name}`).join(", ");
  for (const [name, value] of Object.entries(sizes)) {
    if (!(name in defaults)) throw new RangeError(`Cannot use --${name}: expected ${names}`);
    if (!(typeof value === "number" && value >= 0)) {
      throw new RangeError(`Cannot read --${name}: expected a number, got "${value}"`);
    }
  }
  if (rest.length > 0) throw new RangeError(`Cannot use "${rest[0]}": expected ${names}`);
  return { ...defaults, ...sizes };
}
