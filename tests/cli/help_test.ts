import { assertEquals } from "@std/assert";
import { helpText } from "../../src/cli/help.ts";
import { OPTION_NAMES, OPTIONS } from "../../src/cli/option_table.ts";

Deno.test("helpText() lists every option once, with its description, then --version and --help", () => {
  const rows = helpText().split("\n").filter((line) => /^ {2}-/.test(line));
  const flags = rows.map((row) => /--([a-z-]+)/.exec(row)?.[1]);
  assertEquals(flags, [...OPTION_NAMES, "version", "help"]);
  assertEquals(OPTION_NAMES.filter((name, index) => !rows[index]?.includes(OPTIONS[name].help)), []);
});

Deno.test("helpText() fits into 110 columns", () => {
  assertEquals(helpText().split("\n").filter((line) => line.length > 110), []);
});

Deno.test("helpText() prints the placeholder and the default of an option, if any", () => {
  const rows = new Map(helpText().split("\n").map((line) => [line.trim().split(/\s+/)[0] ?? "", line.trim()]));
  const rowsOf = ["--port", "--health-port", "--strict", "--hot-reload-mode", "--poll-interval"].map((flag) =>
    rows.get(flag)
  );
  assertEquals(rowsOf.map((row) => row?.replace(/\s{2,}/, " | ")), [
    "--port N | Port to listen on; 0 picks a free port (8080)",
    "--health-port N | Port for /rep/health, which is then not served on --port",
    "--strict | Reject PUBLIC values that look like secrets",
    "--hot-reload-mode signal|file_watch|poll | What triggers a reload; SIGHUP always does (signal)",
    "--poll-interval DURATION | Polling interval of poll and file_watch (30s)",
  ]);
});
