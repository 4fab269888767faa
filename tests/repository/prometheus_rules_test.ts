/** The alerts of examples/prometheus: their series exist, docs/operations.md says what to do, and promtool runs their tests. */
import { assertEquals } from "@std/assert";
import { parse } from "@std/yaml/parse";
import { createGatewayIn } from "../../src/gateway.ts";
import { UNKNOWN_PROCESS } from "../../src/options.ts";
import {
  INSTRUMENT_NAMES,
  INSTRUMENTS,
} from "../../src/core/observe/metrics.ts";
import { prometheusName } from "../../src/addons/metrics/registry.ts";
import { rowsAfter } from "../_markdown.ts";
import { metricsIn } from "./_promql.ts";
import { findProgram } from "../../tools/find_program.ts";

interface Rule {
  alert: string;
  expr: string;
  labels: { severity: string };
  annotations: {
    summary: string;
    runbook_url: string;
  };
}

const FOLDER = "examples/prometheus";

async function readYaml<T>(name: string) {
  return parse(await Deno.readTextFile(`${FOLDER}/${name}`)) as T;
}

const { groups } = await readYaml<{ groups: { rules: Rule[] }[] }>(
  "rules.yaml",
);
const RULES = groups.flatMap(({ rules }) => rules);
const NAMES = RULES.map(({ alert }) => alert).toSorted();

Deno.test("every alert queries series that exist, with a severity and a summary", () => {
  const known = INSTRUMENT_NAMES.map((name) =>
    prometheusName(name, INSTRUMENTS[name])
  );
  const unknown = RULES.flatMap(({ expr }) => metricsIn(expr)).filter((it) =>
    !known.includes(it)
  );
  assertEquals([RULES.length > 5, unknown], [true, []]);
  const incomplete = RULES.filter(({ labels, annotations }) =>
    !["warning", "critical"].includes(labels.severity) ||
    annotations.summary === ""
  );
  assertEquals(incomplete, []);
});

Deno.test("docs/operations.md says what to do about every alert, and each alert links to it", async () => {
  const operations = await Deno.readTextFile("docs/operations.md");
  const rows = rowsAfter("Alerts", operations);
  const names = rows.map(([name = ""]) => name.replaceAll("`", ""));
  assertEquals(names.toSorted(), NAMES);
  assertEquals(
    [...new Set(RULES.map((rule) => rule.annotations.runbook_url))],
    ["docs/operations.md#alerts"],
  );
});

/** Ends with an error, and what promtool says, unless it accepts its input. */
async function runPromtool(args: string[], input = "") {
  const child = new Deno.Command(promtool ?? "", {
    args,
    cwd: FOLDER,
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
  })
    .spawn();
  await new Response(input).body?.pipeTo(child.stdin);
  const { code, stdout, stderr } = await child.output();
  const decoder = new TextDecoder();
  assertEquals(code, 0, decoder.decode(stdout) + decoder.decode(stderr));
}

const promtool = await findProgram("promtool");

/** Registers a test that is ignored without promtool. */
function testPromtool(name: string, fn: () => Promise<void>) {
  const reason = promtool === undefined
    ? "without promtool (Debian's package prometheus): "
    : "";
  Deno.test({ name: `${reason}${name}`, ignore: promtool === undefined, fn });
}

testPromtool(
  "promtool finds the alerts fire as rules_test.yaml says",
  async () => {
    await runPromtool(["check", "rules", "rules.yaml"]);
    await runPromtool(["test", "rules", "rules_test.yaml"]);
  },
);

testPromtool(
  "promtool finds no fault with the metrics of a gateway",
  async () => {
    const process = {
      ...UNKNOWN_PROCESS,
      certificate: {
        ...UNKNOWN_PROCESS.certificate,
        notAfter: () => 1_900_000_000,
      },
    };
    const options = { variables: {}, hotReload: true };
    await using gateway = await createGatewayIn(process, options);
    await (await gateway.fetch(new Request("http://gateway.test/rep/health")))
      .text();
    const response = await gateway.fetchHealth(
      new Request("http://health.test/metrics"),
    );
    await runPromtool(["check", "metrics"], await response.text());
  },
);
