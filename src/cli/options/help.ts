import { formatByteSize } from "../../values/byte_size.ts";
import { formatDuration } from "../../values/duration.ts";
import { COMMAND_NAMES, COMMANDS } from "../commands/command_names.ts";
import { formatRows, type HelpRow, wrap } from "./help_rows.ts";
import { environmentVariable, GROUPS, type Option, OPTION_NAMES, type OptionName, OPTIONS } from "./option_table.ts";

const NOTES = [
  "--no-NAME turns a switch off. Flags that take a list may be repeated; others that take a value may not.",
  `Every option can also be set as an environment variable, such as ${environmentVariable("hot-reload")}=true. ` +
  "Flags take precedence over the environment, and the environment over the manifest.",
  "Variables are read from REP_PUBLIC_*, REP_SENSITIVE_* and REP_SERVER_*; the environment overrides --env-file.",
];

/** Returns the text of `--help`. */
export function helpText(): string {
  const commands = COMMAND_NAMES.map((name): HelpRow => [name, COMMANDS[name].help]);
  return [
    "Configuration gateway: delivers configuration to single-page apps at run time.",
    "",
    "Usage: deno run -A --unstable-kv jsr:@rep/gateway [OPTION ...]",
    "       deno run -A --unstable-kv jsr:@rep/gateway COMMAND [--help]",
    ...section("Commands", commands),
    ...Object.entries(GROUPS).flatMap(([group, options]) => section(group, optionRows(options))),
    ...section("Other", [["--version", "Print the version"], ["-h, --help", "Print this help"]]),
    "",
    ...NOTES.flatMap((note) => wrap(note)),
  ].join("\n");
}

function section(title: string, rows: readonly HelpRow[]): string[] {
  return ["", `${title}:`, ...formatRows(rows)];
}

function optionRows(options: object): HelpRow[] {
  return OPTION_NAMES.filter((name) => name in options).map((name) => [flagOf(name), describe(name)]);
}

/** Returns the flag of an option, with the placeholder of its value. */
export function flagOf(name: OptionName): string {
  const { value }: Option<unknown> = OPTIONS[name];
  return value === undefined ? `--${name}` : `--${name} ${value}`;
}

function describe(name: OptionName): string {
  const { help }: Option<unknown> = OPTIONS[name];
  const defaultValue = defaultOf(name);
  return defaultValue === "" ? help : `${help} (${defaultValue})`;
}

/** Returns the default of an option as text; empty if there is none. */
export function defaultOf(name: OptionName): string {
  const { default: defaultValue, value }: Option<unknown> = OPTIONS[name];
  if (defaultValue === undefined || defaultValue === false) return "";
  if (value === "DURATION") return formatDuration(Number(defaultValue));
  return value === "SIZE" ? formatByteSize(Number(defaultValue)) : String(defaultValue);
}
