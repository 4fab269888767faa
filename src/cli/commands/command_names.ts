/** A command, which does not start the gateway. */
interface CommandDescription {
  /** The arguments in `--help`; in brackets if they are optional. */
  readonly args: string;
  readonly help: string;
}

/** The commands, with their arguments and their descriptions for `--help`. */
export const COMMANDS = {
  validate: {
    args: "",
    help: "Check the manifest, the env files and the environment",
  },
  typegen: {
    args: "",
    help: "Print TypeScript types for the variables in the manifest",
  },
  lint: {
    args: "[DIR ...]",
    help: "Find values that look like secrets in a build",
  },
  inject: {
    args: "DIR ...",
    help: "Write PUBLIC values into the pages of a build",
  },
  set: { args: "KEY=VALUE ...", help: "Set PUBLIC variables in the store" },
  unset: { args: "KEY ...", help: "Delete variables from the store" },
  list: { args: "", help: "Print the variables in the store" },
  history: { args: "", help: "Print the latest writes, newest first" },
  watch: { args: "", help: "Print every new write, until SIGINT" },
} as const satisfies Record<string, CommandDescription>;

/** The name of a command. */
export type CommandName = keyof typeof COMMANDS;

/** The names of all commands, in the order of `--help`. */
export const COMMAND_NAMES = Object.keys(COMMANDS) as CommandName[];

/** Returns the command that a command line begins with; without one, it starts the gateway. */
export function commandIn(args: readonly string[]): CommandName | undefined {
  const [first] = withoutDashes(args);
  return COMMAND_NAMES.find((name) => name === first);
}

/** Removes a leading `--`, which `deno serve` and `deno task` pass on. */
export function withoutDashes(args: readonly string[]): string[] {
  return args[0] === "--" ? args.slice(1) : [...args];
}
