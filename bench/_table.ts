import { growth, GROWTH_SIZES } from "./growth.ts";
import { type Growth, growthReport } from "./_growth.ts";
import { HTTP_SIZES, HTTP_WORK, measureCeiling, measureHttp } from "./http_rows.ts";
import { LARGE_REPLAY_SIZES, largeReplayRow } from "./large_replay.ts";
import type { BenchContext } from "./_programs.ts";
import type { Report } from "./_report.ts";
import { thisMachine, writeResults } from "./_results.ts";
import { type Row, rowReport } from "./_row.ts";
import { readSizes } from "./_sizes.ts";
import { START_SIZES, startRows } from "./start.ts";
import { STREAM_SIZES, streamRows } from "./streams.ts";
import { variableRows, VARIABLES_SIZES } from "./variables.ts";

/** What one benchmark of the table measured. */
interface Part {
  readonly rows: readonly Row[];
  readonly growth: readonly Growth[];
  readonly reports: readonly Report[];
}

/** Measures a part of the table. @param args Its sizes. */
type MeasurePart = (args: readonly string[], context: BenchContext) => Promise<Part>;

/** The parts of the table, in its order. */
export const TABLE: Readonly<Record<string, MeasurePart>> = {
  ceiling: rowsOf(HTTP_SIZES, async (sizes, context) => [await measureCeiling(sizes, context)]),
  ...Object.fromEntries(
    HTTP_WORK.map((work) => [
      work.name,
      rowsOf(HTTP_SIZES, (sizes, context) => measureHttp(work, sizes, context)),
    ]),
  ),
  start: rowsOf(START_SIZES, startRows),
  streams: rowsOf(STREAM_SIZES, streamRows),
  large_replay: rowsOf(LARGE_REPLAY_SIZES, async (sizes) => [await largeReplayRow(sizes)]),
  variables: rowsOf(VARIABLES_SIZES, variableRows),
  growth: async (args, context) => {
    const all = await growth(readSizes(args, GROWTH_SIZES), context);
    return { rows: [], growth: all, reports: all.map(growthReport) };
  },
};

function rowsOf<T extends Record<string, number>>(
  defaults: T,
  measure: (sizes: T, context: BenchContext) => Promise<Row[]>,
): MeasurePart {
  return async (args, context) => {
    const rows = await measure(readSizes(args, defaults), context);
    return { rows, growth: [], reports: rows.map(rowReport) };
  };
}

/** Measures the whole table, and writes the results. A part that fails is skipped. */
export async function runTable(context: BenchContext, print: (report: Report) => void): Promise<void> {
  const run = { measuredAt: new Date().toISOString(), machine: thisMachine() };
  const parts: Part[] = [];
  for (const [name, measure] of Object.entries(TABLE)) {
    try {
      const part = await measure([], context);
      part.reports.forEach(print);
      parts.push(part);
    } catch (error) {
      context.skipped.push(`${name}: ${error instanceof Error ? error.message : error}`);
      Deno.exitCode = 1;
    }
  }
  const { skipped } = context;
  const [rows, growth] = [parts.flatMap(({ rows }) => rows), parts.flatMap(({ growth }) => growth)];
  await writeResults({ ...run, rows, growth, skipped });
  if (skipped.length > 0) print({ title: `Skipped:\n  ${skipped.join("\n  ")}`, figures: [] });
}
