/**
 * Writes the tables of docs/performance.md and draws docs/performance.svg, both from bench/results.json:
 *
 *     deno run $(deno run -A tools/std.ts) -A tools/performance.ts
 *
 * `deno task bench` does this after a full run. A test compares the tables with the results.
 */
import { fit } from "../bench/_fit.ts";
import { type Goal, goalsOf, isMet, valuesFor } from "../bench/_goals.ts";
import { type Growth, mediansOf } from "../bench/_growth.ts";
import { figure, formatFigure, formatNumber } from "../bench/_report.ts";
import { readResults, type Results } from "../bench/_results.ts";
import type { Row, Subject } from "../bench/_row.ts";

/**
 * What was measured before the work on performance began, and its goals: the name of the row, the work, ours / floor,
 * ours / Go gateway, nginx, and the goal.
 */
const BEFORE = [
  ["health", "`/rep/health`", "0.47", "0.80", "–", "≥ 0.8 of the floor"],
  [
    "static_page",
    "static page of 11 KB with payload",
    "0.08 (3,000/s)",
    "0.30",
    "75,000/s with `sub_filter`",
    "≥ 0.8 of the floor, > 3 × Go",
  ],
  ["static_asset", "static asset of 100 KB", "0.18", "0.43", "30,000/s", "≥ 0.8 of the floor, > 2 × Go"],
  ["limited_key", "session key, client over its limit", "0.14", "0.38", "–", "≥ 0.8 of the floor"],
  [
    "distinct_keys",
    "session key, distinct clients, KV file",
    "1,700/s (memory store: 7,400/s)",
    "0.05 (its limiter is in memory)",
    "–",
    "≥ 10,000/s on a KV file",
  ],
  ["proxied_page", "proxied page of 11 KB", "0.49", "0.65", "40,000/s", "≥ 0.9 of the floor, faster than Go"],
  ["proxied_asset", "proxied asset of 100 KB", "0.82", "1.0", "10,000/s", "≥ 0.95 of the floor, faster than Go"],
  ["start", "start to first response", "101 ms vs. 26 ms (hello server)", "vs. 6 ms", "–", "≤ 55 ms"],
  ["idle_memory", "idle memory", "58 MiB vs. 30 MiB", "vs. 9 MiB", "–", "≤ 45 MiB"],
  [
    "last_delivery",
    "1 event to 5,000 streams, last delivery",
    "79 ms vs. 66 ms",
    "vs. 68 ms (mercure 64 ms)",
    "–",
    "≤ 1.1 × floor",
  ],
  ["stream_open", "CPU to open a stream", "135–240 µs vs. 92–160 µs", "vs. 80 µs", "–", "≤ 1.3 × floor"],
  [
    "stream_memory",
    "memory per idle stream",
    "65 KiB vs. 62 KiB",
    "vs. 28 KiB (mercure 39 KiB)",
    "–",
    "≤ 1.1 × floor",
  ],
  ["large_replay", "replay of 820 events of 60 KB from the store", "7 s of CPU", "–", "–", "< 0.3 s"],
  ["start_many", "start with 10,000 variables", "quadratic (90,000: 51 s)", "–", "–", "linear, < 1 s"],
  ["reload_many", "reload with 10,000 variables", "quadratic", "–", "–", "linear, < 1 s"],
] as const;

const SUBJECTS: readonly Subject[] = [
  "gateway",
  "floor",
  "fetch",
  "memory store",
  "Go gateway",
  "mercure",
  "nginx",
];

/** Returns the document with the tables of these results. */
export function withResults(document: string, results: Results): string {
  const blocks = { run: runBlock, goals: goalBlock, figures: figureBlock, cpu: cpuBlock, growth: growthBlock };
  return Object.entries(blocks).reduce((text, [name, block]) => withBlock(text, name, block(results)), document);
}

/** Replaces what is between a block's marker and the end of what `deno fmt` ignores. */
function withBlock(document: string, name: string, text: string): string {
  const marker = `<!-- ${name}: written by tools/performance.ts -->\n`;
  const block = new RegExp(`(${marker})[^]*?(<!-- deno-fmt-ignore-end -->)`);
  return document.replace(block, (_, start, end) => `${start}\n${text}\n\n${end}`);
}

