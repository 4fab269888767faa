import * as Plot from "@observablehq/plot";
import { DOMParser } from "linkedom";
import { fit } from "./_fit.ts";
import { goalsOf } from "./_goals.ts";
import { type Growth, mediansOf } from "./_growth.ts";
import { quantile } from "./_report.ts";
import type { Results } from "./_results.ts";
import { isRate, type Row, type Subject } from "./_row.ts";

/** Readable on white and on black. */
const OUR_COLOR = "#2f81f7";
const COLORS: Readonly<Partial<Record<Subject, string>>> = {
  gateway: OUR_COLOR,
  "no directory": "#79c0ff",
  fetch: "#8b949e",
  "memory store": "#8b949e",
  "Go gateway": "#db6d28",
  nginx: "#2da44e",
  mercure: "#bf5af2",
};
const GOAL_COLOR = "#e5534b";

const WIDTH = 900;
const HEADER_HEIGHT = 56;
const ROW_HEIGHT = 24;
const GROWTH_HEIGHT = 220;

/** Draws the results as SVG, for light and dark backgrounds. */
export function drawPlot({ rows, growth }: Results): string {
  const compared = rows.filter(({ rounds }) =>
    rounds.gateway !== undefined && rounds.floor !== undefined
  );
  const rowsHeight = compared.length * ROW_HEIGHT + 60;
  const parts = [
    heading(
      "Speed, or economy, compared with the floor (1): right is better",
      20,
    ),
    legend(compared, 42),
    at(HEADER_HEIGHT, drawRows(compared, rowsHeight)),
    heading(
      "Cost by size, both relative to the smallest of four sizes; dashed: linear",
      HEADER_HEIGHT + rowsHeight + 20,
    ),
    at(HEADER_HEIGHT + rowsHeight + 30, drawGrowth(growth)),
  ];
  const height = HEADER_HEIGHT + rowsHeight + 40 + GROWTH_HEIGHT;
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" \
font-family="system-ui, sans-serif" font-size="12">
<title>Results of deno task bench</title>
<style>svg { color: #1f2328; } @media (prefers-color-scheme: dark) { svg { color: #e6edf3; } }</style>
${parts.join("\n")}
</svg>
`;
}

function heading(text: string, y: number): string {
  return `<text x="12" y="${y}" font-weight="600" font-size="14" fill="currentColor">${text}</text>`;
}

/** Names the subjects that occur, each beside its color. */
function legend(rows: readonly Row[], y: number): string {
  const present = Object.entries(COLORS).filter(([subject]) =>
    rows.some(({ rounds }) => subject in rounds)
  );
  const items = [...present, ["goal", GOAL_COLOR] as const];
  return items.map(([name, color], index) => {
    const x = 16 + index * 98;
    return `<circle cx="${x}" cy="${y - 4}" r="4" fill="${color}"/><text x="${
      x + 9
    }" y="${y}" fill="currentColor">${name}</text>`;
  }).join("");
}

/** Moves a plot down. */
function at(y: number, plot: string): string {
  return plot.replace("<svg ", `<svg y="${y}" `);
}

/** A subject of a row, as a multiple of the floor's speed. */
interface Comparison {
  readonly work: string;
  readonly subject: Subject;
  readonly median: number;
  readonly least: number;
  readonly most: number;
}

const RATIOS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10];

function drawRows(rows: readonly Row[], height: number): string {
  const all = rows.flatMap(comparisonsOf);
  const goals = rows.flatMap((row) =>
    goalSpeeds(row).map((speed) => ({ work: labelOf(row), speed }))
  );
  return render({
    width: WIDTH,
    height,
    marginLeft: 290,
    marginRight: 24,
    x: {
      type: "log",
      label: null,
      grid: true,
      ticks: RATIOS,
      tickFormat: (value: number) => String(value),
    },
    y: { domain: rows.map(labelOf), label: null, grid: true },
    marks: [
      Plot.ruleX([1], { strokeWidth: 1.5 }),
      Plot.ruleY(all.filter(isGateway), {
        y: "work",
        x1: "least",
        x2: "most",
        stroke: OUR_COLOR,
        strokeWidth: 3,
      }),
      Plot.dot(all.filter((it) => !isGateway(it)), {
        y: "work",
        x: "median",
        fill: colorOf,
        r: 3.5,
      }),
      Plot.dot(all.filter(isGateway), {
        y: "work",
        x: "median",
        fill: OUR_COLOR,
        r: 5,
      }),
      Plot.tickX(goals, {
        y: "work",
        x: "speed",
        stroke: GOAL_COLOR,
        strokeWidth: 2,
        inset: 3,
      }),
    ],
  });
}

