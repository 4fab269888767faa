import { assertEquals } from "@std/assert";
import { goalsOf, isMet } from "../../bench/_goals.ts";
import { drawPlot } from "../../bench/_plot.ts";
import {
  mergeResults,
  readResults,
  type Results,
} from "../../bench/_results.ts";
import type { Row } from "../../bench/_row.ts";
import { TABLE } from "../../bench/_table.ts";
import { PAGES, withResults } from "../../tools/performance.ts";

const REFRESH =
  "run: deno run $(deno run -A tools/std.ts) -A tools/performance.ts";
const DOCUMENT = await Deno.readTextFile("docs/development/performance.md");

function rowOf(name: string, rounds: Row["rounds"], unit = "requests/s"): Row {
  return { name, work: name, unit, rounds };
}

function resultsOf(...rows: Row[]): Results {
  const machine = { deno: "2.9.6", os: "linux x86_64", cores: 2, load: 0.1 };
  const points = [1, 2, 4, 8].map((size) => ({ size, rounds: [3 * size] }));
  const growth = [{
    name: "publish",
    work: "publish",
    sizeUnit: "change",
    unit: "ms",
    points,
  }];
  return {
    measuredAt: "2026-11-21T20:15:00.000Z",
    machine,
    rows,
    growth,
    skipped: ["mercure: it is missing"],
  };
}

/** Returns the lines that differ from the document when these results are written into it. */
function linesWith(results: Results): string[] {
  return withResults(DOCUMENT, results).split("\n").filter((line) =>
    !DOCUMENT.split("\n").includes(line)
  );
}

Deno.test("the pages about performance contain the tables that bench/results.json yields", async () => {
  const results = await readResults();
  for (const page of PAGES) {
    const document = await Deno.readTextFile(page);
    assertEquals(withResults(document, results), document, REFRESH);
    assertEquals(withResults(document, resultsOf()) === document, false, page);
  }
});

Deno.test("docs/performance.svg is what bench/results.json yields", async () => {
  const drawn = drawPlot(await readResults());
  assertEquals(
    drawn === await Deno.readTextFile("docs/performance.svg"),
    true,
    REFRESH,
  );
});

Deno.test("docs/development/performance.md names every row that can be run alone", () => {
  assertEquals(
    Object.keys(TABLE).filter((name) => !DOCUMENT.includes(`\`${name}\``)),
    [],
  );
});

Deno.test("withResults() says which goals are met, missed, and not measured", () => {
  const lines = linesWith(resultsOf(
    rowOf("health", { gateway: [90, 80, 85], floor: [100, 100, 100] }),
    rowOf("static_page", { gateway: [50], floor: [100], "Go gateway": [10] }),
    rowOf("static_asset", { gateway: [90], floor: [100] }),
    rowOf(
      "start",
      { gateway: [54.99], floor: [20], "no directory": [50] },
      "ms",
    ),
    rowOf("idle_memory", { gateway: [54.99] }, "MiB"),
  ));
  const now = (work: string) =>
    lines.find((line) => line.startsWith(`| ${work}`))?.split("|").at(-2)
      ?.trim();
  assertEquals(now("health"), "0.85 (0.8 to 0.9) × floor: met");
  assertEquals(now("static_page"), "0.5 × floor; 5 × Go gateway: **missed**");
  assertEquals(
    now("static_asset"),
    "0.9 × floor; Go gateway not measured: open",
  );
  assertEquals(now("start"), "2.75 × floor; 1.1 × no directory: met");
  assertEquals(now("idle_memory"), "55 MiB: met");
});

Deno.test("withResults() writes the run, the CPU time and the growth", () => {
  const row = rowOf("health", {
    gateway: [90, 80, 85],
    floor: [100, 100, 100],
  });
  const lines = linesWith(
    resultsOf({ ...row, cpuUs: { gateway: [16, 17, 18], floor: [8, 8, 8] } }),
  );
  for (
    const line of [
      "Measured on 2026-11-21 20:15 UTC with Deno 2.9.6 (linux x86_64, 2 cores, load 0.1 before).",
      "- Skipped: mercure: it is missing",
      "| health | 17 | 8 |",
      "| publish | 1: 3 ms, 2: 6 ms, 4: 12 ms, 8: 24 ms | 1 | 1 | change: 3 ms |",
    ]
  ) assertEquals(lines.includes(line), true, line);
});

