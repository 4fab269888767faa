import { cpus } from "node:os";
import { positionOf } from "./_goals.ts";
import type { Growth } from "./_growth.ts";
import type { Row } from "./_row.ts";

/** The contents of `bench/results.json`. */
export interface Results {
  /** When the run began (RFC 3339). */
  readonly measuredAt: string;
  readonly machine: Machine;
  readonly rows: readonly Row[];
  readonly growth: readonly Growth[];
  /** What was not measured, and why. */
  readonly skipped: readonly string[];
}

/** Where it was measured. */
interface Machine {
  readonly deno: string;
  readonly os: string;
  readonly cores: number;
  /** The processes that were running when the run began, as an average over a minute. */
  readonly load: number;
}

const PATH = new URL("results.json", import.meta.url);

/** Reads the results of the last full run. */
export async function readResults(): Promise<Results> {
  return JSON.parse(await Deno.readTextFile(PATH));
}

/** Writes results, with values that are not more precise than the measurements. */
export async function writeResults(results: Results): Promise<void> {
  const text = JSON.stringify(
    results,
    (_, value) =>
      typeof value === "number" ? Number(value.toPrecision(4)) : value,
    2,
  );
  await Deno.writeTextFile(PATH, `${withShortArrays(text)}\n`);
}

/** Puts arrays of numbers into one line each, as `deno fmt` does. */
function withShortArrays(json: string): string {
  return json.replace(
    /\[\s+([\d.e+-][^[\]{}"]*?)\s+\]/g,
    (_, items: string) => `[${items.replace(/\s+/g, " ")}]`,
  );
}

/**
 * Returns the results with newer rows, which say when they were measured.
 *
 * @param part The part of the table that was measured again: it is not skipped any more.
 */
export function mergeResults(
  results: Results,
  newer: Results,
  part: string,
): Results {
  const again = newer.rows.map((row) => ({
    ...row,
    measuredAt: newer.measuredAt,
  }));
  return {
    ...results,
    rows: replaceByName(results.rows, again).sort((a, b) =>
      positionOf(a) - positionOf(b)
    ),
    growth: replaceByName(results.growth, newer.growth),
    skipped: results.skipped.filter((reason) =>
      !reason.startsWith(`${part}: `)
    ),
  };
}

function replaceByName<T extends { readonly name: string }>(
  all: readonly T[],
  newer: readonly T[],
): T[] {
  const names = newer.map(({ name }) => name);
  return [...all.filter(({ name }) => !names.includes(name)), ...newer];
}

/** Describes this machine. */
export function thisMachine(): Machine {
  const [load = 0] = Deno.loadavg();
  return {
    deno: Deno.version.deno,
    os: `${Deno.build.os} ${Deno.build.arch}`,
    cores: cpus().length,
    load,
  };
}
