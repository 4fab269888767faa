import { cpus } from "node:os";
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
    (_, value) => typeof value === "number" ? Number(value.toPrecision(4)) : value,
    2,
  );
  await Deno.writeTextFile(PATH, `${withShortArrays(text)}\n`);
}

/** Puts arrays of numbers into one line each, as `deno fmt` does. */
function withShortArrays(json: string): string {
  return json.replace(/\[\s+([\d.e+-][^[\]{}"]*?)\s+\]/g, (_, items: string) => `[${items.replace(/\s+/g, " ")}]`);
}

/** Returns the results with newer rows of the same names, which say when they were measured. */
export function mergeResults(results: Results, { rows, growth, measuredAt }: Results): Results {
  const newRows = new Map(rows.map((row) => [row.name, { ...row, measuredAt }]));
  const newGrowth = new Map(growth.map((it) => [it.name, it]));
  return {
    ...results,
    rows: results.rows.map((row) => newRows.get(row.name) ?? row),
    growth: results.growth.map((it) => newGrowth.get(it.name) ?? it),
  };
}

/** Describes this machine. */
export function thisMachine(): Machine {
  const [load = 0] = Deno.loadavg();
  return { deno: Deno.version.deno, os: `${Deno.build.os} ${Deno.build.arch}`, cores: cpus().length, load };
}
