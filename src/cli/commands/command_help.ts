import { formatRows, optionRows, wrap } from "../options/help.ts";
import { environmentVariable } from "../options/option_table.ts";
import { COMMAND_OPTIONS } from "./command_line.ts";
import { type CommandName, COMMANDS, STORE_COMMANDS } from "./command_names.ts";

/** Remarks on the commands. */
const NOTES: Readonly<Record<CommandName, readonly string[]>> = {
  validate: [
    "Prints every variable with its effective value and its source. Values of SENSITIVE and SERVER variables, and those " +
    "that look like secrets, are not printed.",
    exitCodes("there is an issue"),
  ],
  typegen: [
    "The types are for @rep/gateway/client and @rep-protocol/sdk. Include the file in the types of your project.",
    exitCodes("the manifest is invalid"),
  ],
  lint: [
    "Without DIR, checks dist. Values that look like secrets are not printed.",
    exitCodes("there is a finding"),
  ],
  inject: [
    "For builds that are served without a gateway, such as from a CDN. Injecting again replaces the values. Pages load " +
    'the script of --config-js with <script src="/config.js"></script> before their own scripts; DIR is then optional.',
    exitCodes("the configuration is invalid, or there is no page"),
  ],
  ...Object.fromEntries(STORE_COMMANDS.map((name) => [name, [
    "KEY is a name with or without the prefix REP_PUBLIC_. Flags that take a value may not be repeated.",
    `${environmentVariable("kv")}, ${environmentVariable("app")}, ${
      environmentVariable("port")
    } and ${
      environmentVariable("manifest")
    } are used if the flags are not set.`,
    exitCodes("it is rejected, in conflict, or the store is unavailable"),
  ]])) as Record<typeof STORE_COMMANDS[number], string[]>,
};

function exitCodes(failure: string): string {
  return `Exit codes: 0 success; 1 if ${failure}; 2 invalid usage.`;
}

/** Returns the text of `--help` after a command. */
export function commandHelp(command: CommandName): string {
  const { args, help } = COMMANDS[command];
  const needsStore = STORE_COMMANDS.some((name) => name === command);
  const usage = `deno run -A ${
    needsStore ? "--unstable-kv " : ""
  }jsr:@rep/gateway ${command}`;
  const options = Object.entries(COMMAND_OPTIONS).filter(([, { commands }]) =>
    commands.some((it) => it === command)
  );
  return [
    `${help}.`,
    "",
    `Usage: ${usage} ${`${args} [OPTION ...]`.trim()}`,
    "",
    ...formatRows([...optionRows(Object.fromEntries(options)), [
      "-h, --help",
      "Print this help",
    ]]),
    "",
    ...NOTES[command].flatMap((note) => wrap(note)),
  ].join("\n");
}
