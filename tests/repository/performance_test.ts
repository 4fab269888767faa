import { assertEquals } from "@std/assert";
import { goalsOf, isMet } from "../../bench/_goals.ts";
import { readResults, type Results, withNewer } from "../../bench/_results.ts";
import type { Row } from "../../bench/_row.ts";
import { TABLE } from "../../bench/main.ts";
import { PAGES, withResults } from "../../tools/performance.ts";

const REFRESH =
  "run: deno run $(deno run -A tools/std.ts) -A tools/performance.ts";
const DOCUMENT = await Deno.readTextFile("docs/development/performance.md");

function rowOf(name: string, rounds: Row["rounds"], unit = "requests/s"): Row {
  return { name, work: name, unit, rounds };
}

function resultsOf(...rows: Row[]): Results {
  const machine = { deno: "2.9.6", os: "linux x86_64", cores: 2, load: 0.1 };
  return {
    measuredAt: "2026-11-21T20:15:00.000Z",
    machine,
    rows,
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

Deno.test("docs/development/performance.md names every row that can be run alone", () => {
  assertEquals(
    [...TABLE.keys()].filter((name) => !DOCUMENT.includes(`\`${name}\``)),
    [],
  );
});

Deno.test("withResults() says which goals are met, missed, and not measured", () => {
  const lines = linesWith(resultsOf(
    rowOf("limited_key", { gateway: [90, 80, 85], floor: [100, 100, 100] }),
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
  assertEquals(now("limited_key"), "0.85 (0.8 to 0.9) × floor: met");
  assertEquals(now("static_page"), "0.5 × floor; 5 × Go gateway: **missed**");
  assertEquals(
    now("static_asset"),
    "0.9 × floor; Go gateway not measured: open",
  );
  assertEquals(now("start"), "2.75 × floor; 1.1 × no directory: met");
  assertEquals(now("idle_memory"), "55 MiB: met");
});

Deno.test("withResults() writes the run and the CPU time", () => {
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
      "| health | 17 | 8 |",
    ]
  ) assertEquals(lines.includes(line), true, line);
});

Deno.test("withResults() writes the medians of what can be compared", async () => {
  const row = rowOf("health", {
    gateway: [90, 80, 85],
    floor: [100, 100, 100],
    "no directory": [1],
    "Go gateway": [300, 200, 400],
  });
  const text = withResults(
    await Deno.readTextFile("docs/performance.md"),
    resultsOf(row, rowOf("alone", { gateway: [1] })),
  );
  const rows = text.split("\n").filter((line) => line.startsWith("|"));
  assertEquals(rows, [
    "| work, unit | gateway | floor | Go gateway |",
    "| --- | --- | --- | --- |",
    "| health, requests/s | 85 | 100 | 300 |",
  ]);
});

Deno.test("isMet() compares the median with the bounds of a goal, both included", () => {
  const row = rowOf("health", {
    gateway: [1, 80, 1_000],
    floor: [100, 100, 100],
  });
  assertEquals(isMet(row, { row: "health", by: "floor", atLeast: 0.8 }), true);
  assertEquals(
    isMet(row, { row: "health", by: "floor", atLeast: 0.81 }),
    false,
  );
  assertEquals([
    isMet(row, { row: "health", atMost: 80 }),
    isMet(row, { row: "health", atMost: 79 }),
  ], [
    true,
    false,
  ]);
  assertEquals(
    isMet(row, { row: "health", by: "Go gateway", atMost: 1 }),
    undefined,
  );
});

Deno.test("every row of the results has a goal", async () => {
  const { rows } = await readResults();
  const without = rows.filter((row) => goalsOf(row).length === 0);
  assertEquals(without.map(({ name }) => name), []);
});

Deno.test("withNewer() replaces rows in their places, and says when", () => {
  const health = rowOf("health", { gateway: [1] });
  const start = rowOf("start", { gateway: [2] });
  const measuredAt = "2026-11-21T21:30:00.000Z";
  const newer = rowOf("health", { gateway: [3] });
  const merged = withNewer(resultsOf(health, start), [newer], measuredAt);
  assertEquals(merged.rows, [{ ...newer, measuredAt }, start]);
  assertEquals(
    linesWith(merged).includes("- Again on 2026-11-21 21:30 UTC: health"),
    true,
  );
});
