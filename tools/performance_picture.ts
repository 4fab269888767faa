import { HTTP_SIZES } from "../bench/http.ts";
import { formatNumber, quantile } from "../bench/_report.ts";
import type { Results } from "../bench/_results.ts";
import type { Row, Subject } from "../bench/_row.ts";

/** The rows that everyone understands, and what the picture calls them. */
const HEADINGS = {
  static_page: "Page of 11 KB with its configuration",
  static_asset: "File of 100 KB",
  proxied_page: "Page of 11 KB from an upstream",
};

/** The subjects that have a bar, and what the picture calls them. */
const LABELS: Partial<Record<Subject, string>> = {
  "gateway": "this gateway",
  "Go gateway": "REP's Go gateway",
  "nginx": "nginx",
};

/** What nginx does less. */
export const NGINX_NOTE =
  "nginx inserts nothing: its file contains the values, and it passes the upstream's page on.";

const LEFT = 24;
const BAR_LEFT = 172;
/** This leaves room for the number after the longest bar. */
const MAX_BAR_WIDTH = 540;
const BAR_HEIGHT = 18;
/** Between the upper edges of two bars. */
const BAR_STEP = 24;
/** Between a bar and the heading of the next group. */
const GROUP_GAP = 32;
/** From the upper edge of a bar to the baseline of its texts, and of the heading above it. */
const BASELINE = 14;
const HEADING_BASELINE = -10;
const FIRST_BAR_TOP = 92;
const NOTE_STEP = 20;

/** A row of the picture: what a subject does in a second. */
interface Bar {
  readonly subject: string;
  readonly label: string;
  readonly perSecond: number;
}

/** Returns the picture of docs/performance.md. Its background is white, so that it is readable on every page. */
export function drawPerformance(results: Results): string {
  const names = Object.keys(HEADINGS);
  const rows = results.rows.filter(({ name }) => names.includes(name));
  const bars = rows.flatMap(barsOf);
  const most = Math.max(...bars.map(({ perSecond }) => perSecond));
  const shapes: string[] = [];
  let top = FIRST_BAR_TOP;
  for (const row of rows) {
    const heading = HEADINGS[row.name as keyof typeof HEADINGS];
    shapes.push(text("heading", LEFT, top + HEADING_BASELINE, heading));
    for (const { subject, label, perSecond } of barsOf(row)) {
      const width = Math.round(perSecond / most * MAX_BAR_WIDTH);
      const fill = subject === "gateway" ? "ours" : "other";
      const size = `width="${width}" height="${BAR_HEIGHT}"`;
      const number = formatNumber(perSecond);
      shapes.push(
        text("label", LEFT, top + BASELINE, label),
        `<rect class="${fill}" x="${BAR_LEFT}" y="${top}" ${size} />`,
        text("label", BAR_LEFT + width + 8, top + BASELINE, number),
      );
      top += BAR_STEP;
    }
    top += GROUP_GAP;
  }
  for (const note of notesOf(results, rows)) {
    shapes.push(text("note", LEFT, top, note));
    top += NOTE_STEP;
  }
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 800 ${top}" role="img"
  font-family="system-ui, sans-serif" font-size="15">
  <title>Requests per second of the gateway and others</title>
  <style>
  text {
    fill: #0f172a;
  }
  .title {
    font-size: 18px;
    font-weight: 600;
  }
  .heading {
    font-weight: 600;
  }
  .note {
    font-size: 13.5px;
    fill: #475569;
  }
  .ours {
    fill: #0284c7;
  }
  .other {
    fill: #94a3b8;
  }
  </style>
  <rect width="800" height="${top}" rx="8" fill="#ffffff" />
  ${text("title", LEFT, 40, "Requests per second: a longer bar is faster")}
  ${shapes.join("\n  ")}
</svg>
`;
}

/** Returns a bar for each subject that was measured. */
function barsOf({ rounds }: Row): Bar[] {
  return Object.entries(LABELS).flatMap(([subject, label]) => {
    const values = rounds[subject as Subject];
    if (values === undefined) return [];
    return [{ subject, label, perSecond: quantile(values, 0.5) }];
  });
}

/** Returns when and how the rows were measured. */
function notesOf(
  { measuredAt, machine }: Results,
  rows: readonly Row[],
): string[] {
  const days = rows.map((row) => (row.measuredAt ?? measuredAt).slice(0, 10));
  const [first, ...others] = [...new Set(days.toSorted())];
  const last = others.length === 0 ? "" : ` to ${others.at(-1)}`;
  const notes = [
    `Measured on ${first}${last} with Deno ${machine.deno} (${machine.os}, ${machine.cores} cores).`,
    `One process each, ${HTTP_SIZES.connections} connections from the same machine; medians.`,
  ];
  if (rows.some(({ rounds }) => rounds.nginx)) notes.push(NGINX_NOTE);
  return notes;
}

function text(kind: string, x: number, y: number, content: string): string {
  return `<text class="${kind}" x="${x}" y="${y}">${content}</text>`;
}
