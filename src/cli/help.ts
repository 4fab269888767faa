import { formatDuration } from "../duration.ts";
import { environmentVariable, type Option, OPTION_NAMES, type OptionName, OPTIONS } from "./option_table.ts";

/** Returns the text of `--help`. */
export function helpText(): string {
  const rows = [
    ...OPTION_NAMES.map((name) => [flagOf(name), describe(name)] as const),
    ["--version", "Print the version"] as const,
    ["-h, --help", "Print this help"] as const,
  ];
  const width = Math.max(...rows.map(([flag]) => flag.length));
  return [
    "Configuration gateway: delivers configuration to single-page apps at run time.",
    "",
    "Usage: deno run -A --unstable-kv jsr:@rep/gateway [OPTION ...]",
    "       deno run -A --unstable-kv jsr:@rep/gateway set|unset|list|history|watch --help",
    "",
    ...rows.map(([flag, help]) => `  ${flag.padEnd(width)}  ${help}`),
    "",
    "--no-NAME turns a switch off. Flags that take a list may be repeated; others that take a value may not.",
    `Every option can also be set as an environment variable, such as ${environmentVariable("hot-reload")}=true.`,
    "Flags take precedence over the environment, and the environment over the manifest.",
    "Variables are read from REP_PUBLIC_*, REP_SENSITIVE_* and REP_SERVER_*; the environment overrides --env-file.",
  ].join("\n");
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
  return value === "DURATION" ? formatDuration(Number(defaultValue)) : String(defaultValue);
}
