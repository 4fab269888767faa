import { stdFlags } from "../tools/std.ts";

/**
 * The variable in which a benchmark that runs in a network namespace, where JSR cannot be reached, is given the flags.
 */
export const IMPORT_FLAGS = "BENCH_IMPORT_FLAGS";

/** Returns the flags with which `deno` finds the `@std` packages. */
export async function importFlags(): Promise<string[]> {
  const given = Deno.env.get(IMPORT_FLAGS);
  return given === undefined
    ? await stdFlags()
    : given.split(" ").filter((flag) => flag !== "");
}

/** Whether this process runs in such a namespace, started by another one. */
export function isIsolated(): boolean {
  return Deno.env.has(IMPORT_FLAGS);
}
