import { assertEquals } from "@std/assert";
import { OPTION_NAMES } from "../src/cli/option_table.ts";
import { optionTable, withOptionTable } from "../tools/option_table.ts";
import { startProgram } from "./_command.ts";
import { readLogEvents } from "./_log_events.ts";

const README = await Deno.readTextFile("README.md");

Deno.test("README.md contains the option table that the code generates", () => {
  assertEquals(README.includes(optionTable()), true, "run: deno run -A tools/option_table.ts");
  assertEquals(withOptionTable(README), README);
});

Deno.test("optionTable() has a row of five cells for every option", () => {
  const [head, rule, ...rows] = optionTable().split("\n");
  assertEquals([head, rule], ["| flag | environment | manifest | default | |", "| --- | --- | --- | --- | --- |"]);
  const cells = rows.map((row) => row.split(/(?<!\\)\|/).map((cell) => cell.trim()));
  assertEquals(cells.map((row) => row.length), OPTION_NAMES.map(() => 7));
  assertEquals(cells.map(([, flag]) => /^`--([a-z-]+)/.exec(flag ?? "")?.[1]), OPTION_NAMES);
});

Deno.test("optionTable() lists the flag, the environment variable, the setting and the default of an option", () => {
  const rows = optionTable().split("\n");
  assertEquals(rows.filter((row) => /--(hot-reload-mode|strict) ?/.test(row) && !row.startsWith("| flag")), [
    "| `--strict` | `REP_GATEWAY_STRICT` | `strict_guardrails` |  | Reject PUBLIC values that look like secrets |",
    "| `--hot-reload-mode signal\\|file_watch\\|poll` | `REP_GATEWAY_HOT_RELOAD_MODE` | `hot_reload_mode` | `signal` | " +
    "What triggers a reload; SIGHUP always does |",
  ]);
});

Deno.test("README.md lists every log event", async () => {
  const events = [...await readLogEvents()];
  assertEquals(events.filter((event) => !README.includes(`\`${event}\``)).sort(), []);
  assertEquals(events.length > 30, true);
});

Deno.test("README.md names only log events that the code writes", async () => {
  const events = await readLogEvents();
  const named = new Set(README.match(/\brep\.[a-z_]+\.[a-z_]+\b|\brep\.(listening|stopping|stopped)\b/g));
  assertEquals([...named].filter((event) => !events.has(event)), []);
  assertEquals(named.size > 10, true);
});

Deno.test("README.md links only to files that exist", async () => {
  const paths = [...README.matchAll(/\]\(((?!https?:)[^)]+)\)/g)].map(([, path]) => String(path));
  for (const path of paths) await Deno.stat(path);
  assertEquals(paths.length > 2, true);
});

Deno.test("the module example in README.md is a server that delivers its configuration", async () => {
  const [, example = ""] = /```ts ignore\n([^]*?)```/.exec(README) ?? [];
  await using server = await startProgram(example.replace("jsr:@rep/gateway", "@rep/gateway"));
  const html = await (await fetch(server.url)).text();
  const payload = JSON.parse(/<script id="__rep__"[^>]*>([^<]*)</.exec(html)?.[1] ?? "null");
  assertEquals([payload.public, typeof payload.sensitive], [{ THEME: "dark" }, "string"]);
  const { status, variables } = await (await fetch(`${server.url}/rep/health`)).json();
  assertEquals([status, variables], ["healthy", { public: 1, sensitive: 1, server: 0 }]);
});

Deno.test("docs/architecture.md names only files and folders that exist", async () => {
  const text = await Deno.readTextFile("docs/architecture.md");
  const paths = [...text.matchAll(/`((?:src|tests|bench|tools|docs|examples)\/[\w./]*)`/g)].map(([, path]) =>
    String(path)
  );
  for (const path of paths) await Deno.stat(path);
  assertEquals(paths.length > 20, true);
});
