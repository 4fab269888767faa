import { environmentVariable } from "../option_table.ts";
import { COMMAND_NAMES, COMMANDS, FLAGS } from "./command_line.ts";

/** Returns the text of `--help` after one of the commands. */
export function variableHelp(): string {
  const commands = COMMAND_NAMES.map((name) => [`${name} ${COMMANDS[name].args}`.trim(), COMMANDS[name].help] as const);
  const flags = Object.entries(FLAGS).map(([name, flag]) => {
    const isCommon = flag.commands.length === COMMAND_NAMES.length;
    const help = isCommon ? flag.help : `${flag.commands.join(", ")}: ${flag.help}`;
    return ["value" in flag ? `--${name} ${flag.value}` : `--${name}`, help] as const;
  });
  const rows = [...commands, ...flags, ["-h, --help", "Print this help"] as const];
  const width = Math.max(...rows.map(([name]) => name.length));
  const lines = rows.map(([name, help]) => `  ${name.padEnd(width)}  ${help}`);
  return [
    "Manages PUBLIC variables in the store that all gateways share.",
    "",
    "Usage: deno run -A --unstable-kv jsr:@rep/gateway COMMAND [OPTION ...]",
    "",
    ...lines.slice(0, commands.length),
    "",
    ...lines.slice(commands.length),
    "",
    "KEY is a name with or without the prefix REP_PUBLIC_. Flags that take a value may not be repeated.",
    `${environmentVariable("kv")} and ${environmentVariable("manifest")} are used if the flags are not set.`,
    "Exit codes: 0 success; 1 rejected, a conflict, or the store is unavailable; 2 invalid usage.",
  ].join("\n");
}
