import { formatByteSize } from "../../values/byte_size.ts";
import { formatDuration } from "../../values/duration.ts";
import { COMMAND_NAMES, COMMANDS } from "../commands/command_names.ts";
import { formatRows, type HelpRow, wrap } from "./help_rows.ts";
import { environmentVariable, type Option, OPTION_NAMES, type OptionName, OPTIONS } from "./option_table.ts";

const GROUPS = ["Content", "Variables", "Changes", "Session keys", "Network", "Shutdown", "Log"] as const;

/** The group of every option in `--help`. */
const GROUP_OF: Readonly<Record<OptionName, typeof GROUPS[number]>> = {
  "port": "Network",
  "hostname": "Network",
  "health-port": "Network",
  "base-path": "Content",
  "mode": "Content",
  "preserve-host": "Content",
  "static-dir": "Content",
  "static-cache": "Content",
  "upstream": "Content",
  "upstream-timeout": "Content",
  "max-transfers": "Content",
  "reject-websockets": "Content",
  "manifest": "Variables",
  "env-file": "Variables",
  "strict": "Variables",
  "hot-reload": "Changes",
  "hot-reload-mode": "Changes",
  "watch-path": "Changes",
  "poll-interval": "Changes",
  "allowed-origins": "Session keys",
  "allowed-hosts": "Network",
  "trusted-proxies": "Network",
  "kv": "Variables",
  "session-key-ttl": "Session keys",
  "session-key-max-rate": "Session keys",
  "key-rotation": "Session keys",
  "key-retention": "Session keys",
  "max-streams": "Changes",
  "max-streams-per-client": "Changes",
  "max-stream-age": "Changes",
  "stop-delay": "Shutdown",
  "drain": "Shutdown",
  "tls-cert": "Network",
  "tls-key": "Network",
  "access-log": "Log",
  "log-format": "Log",
  "log-level": "Log",
};

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
    ...GROUPS.flatMap((group) => section(group, optionRows(group))),
    ...section("Other", [["--version", "Print the version"], ["-h, --help", "Print this help"]]),
    "",
    ...NOTES.flatMap((note) => wrap(note)),
  ].join("\n");
}

function section(title: string, rows: readonly HelpRow[]): string[] {
  return ["", `${title}:`, ...formatRows(rows)];
}

function optionRows(group: typeof GROUPS[number]): HelpRow[] {
  const names = OPTION_NAMES.filter((name) => GROUP_OF[name] === group);
  return names.map((name) => [flagOf(name), describe(name)]);
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
