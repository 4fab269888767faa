import { cpus } from "node:os";
import type { Row } from "./_row.ts";

/** The contents of `bench/results.json`. */
export interface Results {
  /** When the run began (RFC 3339). */
  readonly measuredAt: string;
  readonly machine: Machine;
  readonly rows: readonly Row[];
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
  const rounded = (_: string, value: unknown) =>
    typeof value === "number" ? Number(value.toPrecision(4)) : value;
  const text = JSON.stringify(results, rounded, 2);
  await Deno.writeTextFile(PATH, `${text}\n`);
  await new Deno.Command(Deno.execPath(), {
    args: ["fmt", "-q", PATH.pathname],
  })
    .output();
}

/** Returns the results with newer rows in their places, which say when they were measured. */
export function withNewer(
  results: Results,
  newer: readonly Row[],
  measuredAt: string,
): Results {
  const rows = results.rows.map((row) => {
    const again = newer.find(({ name }) => name === row.name);
    return again === undefined ? row : { ...again, measuredAt };
  });
  const isKnown = ({ name }: Row) => rows.some((row) => row.name === name);
  const added = newer.filter((row) => !isKnown(row));
  const all = [...rows, ...added.map((row) => ({ ...row, measuredAt }))];
  return { ...results, rows: all };
}

/** Describes this machine. */
export function thisMachine(): Machine {
  return {
    deno: Deno.version.deno,
    os: `${Deno.build.os} ${Deno.build.arch}`,
    cores: cpus().length,
    load: Deno.loadavg()[0] ?? 0,
  };
}
