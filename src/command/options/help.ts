import { formatByteSize, formatDuration } from "../../core/values/units.ts";
import { redactUrl } from "../../core/values/urls.ts";
import { COMMAND_NAMES, COMMANDS } from "../commands/command_table.ts";
import type { Option, OptionTable } from "./option_kinds.ts";
import {
  environmentVariable,
  GROUPS,
  OPTIONS,
  OTHER_OPTIONS,
} from "./option_table.ts";

/** A row of `--help`: a name and its explanation. */
type HelpRow = readonly [name: string, help: string];

/** The last row of every `--help`. */
export const HELP_ROW: HelpRow = ["-h, --help", OTHER_OPTIONS.help.help];

/** What users type to run the program. */
export const PROGRAM = "deno run -A --unstable-kv jsr:@rep/gateway";
/** What users type on Node.js. */
export const NODE_PROGRAM = "npx @rep/gateway";

/** Terminals have at least 80 columns. */
const COLUMNS = 80;
/** A longer name gets a line of its own. */
const MAX_NAME = 26;
const INDENT = "  ";

/** The last line of every `--help`. */
export const DOCUMENTATION = "Documentation: https://jsr.io/@rep/gateway";

const NOTES = [
  "--no-NAME turns a switch off. Flags that take a list may be repeated; others that take a value may not.",
  `Every option can also be set as an environment variable, such as ${
    environmentVariable("hot-reload")
  }=true. ` +
  "Flags take precedence over the environment, and the environment over the manifest.",
  "Variables are read from REP_PUBLIC_*, REP_SENSITIVE_* and REP_SERVER_*; the environment overrides --env-file.",
];

/** Returns the text of `--help`. @param program What users type to run it. */
export function helpText(program = PROGRAM): string {
  const commandRows = COMMAND_NAMES.map((name): HelpRow => [
    name,
    COMMANDS[name].help,
  ]);
  return [
    ABOUT,
    "",
    "Examples:",
    ...examples(program),
    "",
    `Usage: ${program} [OPTION ...]`,
    `       ${program} COMMAND [--help]`,
    ...section("Commands", commandRows),
    ...Object.entries(GROUPS).flatMap(([group, options]) =>
      section(group, optionRows(options))
    ),
    ...section("Other", [["--version", OTHER_OPTIONS.version.help], HELP_ROW]),
    "",
    ...NOTES.flatMap((note) => wrap(note)),
    "",
    DOCUMENTATION,
  ].join("\n");
}

/** Returns commands to copy, each below what it does. */
function examples(program: string): string[] {
  const envFile = program === NODE_PROGRAM ? "-env-file" : "--env-file"; // Node.js takes the latter for its own
  return [
    "# Write app.env and a manifest for the app in this directory",
    `${program} init`,
    "# Serve its build, with the variables of app.env",
    `${program} --static-dir dist \\`,
    `  ${envFile} app.env`,
    "# Serve the pages of another server, with the variables of the environment",
    `${program} --upstream http://127.0.0.1:3000`,
  ].map((line) => INDENT + line);
}

const ABOUT =
  "Configuration gateway: delivers configuration to single-page apps at run time.";

function section(title: string, rows: readonly HelpRow[]): string[] {
  return ["", `${title}:`, ...formatRows(rows)];
}

/** Returns the lines of `--help` about the options of a table. */
export function optionRows(table: OptionTable): HelpRow[] {
  const options = Object.entries(table);
  return options.map(([name, it]) => [flagOf(name, it), describe(it)]);
}

/** Returns the flag of an option, with the placeholder of its value. */
export function flagOf(name: string, { value }: Option<unknown>): string {
  return value === undefined ? `--${name}` : `--${name} ${value}`;
}

function describe(option: Option<unknown>): string {
  const defaultValue = defaultOf(option);
  return defaultValue === "" ? option.help : `${option.help} (${defaultValue})`;
}

/** Returns the default of an option as text; empty if there is none. */
export function defaultOf(option: Option<unknown>): string {
  return option.default === undefined || option.default === false
    ? ""
    : formatOption(option, option.default);
}

function formatOption({ value }: Option<unknown>, setting: unknown): string {
  if (value === "DURATION") return formatDuration(Number(setting));
  return value === "SIZE" ? formatByteSize(Number(setting)) : String(setting);
}

/** Returns the options in effect, by their flags, as text without credentials. */
export function formatOptions(
  settings: Readonly<Record<string, unknown>>,
): Record<string, string> {
  const shown: Record<string, string> = {};
  for (const [name, option] of Object.entries(OPTIONS)) {
    const setting = settings[name];
    if (setting === undefined) continue;
    const text = formatOption(option, setting);
    const mayBeUrl = option.value?.includes("URL") ?? false;
    shown[`--${name}`] = mayBeUrl ? redactUrl(text) : text;
  }
  return shown;
}

/** Formats rows in two columns. */
export function formatRows(rows: readonly HelpRow[]): string[] {
  const indent = INDENT.length + MAX_NAME + INDENT.length;
  return rows.flatMap(([name, help]) => {
    const [first = "", ...rest] = wrap(help, COLUMNS - indent);
    const lines = [first, ...rest].map((line) => " ".repeat(indent) + line);
    if (name.length > MAX_NAME) return [INDENT + name, ...lines];
    const row = INDENT + name.padEnd(MAX_NAME) + INDENT + first;
    return [row, ...lines.slice(1)];
  });
}

/** Wraps a paragraph. */
export function wrap(text: string, columns = COLUMNS): string[] {
  const lines: string[] = [];
  let line = "";
  for (const word of text.split(" ")) {
    if (line !== "" && line.length + 1 + word.length > columns) {
      lines.push(line);
      line = word;
    } else line = line === "" ? word : `${line} ${word}`;
  }
  return [...lines, line];
}
