import { environmentVariable } from "../option_table.ts";
import { COMMAND_NAMES, COMMANDS, FLAGS } from "./command_line.ts";

/** The text of `--help` after one of the commands. */
export function variableHelp(): string {
  const commands = COMMAND_NAMES.map((name) =>
    [`${name} ${COMMANDS[name].words}`.trim(), COMMANDS[name].help] as const
  );
  const flags = Object.entries(FLAGS).map(([name, flag]) => {
    const isEveryones = flag.of.length === COMMAND_NAMES.length;
    const help = isEveryones ? flag.help : `${flag.of.join(", ")}: ${flag.help}`;
    return ["value" in flag ? `--${name} ${flag.value}` : `--${name}`, help] as const;
  });
  const rows = [...commands, ...flags, ["-h, --help", "Print this"] as const];
  const width = Math.max(...rows.map(([what]) => what.length));
  const lines = rows.map(([what, help]) => `  ${what.padEnd(width)}  ${help}`);
  return [
    "Live PUBLIC variables, in the store that all gateways share.",
    "",
    "Usage: deno run -A --unstable-kv jsr:@rep/gateway COMMAND [OPTION ...]",
    "",
    ...lines.slice(0, commands.length),
    "",
    ...lines.slice(commands.length),
    "",
    `KEY may be written with or without REP_PUBLIC_. ${environmentVariable("kv")} and ${
      environmentVariable("manifest")
    } count like the flags.`,
    "The exit code is 0; 1 if it was refused, somebody else wrote, or the store did not answer; 2 if it was called wrongly.",
  ].join("\n");
}
