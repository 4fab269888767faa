import { assertEquals } from "@std/assert";
import { COMMAND_NAMES } from "../../../src/command/commands/command_table.ts";
import { commandHelp } from "../../../src/command/commands/run_command.ts";
import {
  formatOptions,
  helpText,
  NODE_PROGRAM,
  PROGRAM,
} from "../../../src/command/options/help.ts";
import {
  OPTION_NAMES,
  type OptionName,
  OPTIONS,
} from "../../../src/command/options/option_table.ts";
import { parseCommandLine } from "../../../src/command/options/read_options.ts";

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
    "Examples:",
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

/** Returns the command lines of the examples, each without the program. */
function examplesOf(program: string): string[][] {
  const [, text = ""] = /\nExamples:\n(.*?)\n\nUsage:/s.exec(
    helpText(program),
  ) ?? [];
  const lines = text.replaceAll(" \\\n", "").split("\n").map((line) =>
    line.trim().replace(/ +/g, " ")
  );
  const commands = lines.filter((line) => !line.startsWith("#"));
  assertEquals(lines.length, 2 * commands.length); // each has a comment
  return commands.map((line) => {
    assertEquals(line.startsWith(`${program} `), true, line);
    return line.slice(program.length + 1).split(" ");
  });
}

for (const program of [PROGRAM, NODE_PROGRAM]) {
  Deno.test(`helpText() begins with three examples that can be run, and every help ends with where the documentation is: ${program}`, () => {
    const [first, ...others] = examplesOf(program);
    assertEquals(helpText(program).split("\n")[2], "Examples:");
    assertEquals([first, others.length], [["init"], 2]);
    for (const args of others) assertEquals(parseCommandLine(args).help, false);
    const envFile = program === PROGRAM ? "--env-file" : "-env-file"; // Node.js takes --env-file for its own
    assertEquals(others[0]?.slice(-2), [envFile, "app.env"]);
    const helps = COMMAND_NAMES.map((name) => commandHelp(name, program));
    for (const help of [helpText(program), ...helps]) {
      assertEquals(
        help.split("\n").at(-1),
        "Documentation: https://jsr.io/@rep/gateway",
      );
    }
  });
}

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
