import { assertEquals } from "@std/assert";
import { COMMAND_NAMES } from "../../../src/cli/commands/command_names.ts";
import { commandHelp } from "../../../src/cli/commands/run_command.ts";
import { helpText } from "../../../src/cli/options/help.ts";
import {
  OPTION_NAMES,
  type OptionName,
  OPTIONS,
} from "../../../src/cli/options/option_table.ts";

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
  const lines = [helpText(), ...COMMAND_NAMES.map(commandHelp)].flatMap((
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
    "--hot-reload-mode signal|file_watch|poll What triggers a reload; SIGHUP always does (signal)",
    "--poll-interval DURATION Polling interval of poll and file_watch (30s)",
    "--port N Port to listen on; 0 picks a free port (8080)",
    "--health-port N Port for health, probes, metrics and /status; 0 means none",
  ]);
});

Deno.test("helpText() and commandHelp() separate their parts by empty lines", () => {
  const notes = helpText().split("\n\n").at(-1);
  assertEquals(notes?.startsWith("--no-NAME turns a switch off."), true);
  for (const command of COMMAND_NAMES) {
    const [title, usage, flags, remarks, ...rest] = commandHelp(command).split(
      "\n\n",
    );
    const begins = [
      title?.endsWith("."),
      usage?.startsWith("Usage: "),
      flags?.startsWith("  --"),
    ];
    assertEquals([command, ...begins, remarks?.startsWith(" "), rest], [
      command,
      true,
      true,
      true,
      false,
      [],
    ]);
  }
});

Deno.test("commandHelp() prints the arguments of a command, and the placeholders of its options", () => {
  const usages = COMMAND_NAMES.map((name) =>
    /^Usage: .* (\S+:@rep\/gateway .*)$/m.exec(commandHelp(name))?.[1]
  );
  assertEquals(usages, [
    "jsr:@rep/gateway validate [OPTION ...]",
    "jsr:@rep/gateway typegen [OPTION ...]",
    "jsr:@rep/gateway lint [DIR ...] [OPTION ...]",
    "jsr:@rep/gateway inject DIR ... [OPTION ...]",
    "jsr:@rep/gateway set KEY=VALUE ... [OPTION ...]",
    "jsr:@rep/gateway unset KEY ... [OPTION ...]",
    "jsr:@rep/gateway list [OPTION ...]",
    "jsr:@rep/gateway history [OPTION ...]",
    "jsr:@rep/gateway watch [OPTION ...]",
  ]);
  const flags = COMMAND_NAMES.flatMap((
    name,
  ) => [...commandHelp(name).matchAll(/^ {2}(--[a-z-]+(?: [A-Z].*?)?) {2}/gm)]);
  assertEquals([...new Set(flags.map(([, flag]) => flag))].toSorted(), [
    "--app NAME",
    "--config-js FILE",
    "--dir DIR",
    "--env-file PATH",
    "--exclude GLOB,…",
    "--force",
    "--if-id ID",
    "--json",
    "--kv PATH|URL",
    "--limit N",
    "--manifest FILE",
    "--out FILE",
    "--pattern GLOB",
    "--port N",
    "--strict",
  ]);
});
