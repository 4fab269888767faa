import { assertEquals } from "@std/assert";
import { helpText, optionTable } from "../../src/cli/help.ts";
import { OPTION_NAMES, OPTIONS } from "../../src/cli/option_table.ts";

Deno.test("helpText() has every option once, with its help, and then --version and --help", () => {
  const rows = helpText().split("\n").filter((line) => /^ {2}-/.test(line));
  const flags = rows.map((row) => /--([a-z-]+)/.exec(row)?.[1]);
  assertEquals(flags, [...OPTION_NAMES, "version", "help"]);
  assertEquals(OPTION_NAMES.filter((name, index) => !rows[index]?.includes(OPTIONS[name].help)), []);
});

Deno.test("helpText() fits into 110 columns", () => {
  assertEquals(helpText().split("\n").filter((line) => line.length > 110), []);
});

Deno.test("helpText() shows what an option takes and what it is by default, and neither where there is none", () => {
  const rows = new Map(helpText().split("\n").map((line) => [line.trim().split(/\s+/)[0] ?? "", line.trim()]));
  const rowsOf = ["--port", "--health-port", "--strict", "--hot-reload-mode", "--poll-interval"].map((flag) =>
    rows.get(flag)
  );
  assertEquals(rowsOf.map((row) => row?.replace(/\s{2,}/, " | ")), [
    "--port N | Port to listen on; 0 takes a free one (8080)",
    "--health-port N | Serve /rep/health on this port, and only there",
    "--strict | Refuse PUBLIC values that look like secrets",
    "--hot-reload-mode signal|file_watch|poll | What notices a change; SIGHUP always does (signal)",
    "--poll-interval DURATION | How often poll and file_watch look (30s)",
  ]);
});

Deno.test("optionTable() has a row of five cells for every option", () => {
  const [head, rule, ...rows] = optionTable().split("\n");
  assertEquals([head, rule], ["| flag | environment | manifest | default | |", "| --- | --- | --- | --- | --- |"]);
  const cells = rows.map((row) => row.split(/(?<!\\)\|/).map((cell) => cell.trim()));
  assertEquals(cells.map((row) => row.length), OPTION_NAMES.map(() => 7));
  assertEquals(cells.map(([, flag]) => /^`--([a-z-]+)/.exec(flag ?? "")?.[1]), OPTION_NAMES);
});

Deno.test("optionTable() shows an option as it is set everywhere", () => {
  const rows = optionTable().split("\n");
  assertEquals(rows.filter((row) => /--(hot-reload-mode|strict) ?/.test(row) && !row.startsWith("| flag")), [
    "| `--strict` | `REP_GATEWAY_STRICT` | `strict_guardrails` |  | Refuse PUBLIC values that look like secrets |",
    "| `--hot-reload-mode signal\\|file_watch\\|poll` | `REP_GATEWAY_HOT_RELOAD_MODE` | `hot_reload_mode` | `signal` | " +
    "What notices a change; SIGHUP always does |",
  ]);
});