Deno.test("withResults() writes the medians of what can be compared", async () => {
  const row = rowOf("health", {
    gateway: [90, 80, 85],
    floor: [100, 100, 100],
    fetch: [1],
    nginx: [300, 200, 400],
  });
  const text = withResults(
    await Deno.readTextFile("docs/performance.md"),
    resultsOf(row, rowOf("alone", { gateway: [1] })),
  );
  const rows = text.split("\n").filter((line) => line.startsWith("|"));
  assertEquals(rows, [
    "| work, unit | gateway | floor | nginx |",
    "| --- | --- | --- | --- |",
    "| health, requests/s | 85 | 100 | 300 |",
  ]);
});

Deno.test("mergeResults() replaces and adds rows, says when, and skips the part no more", () => {
  const [health, start] = [
    rowOf("health", { gateway: [1] }),
    rowOf("start", { gateway: [2] }),
  ];
  const [newHealth, asset] = [
    rowOf("health", { gateway: [3] }),
    rowOf("static_asset", { gateway: [4] }),
  ];
  const growth = resultsOf().growth.map((it) => ({ ...it, work: "newer" }));
  const measuredAt = "2026-11-21T21:30:00.000Z";
  const older = {
    ...resultsOf(health, start),
    skipped: ["mercure: it is missing", "static_asset: it failed"],
  };
  const merged = mergeResults(older, {
    ...resultsOf(newHealth, asset),
    growth,
    measuredAt,
  }, "static_asset");
  assertEquals(merged.rows, [{ ...newHealth, measuredAt }, {
    ...asset,
    measuredAt,
  }, start]);
  assertEquals(merged.growth.map(({ work }) => work), ["newer"]);
  assertEquals(merged.skipped, ["mercure: it is missing"]);
  assertEquals(
    linesWith(merged).includes("- Again on 2026-11-21 21:30 UTC: health"),
    true,
  );
});

Deno.test("isMet() compares the median with the bounds of a goal, both included", () => {
  const row = rowOf("health", {
    gateway: [1, 80, 1_000],
    floor: [100, 100, 100],
  });
  assertEquals(isMet(row, { by: "floor", atLeast: 0.8 }), true);
  assertEquals(isMet(row, { by: "floor", atLeast: 0.81 }), false);
  assertEquals([isMet(row, { atMost: 80 }), isMet(row, { atMost: 79 })], [
    true,
    false,
  ]);
  assertEquals(isMet(row, { by: "mercure", atMost: 1 }), undefined);
});

Deno.test("every row of the table but the ceiling has a goal", async () => {
  const { rows } = await readResults();
  assertEquals(
    rows.filter((row) => goalsOf(row).length === 0).map(({ name }) => name),
    ["ceiling"],
  );
});

Deno.test("drawPlot() draws every row and every growth, for light and dark backgrounds", () => {
  const results = resultsOf(
    rowOf("health", {
      gateway: [90, 80, 85],
      floor: [100, 100, 100],
      nginx: [200, 200, 200],
    }),
    rowOf("start", { gateway: [50], floor: [25] }, "ms"),
  );
  const svg = drawPlot(results);
  const texts = [...svg.matchAll(/<text[^>]*>([^<]+)<\/text>/g)].map((
    [, text],
  ) => text);
  for (
    const text of [
      "health",
      "start",
      "publish",
      "exponent 1.00",
      "gateway",
      "nginx",
      "goal",
    ]
  ) {
    assertEquals(texts.includes(text), true, text);
  }
  assertEquals(svg.includes("prefers-color-scheme: dark"), true);
  assertEquals(texts.includes("mercure"), false);
});
