/**
 * Writes each figure that several pages state into all of them, from its only source:
 *
 *     deno run $(deno run -A tools/std.ts) -A tools/figures.ts
 *
 * A test compares the pages with the sources.
 */
import { quantile } from "../bench/_report.ts";
import { readResults } from "../bench/_results.ts";
import { CLIENT_BR } from "../src/client/bundle.ts";

/** A figure and its places: the patterns match only the figure. */
interface Figure {
  readonly text: string;
  readonly places: readonly (readonly [path: string, place: RegExp])[];
}

/** Readers plan with these figures, so memory is rounded up. */
const STEP_KIB = 1;
const STEP_MIB = 5;
/** What docs/scale.md counts for a process without streams: more than an idle one has, which has not served anything. */
const PROCESS_MIB = 70;

/** Returns all figures, as their sources are now. */
export async function readFigures(): Promise<Figure[]> {
  const { rows } = await readResults();
  const medianOf = (name: string) =>
    quantile(rows.find((row) => row.name === name)?.rounds.gateway ?? [], 0.5);
  return [
    {
      text: `${roundUp(medianOf("stream_memory"), STEP_KIB)} KiB`,
      places: [
        ["README.md", /\d+\s+KiB(?=\s+per\s+open\s+page)/],
        [
          "docs/operations.md",
          /(?<=add\s+memory\s+\()\d+\s+KiB/,
        ],
        ["docs/scale.md", /(?<=each\s+open\s+stream\s+takes\s+)\d+\s+KiB/],
        ["docs/scale.md", /(?<=MiB \+ )\d+\s+KiB/],
        [
          "src/command/options/option_table.ts",
          /(?<=open\s+streams;\s+each\s+takes\s+)\d+\s+KiB/,
        ],
      ],
    },
    {
      text: `${PROCESS_MIB} MiB`,
      places: [
        [
          "README.md",
          /(?<=one\s+process\s+beside\s+each\s+app,\s+with\s+)\d+\s+MiB/,
        ],
        ["docs/scale.md", /\d+\s+MiB(?= \+ \d+\s+KiB)/],
      ],
    },
    {
      text: `${
        formatGib(5_000 * roundUp(medianOf("stream_memory"), STEP_KIB))
      } GiB`,
      places: [["README.md", /[\d.]+\s+GiB(?=\s+for\s+5,000)/]],
    },
    {
      text: `${roundUp(medianOf("idle_memory"), STEP_MIB)} MiB`,
      places: [
        [
          "docs/performance.md",
          /(?<=idle\s+process\s+uses\s+about\s+)\d+\s+MiB/,
        ],
      ],
    },
    {
      text: `${streamsIn(768, medianOf).toLocaleString("en")} open`,
      places: [[
        "docs/scale.md",
        /(?<=with\s+768\s+MiB,\s+about\s+)[\d,]+\s+open/,
      ]],
    },
    {
      text: `${CLIENT_BR.length.toLocaleString("en")} bytes`,
      places: [["README.md", /[\d,]+\s+bytes(?=\s+with\s+Brotli)/]],
    },
  ];
}

/** Returns how many streams fit into so many MiB beside the process itself, in whole hundreds. */
function streamsIn(
  memoryMiB: number,
  medianOf: (row: string) => number,
): number {
  const freeKiB = (memoryMiB - PROCESS_MIB) * 1_024;
  const streams = freeKiB / roundUp(medianOf("stream_memory"), STEP_KIB);
  return Math.floor(streams / 100) * 100;
}

function formatGib(kib: number): string {
  return (kib / 1_024 ** 2).toFixed(1);
}

function roundUp(value: number, step: number): number {
  return Math.ceil(value / step) * step;
}

/** Returns a text with a figure in its place. @throws {TypeError} If the text has no such place. */
function withFigure(
  text: string,
  place: RegExp,
  figure: string,
): string {
  if (!place.test(text)) {
    throw new TypeError(
      `Cannot write ${figure}: expected a text that matches ${place}`,
    );
  }
  return text.replace(place, figure);
}

if (import.meta.main) {
  for (const { text, places } of await readFigures()) {
    for (const [path, place] of places) {
      await Deno.writeTextFile(
        path,
        withFigure(await Deno.readTextFile(path), place, text),
      );
    }
  }
}
