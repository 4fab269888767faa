/** Compares docs/operations.md and the Grafana dashboard with the code. */
import { assertEquals } from "@std/assert";
import { SITE_PROBLEMS } from "../../src/command/sites/sites.ts";
import { BUILDS_PROBLEM } from "../../src/content/builds/kept_builds.ts";
import { HEALTH_PROBLEMS } from "../../src/core/endpoints/health.ts";
import { LABEL_VALUES } from "../../src/addons/metrics/metrics.ts";
import { AUDIT_EVENT } from "../../src/core/observe/log.ts";
import {
  type Instrument,
  INSTRUMENT_NAMES,
  INSTRUMENTS,
} from "../../src/core/observe/metrics.ts";
import { prometheusName } from "../../src/addons/metrics/registry.ts";
import { rowsAfter } from "../_markdown.ts";
import { metricsIn } from "./_promql.ts";
import { readModules } from "./_sources.ts";

const DOCS = await Deno.readTextFile("docs/operations.md");

const CODE = [
  ...(await readModules("src")).values(),
  await Deno.readTextFile("main.ts"),
  await Deno.readTextFile("serve.ts"),
].join("\n");

/** Returns the cells of the rows of the tables below a heading, by the name in backticks at the beginning of each. */
function rowsOf(heading: string): Map<string, string[]> {
  const rows = new Map<string, string[]>();
  for (const [name = "", ...cells] of rowsAfter(heading, DOCS)) {
    rows.set(/^`([^`]+)`/.exec(name)?.[1] ?? name, cells);
  }
  return rows;
}

function namesIn(heading: string): string[] {
  return [...rowsOf(heading).keys()].toSorted();
}

/** An event; the same literal after one of these is the name of a metric. */
const EVENT =
  /(?<!(?:count|record|observe|values|gauges\.set)\(\s*|INSTRUMENTS\[)"(rep\.[a-z_.]+)"(?!:)/g;

Deno.test("docs/operations.md has a row for every log event, and for no other", () => {
  const events = [...CODE.matchAll(EVENT)].map(([, event]) => String(event));
  assertEquals(namesIn("Log events"), [...new Set(events)].toSorted());
});

/** A call such as `log.warn("rep.start.warning"`; events whose level is computed are missing, and the audit event. */
const CALL = /\.(debug|info|warn|error)\(\s*"(rep\.[a-z_.]+)"/g;

Deno.test("docs/operations.md states the levels at which the code logs", () => {
  const rows = rowsOf("Log events");
  const wrong: string[] = [];
  for (const [, level = "", event = ""] of CODE.matchAll(CALL)) {
    const [levels = ""] = rows.get(event) ?? [];
    if (!levels.split(", ").includes(level.toUpperCase())) wrong.push(event);
  }
  assertEquals(wrong, []);
  assertEquals(rows.get(AUDIT_EVENT)?.[0], "INFO");
});

Deno.test("docs/operations.md has a row for every metric, with its label, the label's values and its OpenTelemetry name", () => {
  const rows = new Map(
    rowsAfter("Metrics", DOCS).map(([name = "", ...cells]) => [name, cells]),
  );
  for (const name of INSTRUMENT_NAMES) {
    const { labels = "", ...instrument }: Instrument = INSTRUMENTS[name];
    const otherName = instrument.isPrometheusOnly ? "" : ` (\`${name}\`)`;
    const row = rows.get(
      `\`${prometheusName(name, instrument)}\`${otherName}`,
    );
    const [labelCell = "none", meaning = ""] = row ?? [];
    const labelNames = labels.split(" ").filter(Boolean);
    const expected = labelNames.map((label) => `\`${label}\``).join(", ");
    assertEquals(labelCell, expected, name);
    for (const value of LABEL_VALUES[name] ?? []) {
      assertEquals(meaning.includes(`\`${value}\``), true, `${name} ${value}`);
    }
  }
  assertEquals(rows.size, INSTRUMENT_NAMES.length);
});

Deno.test("docs/operations.md has a row for every problem", () => {
  const problems = [...HEALTH_PROBLEMS, BUILDS_PROBLEM, ...SITE_PROBLEMS];
  assertEquals(namesIn("Problems"), problems.toSorted());
});

Deno.test("the Grafana dashboard queries every metric, and only metrics that exist", async () => {
  const dashboard = await Deno.readTextFile("examples/grafana/dashboard.json");
  const queries = [...dashboard.matchAll(/"expr": "((?:[^"\\]|\\.)*)"/g)];
  const queried = queries.flatMap(([, query = ""]) => metricsIn(query));
  const metrics = INSTRUMENT_NAMES.map((name) =>
    prometheusName(name, INSTRUMENTS[name])
  );
  assertEquals([...new Set(queried)].toSorted(), metrics.toSorted());
});
