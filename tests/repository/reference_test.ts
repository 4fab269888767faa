/** Compares docs/reference.md with the code. */
import { assertEquals } from "@std/assert";
import { OPTION_NAMES } from "../../src/cli/options/option_table.ts";
import { MAX_PUBLIC_BYTES } from "../../src/config/variables/snapshot.ts";
import { NUMBER_OPTIONS } from "../../src/options.ts";
import { optionTable, withOptionTable } from "../../tools/option_table.ts";

const REFERENCE = await Deno.readTextFile("docs/reference.md");

Deno.test("docs/reference.md contains the option table that the code generates", () => {
  assertEquals(
    REFERENCE.includes(optionTable()),
    true,
    "run: deno run -A tools/option_table.ts",
  );
  assertEquals(withOptionTable(REFERENCE), REFERENCE);
});

Deno.test("optionTable() has a row of five cells for every option", () => {
  const [head, rule, ...rows] = optionTable().split("\n");
  assertEquals([head, rule], [
    "| flag | environment | manifest | default | |",
    "| --- | --- | --- | --- | --- |",
  ]);
  const cells = rows.map((row) =>
    row.split(/(?<!\\)\|/).map((cell) => cell.trim())
  );
  assertEquals(cells.map((row) => row.length), OPTION_NAMES.map(() => 7));
  assertEquals(
    cells.map(([, flag]) => /^`--([a-z-]+)/.exec(flag ?? "")?.[1]),
    OPTION_NAMES,
  );
});

Deno.test("optionTable() lists the flag, the environment variable, the setting and the default of an option", () => {
  const rows = optionTable().split("\n");
  assertEquals(
    rows.filter((row) =>
      /--(hot-reload-mode|strict) ?/.test(row) && !row.startsWith("| flag")
    ),
    [
      "| `--strict` | `REP_GATEWAY_STRICT` | `strict_guardrails` |  | Reject PUBLIC values that look like secrets |",
      "| `--hot-reload-mode signal\\|file_watch\\|poll` | `REP_GATEWAY_HOT_RELOAD_MODE` | `hot_reload_mode` | `signal` | " +
      "What triggers a reload; SIGHUP always does |",
    ],
  );
});

Deno.test("docs/reference.md and docs/variables.md state the limits that the code has", async () => {
  const variables = await Deno.readTextFile("docs/variables.md");
  assertEquals(
    /may have up to ([\d,]+) bytes/.exec(variables)?.[1],
    MAX_PUBLIC_BYTES.toLocaleString("en"),
  );
  assertEquals([
    /up to (\w+) a minute/.exec(REFERENCE)?.[1],
    NUMBER_OPTIONS.sessionKeyMaxRate.default,
  ], ["ten", 10]);
});
