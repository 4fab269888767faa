/** Compares docs/operations.md and the Grafana dashboard with the code. */
import { assertEquals } from "@std/assert";
import { HEALTH_PROBLEMS } from "../../src/endpoints/health.ts";
import { LABEL_VALUES } from "../../src/endpoints/metrics_endpoint.ts";
import {
  type Instrument,
  INSTRUMENT_NAMES,
  INSTRUMENTS,
} from "../../src/observe/metrics.ts";
import { prometheusName } from "../../src/observe/registry.ts";
import { readLogEvents, readLogLevels } from "./_log_events.ts";

const DOCS = await Deno.readTextFile("docs/operations.md");

/** Returns the cells of the rows of the tables below a heading. */
function rowsOf(heading: string): string[][] {
  const section =
    DOCS.split(/^## /m).find((section) => section.startsWith(`${heading}\n`)) ??
      "";
  const rows = section.split("\n").filter((line) => line.startsWith("| `"));
  return rows.map((row) =>
    row.split(/(?<!\\)\|/).slice(1, -1).map((cell) => cell.trim())
  );
}

/** Returns the name in backticks at the beginning of each row. */
function namesIn(heading: string): string[] {
  return rowsOf(heading).map(([cell = ""]) =>
    /^`([^`]+)`/.exec(cell)?.[1] ?? ""
  ).toSorted();
}

Deno.test("docs/operations.md has a row for every log event, and for no other", async () => {
  assertEquals(namesIn("Log events"), [...await readLogEvents()].toSorted());
});

Deno.test("docs/operations.md has a level, a meaning and what to do for every event, in sentences", () => {
  const incomplete = rowsOf("Log events").filter((
    [, level = "", meaning, action = ""],
  ) =>
    !/^(DEBUG|INFO|WARN|ERROR)(, (DEBUG|WARN))?$/.test(level) ||
    meaning === "" || !/^[A-Z`].*\.$/.test(action)
  );
  assertEquals(incomplete, []);
});

Deno.test("docs/operations.md states the levels at which the code logs", async () => {
  const levels = new Map(
    rowsOf("Log events").map((
      [name = "", level = ""],
    ) => [name.replaceAll("`", ""), level.split(", ")]),
  );
  const wrong = (await readLogLevels()).filter(({ event, level }) =>
    !levels.get(event)?.includes(level)
  );
  assertEquals(wrong, []);
});

Deno.test("docs/operations.md has a row for every metric, with its label, the label's values and its OpenTelemetry name", () => {
  const rows = new Map(
    rowsOf("Metrics").map(([name = "", ...cells]) => [name, cells]),
  );
  for (const name of INSTRUMENT_NAMES) {
    const { labels = "", ...instrument }: Instrument = INSTRUMENTS[name];
    const values = LABEL_VALUES[name] ?? [];
    const [labelCell, meaning = "", action] =
      rows.get(`\`${prometheusName(name, instrument)}\` (\`${name}\`)`) ?? [];
    assertEquals([name, labelCell], [
      name,
      labels.split(" ").filter(Boolean).map((label) => `\`${label}\``).join(
        ", ",
      ),
    ]);
    const missing = values.filter((value) => !meaning.includes(`\`${value}\``));
    assertEquals([name, missing, action === ""], [name, [], false]);
  }
  assertEquals(rows.size, INSTRUMENT_NAMES.length);
});

Deno.test("docs/operations.md has a row for every problem", () => {
  assertEquals(namesIn("Problems"), [...HEALTH_PROBLEMS].toSorted());
});

Deno.test("the Grafana dashboard queries every metric, and only metrics that exist", async () => {
  const dashboard = JSON.parse(
    await Deno.readTextFile("examples/grafana/dashboard.json"),
  );
  const queries = dashboard.panels.flatMap((
    { targets = [] }: { targets?: { expr: string }[] },
  ) => targets.map(({ expr }) => expr)).join("\n");
  const queried = new Set<string>(
    queries.match(/rep_[a-z_]+/g)?.map((name: string) =>
      name.replace(/_bucket$/, "")
    ),
  );
  const metrics = INSTRUMENT_NAMES.map((name) =>
    prometheusName(name, INSTRUMENTS[name])
  );
  assertEquals([...queried].toSorted(), metrics.toSorted());
});
