import { assertEquals } from "@std/assert";
import { COMMAND_NAMES } from "../../../src/command/commands/command_table.ts";
import { commandHelp } from "../../../src/command/commands/run_command.ts";
import {
  formatOptions,
  helpText,
  PROGRAM,
} from "../../../src/command/options/help.ts";
import {
  OPTION_NAMES,
  type OptionName,
  OPTIONS,
} from "../../../src/command/options/option_table.ts";

/** Returns the rows of the options, each on one line. */
function optionRows(): string[] {
  const [, ...rows] =
    helpText().split("\n\nContent:")[1]?.replace(/\n {30}/g, " ").split(
      "\n  -",
    ) ?? [];
  return rows.map((row) => `-${row.split("\n")[0]}`.replace(/\s+/g, " "));
}

Deno.test("helpText() lists every option once, with its description, and --version and --help", () => {
  const rows = optionRows();
  const flags = rows.map((row) => /--([a-z-]+)/.exec(row)?.[1]);
  assertEquals(flags.toSorted(), [...OPTION_NAMES, "version", "help"].sort());
  const isDescribed = (name: OptionName) =>
    rows.some((row) =>
      row.startsWith(`--${name} `) && row.includes(OPTIONS[name].help)
    );
  assertEquals(OPTION_NAMES.filter((name) => !isDescribed(name)), []);
});

Deno.test("helpText() and commandHelp() fit into 80 columns", () => {
  const helps = COMMAND_NAMES.map((name) => commandHelp(name, PROGRAM));
  const lines = [helpText(), ...helps].flatMap((
    text,
  ) => text.split("\n"));
  assertEquals(
    lines.filter((line) => line.length > 80 || line.endsWith(" ")),
    [],
  );
});

Deno.test("helpText() lists every command, and the groups of options", () => {
  const titles = helpText().split("\n").filter((line) =>
    /^[A-Z][a-z ]+:$/.test(line)
  );
  assertEquals(titles, [
    "Commands:",
    "Content:",
    "Variables:",
    "Changes:",
    "Session keys:",
    "Network:",
    "Shutdown:",
    "Log:",
    "Other:",
  ]);
  assertEquals(
    COMMAND_NAMES.filter((name) => !helpText().includes(`\n  ${name} `)),
    [],
  );
});

Deno.test("helpText() prints the placeholder and the default of an option, if any", () => {
  const flags = /^--(port|health-port|strict|hot-reload-mode|poll-interval) /;
  assertEquals(optionRows().filter((row) => flags.test(row)), [
    "--strict Reject PUBLIC values that look like secrets",
    "--hot-reload-mode signal|file_watch|poll What triggers a reload; SIGHUP always triggers one. On a terminal, file_watch with --env-file, --manifest or --sites (signal)",
    "--poll-interval DURATION Interval for reading all sources again, in the modes poll and file_watch (30s)",
    "--port N Port to listen on; 0 picks a free port (8080)",
    "--health-port N Separate port for health, probes, metrics and /status; by default, or with 0, there is none",
  ]);
});

Deno.test("formatOptions() shows URLs without credentials, and paths and globs as they are", () => {
  const settings = {
    "static-dir": "/srv/@shop/app",
    immutable: ["assets/?*"],
    kv: "postgres://user:s3cret@db.example/rep?sslmode=disable",
  };
  assertEquals(formatOptions(settings), {
    "--static-dir": "/srv/@shop/app",
    "--immutable": "assets/?*",
    "--kv": "postgres://…@db.example/rep?…",
  });
});
