/**
 * Writes the tables of docs/performance.md and docs/development/performance.md, and docs/performance.svg, from
 * bench/results.json:
 *
 *     deno run $(deno run -A tools/std.ts) -A tools/performance.ts
 *
 * `deno task bench` does this after a full run. A test compares all of them with the results.
 */
import { type Goal, goalsOf, isMet, valuesFor } from "../bench/_goals.ts";
import {
  figure,
  formatFigure,
  formatNumber,
  quantile,
} from "../bench/_report.ts";
import { readResults, type Results } from "../bench/_results.ts";
import type { Row, Subject } from "../bench/_row.ts";
import { drawPerformance, NGINX_NOTE } from "./performance_picture.ts";

const SUBJECTS: readonly Subject[] = [
  "gateway",
  "floor",
  "no directory",
  "Go gateway",
  "nginx",
];

/** The pages with tables. */
export const PAGES: readonly string[] = [
  "docs/performance.md",
  "docs/development/performance.md",
];

/** The picture of the first one. */
export const PICTURE = "docs/performance.svg";

/** The columns of the table for users who only compare. */
const COMPARED: readonly Subject[] = [
  "gateway",
  "floor",
  "Go gateway",
  "nginx",
];

/** Returns the document with the tables of these results. */
export function withResults(document: string, results: Results): string {
  const blocks = {
    run: runBlock,
    costs: costBlock,
    goals: goalBlock,
    cpu: cpuBlock,
  };
  return Object.entries(blocks).reduce(
    (text, [name, block]) => withBlock(text, name, block(results)),
    document,
  );
}

/** Replaces what is between a block's marker and the end of what `deno fmt` ignores. */
function withBlock(document: string, name: string, text: string): string {
  const marker = `<!-- ${name}: written by tools/performance.ts -->\n`;
  const block = new RegExp(`(${marker})[^]*?(<!-- deno-fmt-ignore-end -->)`);
  return document.replace(
    block,
    (_, start, end) => `${start}\n${text}\n\n${end}`,
  );
}

function runBlock(
  { measuredAt, machine: { deno, os, cores, load }, rows }: Results,
): string {
  const where = `Measured on ${
    dateOf(measuredAt)
  } UTC with Deno ${deno} (${os}, ${cores} cores, load ${
    formatNumber(load)
  } before).`;
  const again = rows.flatMap(({ work, measuredAt }) =>
    measuredAt ? [`- Again on ${dateOf(measuredAt)} UTC: ${work}`] : []
  );
  return [where, ...again].join("\n");
}

function dateOf(time: string): string {
  return time.slice(0, 16).replace("T", " ");
}

/** The rows in which the gateway was compared with a floor, and what nginx does less, where it was measured. */
function costBlock({ rows }: Results): string {
  const measured = rows.filter(({ rounds }) => rounds.gateway && rounds.floor);
  const named = measured.map(({ work, unit, rounds }) => ({
    name: `${work}, ${unit}`,
    rounds,
  }));
  const costs = subjectTable("work, unit", named, COMPARED);
  const hasNginx = measured.some(({ rounds }) => rounds.nginx);
  return hasNginx
    ? `${costs}

${NGINX_NOTE}`
    : costs;
}

function goalBlock({ rows }: Results): string {
  const body = rows.filter((row) => goalsOf(row).length > 0).map((row) => {
    const goals = goalsOf(row);
    return [
      row.work,
      goals.map((goal) => goalText(row, goal)).join(", "),
      nowOf(row),
    ];
  });
  return table(["work", "goal", "now"], body);
}

function goalText({ unit }: Row, { by, atLeast, atMost }: Goal): string {
  const bound = atLeast === undefined
    ? `≤ ${formatNumber(atMost ?? NaN)}`
    : `≥ ${formatNumber(atLeast)}`;
  return `${bound} ${by === undefined ? unit : `× ${by}`}`;
}

function nowOf(row: Row): string {
  const goals = goalsOf(row);
  const verdicts = goals.map((goal) => isMet(row, goal));
  const verdict = verdicts.includes(false)
    ? "**missed**"
    : verdicts.includes(undefined)
    ? "open"
    : "met";
  return `${goals.map((goal) => valueText(row, goal)).join("; ")}: ${verdict}`;
}

function valueText(row: Row, goal: Goal): string {
  const values = valuesFor(row, goal);
  const { by } = goal;
  if (values.length === 0) return `${by ?? "gateway"} not measured`;
  const text = formatFigure(
    figure("", by === undefined ? row.unit : "", values),
  );
  return by === undefined ? text : `${text} × ${by}`;
}

function cpuBlock({ rows }: Results): string {
  const measured = rows.filter(({ cpuUs = {} }) =>
    Object.values(cpuUs).some((values) => values.length > 0)
  );
  return subjectTable(
    "work",
    measured.map(({ work, cpuUs = {} }) => ({ name: work, rounds: cpuUs })),
  );
}

/** The medians, with a column for each of these subjects that was measured in any of the rows. */
function subjectTable(
  head: string,
  rows: readonly { name: string; rounds: Row["rounds"] }[],
  subjects: readonly Subject[] = SUBJECTS,
): string {
  const present = subjects.filter((subject) =>
    rows.some(({ rounds }) => subject in rounds)
  );
  const body = rows.map((
    { name, rounds },
  ) => [name, ...present.map((subject) => medianOf(rounds[subject]))]);
  return table([head, ...present], body);
}

function medianOf(values: readonly number[] | undefined): string {
  return values === undefined ? "" : formatNumber(quantile(values, 0.5));
}

function table(
  head: readonly string[],
  body: readonly (readonly string[])[],
): string {
  return [head, head.map(() => "---"), ...body].map((cells) =>
    `| ${cells.join(" | ")} |`
  ).join("\n");
}

/** Writes the pages and the picture. */
export async function writePerformance(): Promise<void> {
  const results = await readResults();
  for (const page of PAGES) {
    const url = new URL(`../${page}`, import.meta.url);
    await Deno.writeTextFile(
      url,
      withResults(await Deno.readTextFile(url), results),
    );
  }
  const url = new URL(`../${PICTURE}`, import.meta.url);
  await Deno.writeTextFile(url, drawPerformance(results));
}

if (import.meta.main) await writePerformance();
