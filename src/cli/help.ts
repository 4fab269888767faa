import { formatDuration } from "./duration.ts";
import { environmentVariable, type Option, OPTION_NAMES, type OptionName, OPTIONS } from "./option_table.ts";

/** The text of `--help`. */
export function helpText(): string {
  const rows = [
    ...OPTION_NAMES.map((name) => [flagOf(name), describe(name)] as const),
    ["--version", "Print the version"] as const,
    ["-h, --help", "Print this"] as const,
  ];
  const width = Math.max(...rows.map(([flag]) => flag.length));
  return [
    "The configuration gateway: hands a single-page app its configuration at run time.",
    "",
    "Usage: deno run -A --unstable-kv jsr:@rep/gateway [OPTION ...]",
    "       deno run -A --unstable-kv jsr:@rep/gateway set|unset|list|history|watch --help",
    "",
    ...rows.map(([flag, help]) => `  ${flag.padEnd(width)}  ${help}`),
    "",
    `Each option can also be set as ${environmentVariable("…")}, such as ${
      environmentVariable("hot-reload")
    }=true; flags win.`,
    "Variables are read from REP_PUBLIC_*, REP_SENSITIVE_* and REP_SERVER_*; the environment wins over --env-file.",
  ].join("\n");
}

/** The table of options for the README, in Markdown. */
export function optionTable(): string {
  const rows = OPTION_NAMES.map((name) => {
    const { help, manifest }: Option<unknown> = OPTIONS[name];
    const cells = [
      code(flagOf(name)),
      code(environmentVariable(name)),
      code(manifest ?? ""),
      code(defaultOf(name)),
      help,
    ];
    return `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`;
  });
  return ["| flag | environment | manifest | default | |", "| --- | --- | --- | --- | --- |", ...rows].join("\n");
}

function flagOf(name: OptionName): string {
  const { value }: Option<unknown> = OPTIONS[name];
  return value === undefined ? `--${name}` : `--${name} ${value}`;
}

function describe(name: OptionName): string {
  const { help }: Option<unknown> = OPTIONS[name];
  const byDefault = defaultOf(name);
  return byDefault === "" ? help : `${help} (${byDefault})`;
}

function defaultOf(name: OptionName): string {
  const { default: byDefault, expected }: Option<unknown> = OPTIONS[name];
  if (byDefault === undefined || byDefault === false) return "";
  if (typeof byDefault === "number" && expected.startsWith("a duration")) return formatDuration(byDefault);
  return String(byDefault);
}

function code(text: string): string {
  return text === "" ? "" : `\`${text}\``;
}
