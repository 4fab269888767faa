/** The alerts of examples/prometheus: their series exist, docs/operations.md says what to do, and promtool runs their tests. */
import { assertEquals } from "@std/assert";
import { parse } from "@std/yaml/parse";
import { INSTRUMENT_NAMES, INSTRUMENTS } from "../src/observe/instruments.ts";
import { prometheusName } from "../src/observe/prometheus.ts";
import { findProgram, foldersOnPath, THIS_MACHINE } from "../tools/find_program.ts";

interface Rule {
  readonly alert: string;
  readonly expr: string;
  readonly labels: { readonly severity: string };
  readonly annotations: { readonly summary: string; readonly runbook_url: string };
}

interface AlertTest {
  readonly alertname: string;
  readonly exp_alerts?: readonly unknown[];
}

const FOLDER = "examples/prometheus";

async function readYaml<T>(name: string): Promise<T> {
  return parse(await Deno.readTextFile(`${FOLDER}/${name}`)) as T;
}

const { groups } = await readYaml<{ groups: { rules: Rule[] }[] }>("rules.yaml");
const RULES = groups.flatMap(({ rules }) => rules);
const NAMES = RULES.map(({ alert }) => alert).toSorted();

Deno.test("every alert queries series that exist, with a severity and a summary", () => {
  const known = INSTRUMENT_NAMES.map((name) => prometheusName(name, INSTRUMENTS[name]));
  const unknown = RULES.flatMap(({ expr }) => expr.match(/\brep_[a-z_]+/g) ?? []).filter((it) => !known.includes(it));
  assertEquals([RULES.length > 5, unknown], [true, []]);
  const incomplete = RULES.filter(({ labels, annotations }) =>
    !["warning", "critical"].includes(labels.severity) || annotations.summary === ""
  );
  assertEquals(incomplete, []);
});

Deno.test("docs/operations.md says what to do about every alert, and each alert links to it", async () => {
  const [, section = ""] = (await Deno.readTextFile("docs/operations.md")).split("\n## Alerts\n");
  const rows = (section.split("\n## ")[0] ?? "").split("\n").filter((line) => line.startsWith("| `"));
  const cells = rows.map((row) => row.split(/(?<!\\)\|/).slice(1, -1).map((cell) => cell.trim()));
  assertEquals(cells.map(([name = ""]) => name.replaceAll("`", "")).toSorted(), NAMES);
  assertEquals(cells.filter(([, when, action = ""]) => when === "" || !/^[A-Z].*\.$/.test(action)), []);
  assertEquals([...new Set(RULES.map((rule) => rule.annotations.runbook_url))], ["docs/operations.md#alerts"]);
});

Deno.test("every alert is tested as it fires, and as it does not", async () => {
  const { tests } = await readYaml<{ tests: { alert_rule_test: AlertTest[] }[] }>("rules_test.yaml");
  const all = tests.flatMap(({ alert_rule_test }) => alert_rule_test);
  const namesOf = (fires: boolean) =>
    [...new Set(all.filter((it) => (it.exp_alerts !== undefined) === fires).map((it) => it.alertname))].toSorted();
  assertEquals([namesOf(true), namesOf(false)], [NAMES, NAMES]);
});

const promtool = await findProgram(["promtool", "promtool.exe"], foldersOnPath(THIS_MACHINE), THIS_MACHINE);

Deno.test({
  name: promtool === undefined
    ? "without promtool (Debian's package prometheus): the alerts fire as rules_test.yaml says"
    : "promtool: the alerts fire as rules_test.yaml says",
  ignore: promtool === undefined,
  async fn() {
    for (const args of [["check", "rules", "rules.yaml"], ["test", "rules", "rules_test.yaml"]]) {
      const { code, stdout, stderr } = await new Deno.Command(promtool ?? "", { args, cwd: FOLDER }).output();
      const decoder = new TextDecoder();
      assertEquals(code, 0, decoder.decode(stdout) + decoder.decode(stderr));
    }
  },
});