function labelOf({ work }: Row): string {
  return work.replaceAll("`", "");
}

function isGateway({ subject }: Comparison): boolean {
  return subject === "gateway";
}

function colorOf({ subject }: Comparison): string {
  return COLORS[subject] ?? "currentColor";
}

function comparisonsOf(row: Row): Comparison[] {
  const floor = row.rounds.floor ?? [];
  return Object.entries(row.rounds).filter(([subject]) => subject !== "floor")
    .map(([subject, values]) => {
      const speeds = values.map((value, index) =>
        speedOf(row, value, Number(floor[index]))
      );
      const [least, most] = [Math.min(...speeds), Math.max(...speeds)];
      return {
        work: labelOf(row),
        subject: subject as Subject,
        median: quantile(speeds, 0.5),
        least,
        most,
      };
    });
}

function speedOf(row: Row, value: number, floor: number): number {
  return isRate(row) ? value / floor : floor / value;
}

/** The goals of a row as multiples of the floor's speed, except those that name a peer. */
function goalSpeeds(row: Row): number[] {
  const floor = quantile(row.rounds.floor ?? [], 0.5);
  return goalsOf(row).filter(({ by }) => by === undefined || by === "floor")
    .map(({ by, atLeast, atMost }) => {
      const limit = atLeast ?? atMost ?? NaN;
      return speedOf(row, by === "floor" ? limit * floor : limit, floor);
    });
}

function drawGrowth(growth: readonly Growth[]): string {
  const points = growth.flatMap((it) => {
    const medians = mediansOf(it);
    const [first = { size: 1, cost: 1 }] = medians;
    return medians.map(({ size, cost }) => ({
      name: it.work,
      size: size / first.size,
      cost: cost / first.cost,
    }));
  });
  const texts = growth.map((it) => ({
    name: it.work,
    text: `exponent ${fit(mediansOf(it)).exponent.toFixed(2)}`,
  }));
  return render({
    width: WIDTH,
    height: GROWTH_HEIGHT,
    marginTop: 40,
    marginLeft: 40,
    fx: {
      label: null,
      domain: growth.map(({ work }) => work),
      tickFormat: wrapped,
    },
    x: {
      type: "log",
      label: null,
      grid: true,
      ticks: [1, 2, 4, 8, 16, 64],
      tickFormat: (value: number) => String(value),
    },
    y: {
      type: "log",
      label: null,
      grid: true,
      ticks: [1, 4, 16, 64],
      tickFormat: (value: number) => String(value),
    },
    marks: [
      Plot.line(points, {
        fx: "name",
        x: "size",
        y: "size",
        strokeDasharray: "3 3",
        strokeOpacity: 0.5,
      }),
      Plot.line(points, {
        fx: "name",
        x: "size",
        y: "cost",
        stroke: OUR_COLOR,
        marker: "dot",
        strokeWidth: 2,
      }),
      Plot.text(texts, {
        fx: "name",
        text: "text",
        frameAnchor: "top-left",
        dx: 4,
        dy: 4,
      }),
    ],
  });
}

/** Breaks a title into lines at commas. */
function wrapped(title: string): string {
  return title.replace(", ", ",\n");
}

function render(options: Plot.PlotOptions): string {
  const document = new DOMParser().parseFromString(
    "<html></html>",
    "text/html",
  );
  return Plot.plot({ ...options, document }).outerHTML;
}