function runBlock({ measuredAt, machine: { deno, os, cores, load }, rows, skipped }: Results): string {
  const where = `Measured on ${dateOf(measuredAt)} UTC with Deno ${deno} (${os}, ${cores} cores, load ${
    formatNumber(load)
  } before).`;
  const again = rows.flatMap(({ work, measuredAt }) =>
    measuredAt ? [`- Again on ${dateOf(measuredAt)} UTC: ${work}`] : []
  );
  return [where, ...again, ...skipped.map((reason) => `- Skipped: ${reason}`)].join("\n");
}

function dateOf(time: string): string {
  return time.slice(0, 16).replace("T", " ");
}

function goalBlock({ rows }: Results): string {
  const head = ["work", "ours / floor, before", "ours / Go gateway", "nginx, for scale", "goal", "now"];
  const body = BEFORE.map(([name, ...cells]) => [...cells, nowOf(rows.find((row) => row.name === name))]);
  return table(head, body);
}

function nowOf(row: Row | undefined): string {
  if (row === undefined) return "not measured";
  const goals = goalsOf(row);
  const verdicts = goals.map((goal) => isMet(row, goal));
  const verdict = verdicts.includes(false) ? "**missed**" : verdicts.includes(undefined) ? "open" : "met";
  return `${goals.map((goal) => valueText(row, goal)).join("; ")}: ${verdict}`;
}

function valueText(row: Row, goal: Goal): string {
  const values = valuesFor(row, goal);
  const { by } = goal;
  if (values.length === 0) return `${by ?? "gateway"} not measured`;
  const text = formatFigure(figure("", by === undefined ? row.unit : "", values));
  return by === undefined ? text : `${text} × ${by}`;
}

function figureBlock({ rows }: Results): string {
  return subjectTable("work, unit", rows.map(({ work, unit, rounds }) => ({ name: `${work}, ${unit}`, rounds })));
}

function cpuBlock({ rows }: Results): string {
  const measured = rows.filter(({ cpuUs = {} }) => Object.values(cpuUs).some((values) => values.length > 0));
  return subjectTable("work", measured.map(({ work, cpuUs = {} }) => ({ name: work, rounds: cpuUs })));
}

/** A column for each subject that any of the rows has. */
function subjectTable(head: string, rows: readonly { name: string; rounds: Row["rounds"] }[]): string {
  const present = SUBJECTS.filter((subject) => rows.some(({ rounds }) => subject in rounds));
  const body = rows.map(({ name, rounds }) => [
    name,
    ...present.map((subject) => rounds[subject] === undefined ? "" : formatFigure(figure("", "", rounds[subject]))),
  ]);
  return table([head, ...present], body);
}

function growthBlock({ growth }: Results): string {
  return table(["work", "measured", "exponent", "R²", "one more"], growth.map(growthRow));
}

function growthRow(growth: Growth): string[] {
  const medians = mediansOf(growth);
  const { exponent, slope, r2 } = fit(medians);
  const points = medians.map(({ size, cost }) => `${formatNumber(size)}: ${formatNumber(cost)} ${growth.unit}`);
  const more = `${growth.sizeUnit}: ${formatNumber(slope)} ${growth.unit}`;
  return [growth.work, points.join(", "), formatNumber(exponent), formatNumber(r2), more];
}

function table(head: readonly string[], body: readonly (readonly string[])[]): string {
  return [head, head.map(() => "---"), ...body].map((cells) => `| ${cells.join(" | ")} |`).join("\n");
}

/** Writes the document and the plot. */
export async function writePerformance(): Promise<void> {
  const results = await readResults();
  const document = new URL("../docs/performance.md", import.meta.url);
  await Deno.writeTextFile(document, withResults(await Deno.readTextFile(document), results));
  const { drawPlot } = await import("../bench/_plot.ts"); // its packages are not needed for the tables
  await Deno.writeTextFile(new URL("../docs/performance.svg", import.meta.url), drawPlot(results));
}

if (import.meta.main) await writePerformance();
