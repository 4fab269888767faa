import { growth, GROWTH_SIZES } from "./growth.ts";
import { type Growth, growthReport } from "./_growth.ts";
import { HTTP_SIZES } from "./_http_load.ts";
import { measureCeiling, measureHttp } from "./http_rows.ts";
import { HTTP_WORK } from "./_http_work.ts";
import { LARGE_REPLAY_SIZES, largeReplayRow } from "./large_replay.ts";
import type { BenchContext } from "./_programs.ts";
import type { Report } from "./_report.ts";
import { type Results, thisMachine } from "./_results.ts";
import { type Row, rowReport } from "./_row.ts";
import { readGivenSizes, type Sizes } from "./_sizes.ts";
import { START_SIZES, startRows } from "./start.ts";
import { STREAM_SIZES, streamRows } from "./streams.ts";
import { variableRows, VARIABLES_SIZES } from "./variables.ts";

/** What one benchmark of the table measured. */
interface Part {
  readonly rows: readonly Row[];
  readonly growth: readonly Growth[];
}

/** A part of the table, which can be measured alone. */
interface TablePart {
  /** The sizes that it has. */
  readonly names: readonly string[];
  /** @param given Some of its sizes; the others have their defaults. */
  measure(given: Sizes, context: BenchContext): Promise<Part>;
}

/** The parts of the table, in its order. */
export const TABLE: Readonly<Record<string, TablePart>> = {
  ceiling: rowsOf(
    HTTP_SIZES,
    async (sizes, context) => [await measureCeiling(sizes, context)],
  ),
  ...Object.fromEntries(
    HTTP_WORK.map((work) => [
      work.name,
      rowsOf(HTTP_SIZES, (sizes, context) => measureHttp(work, sizes, context)),
    ]),
  ),
  start: rowsOf(START_SIZES, startRows),
  streams: rowsOf(STREAM_SIZES, streamRows),
  large_replay: rowsOf(
    LARGE_REPLAY_SIZES,
    async (sizes) => [await largeReplayRow(sizes)],
  ),
  variables: rowsOf(VARIABLES_SIZES, variableRows),
  growth: {
    names: Object.keys(GROWTH_SIZES),
    measure: async (given, context) => {
      return {
        rows: [],
        growth: await growth({ ...GROWTH_SIZES, ...given }, context),
      };
    },
  },
};

function rowsOf<T extends Sizes>(
  defaults: T,
  measure: (sizes: T, context: BenchContext) => Promise<Row[]>,
): TablePart {
  return {
    names: Object.keys(defaults),
    measure: async (given, context) => {
      return {
        rows: await measure({ ...defaults, ...given }, context),
        growth: [],
      };
    },
  };
}

/** How parts are measured. */
interface MeasureOptions {
  /** Sizes for all parts that have them. */
  readonly sizes: readonly string[];
  readonly context: BenchContext;
  readonly print: (report: Report) => void;
}

/**
 * Measures parts of the table. One that fails is skipped.
 *
 * @throws {RangeError} If none of the parts has one of the sizes.
 */
export async function measureTable(
  names: readonly string[],
  { sizes, context, print }: MeasureOptions,
): Promise<Results> {
  const run = { measuredAt: new Date().toISOString(), machine: thisMachine() };
  const chosen = Object.entries(TABLE).filter(([name]) => names.includes(name));
  const given = readGivenSizes(sizes, [
    ...new Set(chosen.flatMap(([, { names }]) => names)),
  ]);
  const parts: Part[] = [];
  for (const [name, { names, measure }] of chosen) {
    const own = Object.fromEntries(
      Object.entries(given).filter(([name]) => names.includes(name)),
    );
    try {
      const part = await measure(own, context);
      parts.push(part);
      [...part.rows.map(rowReport), ...part.growth.map(growthReport)].forEach(
        print,
      );
    } catch (error) {
      context.skipped.push(
        `${name}: ${error instanceof Error ? error.message : error}`,
      );
      Deno.exitCode = 1;
    }
  }
  const [rows, growth] = [
    parts.flatMap(({ rows }) => rows),
    parts.flatMap(({ growth }) => growth),
  ];
  return { ...run, rows, growth, skipped: context.skipped };
}
