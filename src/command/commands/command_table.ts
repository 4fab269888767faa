import { MAX_HISTORY } from "../../core/config/stored/stored_variables.ts";
import { BY, WHY } from "../../stored/write_cause.ts";
import {
  integer,
  optionalInteger,
  type OptionValues,
  paths,
  PORT,
  text,
  textual,
  toggle,
} from "../options/option_kinds.ts";
import { OPTIONS } from "../options/option_table.ts";
import { accept } from "../../options.ts";
import { EXPECTED_SITE, isSiteName } from "../sites/site_names.ts";

/** The options of all commands, except `--help`, which every command has. */
export const COMMAND_OPTIONS = {
  "kv": text(
    "PATH|URL",
    "Database of the gateway; by default, Deno's own database",
  ),
  "app": OPTIONS.app,
  "site": textual(
    "HOST",
    EXPECTED_SITE,
    accept(isSiteName),
    "Site of a gateway with --sites: the same as --app HOST",
  ),
  "sites": OPTIONS.sites,
  "releases": OPTIONS.releases,
  "static-dir": OPTIONS["static-dir"],
  "immutable": OPTIONS.immutable,
  "keep-builds": OPTIONS["keep-builds"],
  "port": integer(
    PORT,
    "Port of the gateway, if it has neither --kv nor --app",
  ),
  "manifest": text(
    "FILE",
    "Manifest; by default .rep.yaml",
  ),
  "env-file": OPTIONS["env-file"],
  "strict": OPTIONS.strict,
  "accept-public": OPTIONS["accept-public"],
  "out": text("FILE", "Write the types to this file"),
  "check": toggle("Compare the types with the file of --out, for CI"),
  "config-js": text("FILE", "Also write a script for pages to load"),
  "dir": paths("DIR", "Same as the argument DIR"),
  "pattern": paths("GLOB", "Check these files only"),
  "exclude": paths("GLOB,…", "Skip these files"),
  "json": toggle("Print JSON"),
  "if-id": optionalInteger(
    { min: 0, max: Number.MAX_SAFE_INTEGER },
    "ID",
    "Write only if the variable has this id; 0 means that it must not exist",
  ),
  "by": textual(
    "NAME",
    BY.expected,
    accept((text) => BY.pattern.test(text)),
    "Who writes, for the history; by default, user@host",
  ),
  "why": textual(
    "TEXT",
    WHY.expected,
    accept((text) => WHY.pattern.test(text)),
    "Reason of the write, for the history",
  ),
  "new-app": toggle("The app is new, although the store has other ones"),
  "force": toggle(
    "Overwrite files; set values that look like secrets, or have quotes or white space around them",
  ),
  "limit": integer(
    { min: 1, max: MAX_HISTORY, default: 20 },
    `Number of writes, 1 to ${MAX_HISTORY}`,
  ),
};

/** A command that does not start the gateway. */
interface CommandDescription {
  /** The arguments as in `--help`; in brackets if they are optional. */
  readonly args: string;
  readonly help: string;
  readonly options: readonly (keyof typeof COMMAND_OPTIONS)[];
  /** Remarks at the end of its own `--help`. */
  readonly notes: readonly string[];
  /** When the exit code is 1: what follows "if". */
  readonly fails: string;
}

/** The options that name the store of an app, and those of its output. */
const STORE_OPTIONS = ["kv", "app", "site", "port", "json"] as const;
const STORE_NOTES = [
  "Without the flags, REP_GATEWAY_KV, REP_GATEWAY_APP and REP_GATEWAY_PORT are used.",
];
const KEY_NOTE = "KEY is a name with or without the prefix REP_PUBLIC_.";
const WRITE_NOTES = [
  "Without --by, REP_GATEWAY_BY is used. Neither is checked: the name is a claim, and no proof.",
  "Waits up to 6 s until the running gateways have taken the change. Exit code 3: it is written, but no gateway has taken it.",
  ...STORE_NOTES,
];
const READ_FAILS = "the store is unavailable";
const WRITE_FAILS =
  "the change is rejected, conflicts with another, or the store is unavailable";

/** All commands. `run_command.ts` contains the function of each. */
export const COMMANDS = {
  init: {
    args: "[DIR ...]",
    help: "Write a manifest and an env file for an app",
    options: ["manifest", "env-file", "force"],
    notes: [
      "Searches the sources in DIR, by default in this directory, and in the workspace's packages that these use, for " +
      "variables of Vite, Create React App, Next.js, Nuxt, Vue CLI and Astro, such as import.meta.env.VITE_TITLE. Reads " +
      "their values from env files in DIR, in Vite's envDir, in this directory and in the root of the workspace, as Vite " +
      "does. Writes .rep.yaml and app.env, or the files that the options name; for modes, one env file each. What pages " +
      "read is PUBLIC, unless its value has the format of a secret. Prints what it chose.",
    ],
    fails: "a file exists, unless --force is set",
  },
  validate: {
    args: "",
    help: "Check the manifest, the env files, the environment and the store",
    options: [
      "manifest",
      "env-file",
      "strict",
      "accept-public",
      "kv",
      "app",
      "sites",
      "releases",
      "static-dir",
      "immutable",
      "keep-builds",
      "json",
    ],
    notes: [
      "With --sites, checks each site, with the other options for what a site does not have.",
      "Reads the store if --kv or REP_GATEWAY_KV names one, and writes nothing to it. That needs Deno.",
      "Prints every variable with its effective value and its source. Values of SENSITIVE and SERVER variables, and those " +
      "that look like secrets, are not printed.",
    ],
    fails: "there is an issue",
  },
  typegen: {
    args: "",
    help: "Print TypeScript types for the variables in the manifest",
    options: ["manifest", "out", "check"],
    notes: [
      "The types are for @rep/gateway/client and @rep-protocol/sdk. Include the file in the types of your project.",
    ],
    fails: "the manifest is invalid, or with --check if the file differs",
  },
  lint: {
    args: "[DIR ...]",
    help: "Find values that look like secrets in a build",
    options: ["strict", "dir", "pattern", "exclude", "json"],
    notes: [
      "Without DIR, checks dist. Values that look like secrets are not printed.",
    ],
    fails: "there is a finding",
  },
  inject: {
    args: "DIR ...",
    help: "Write PUBLIC values into the pages of a build",
    options: ["manifest", "env-file", "strict", "accept-public", "config-js"],
    notes: [
      "For builds that are served without a gateway, such as from a CDN. Injecting again replaces the values. With " +
      '--config-js, DIR is optional: pages load the script with <script src="/config.js"></script> before their own ' +
      "scripts.",
    ],
    fails: "the configuration is invalid, or there is no page",
  },
  set: {
    args: "KEY=VALUE ...",
    help: "Set PUBLIC variables in the store",
    options: [
      ...STORE_OPTIONS,
      "manifest",
      "if-id",
      "by",
      "why",
      "new-app",
      "force",
    ],
    notes: [KEY_NOTE, ...WRITE_NOTES],
    fails: WRITE_FAILS,
  },
  unset: {
    args: "KEY ...",
    help: "Delete variables from the store",
    options: [...STORE_OPTIONS, "if-id", "by", "why"],
    notes: [KEY_NOTE, ...WRITE_NOTES],
    fails: WRITE_FAILS,
  },
  undo: {
    args: "[ID]",
    help: "Take back a set, unset or undo, by default your newest write",
    options: [...STORE_OPTIONS, "manifest", "by", "why", "force"],
    notes: [
      "ID is that of any of its writes, as history prints it. All its variables get the values that they had before. Needed " +
      "if the newest write is an undo, or that of another writer.",
      ...WRITE_NOTES,
    ],
    fails:
      "one of the variables was written since, the change is rejected, or the store is unavailable",
  },
  list: {
    args: "",
    help: "Print the variables in the store",
    options: STORE_OPTIONS,
    notes: STORE_NOTES,
    fails: READ_FAILS,
  },
  apps: {
    args: "",
    help: "Print the apps of the store that have a name",
    options: ["kv", "json"],
    notes: [
      "An app is there since its gateway was started, or set was used for it. Without --kv, REP_GATEWAY_KV is used.",
    ],
    fails: READ_FAILS,
  },
  forget: {
    args: "NAME",
    help: "Delete all that the store has of an app or a site",
    options: ["kv"],
    notes: [
      "Deletes its variables with their history, its events and its master key, if no option sets one: its open pages get no " +
      "keys any more. Stop its gateways, or remove its directory from --sites, before. Without --kv, REP_GATEWAY_KV is used.",
    ],
    fails: "a gateway of it is running, or the store is unavailable",
  },
  history: {
    args: "",
    help: "Print the latest writes, newest first",
    options: [...STORE_OPTIONS, "limit"],
    notes: STORE_NOTES,
    fails: READ_FAILS,
  },
} satisfies Record<string, CommandDescription>;

/** The name of a command. */
export type CommandName = keyof typeof COMMANDS;

/** The names of all commands, in the order of `--help`. */
export const COMMAND_NAMES = Object.keys(COMMANDS) as CommandName[];

/** Returns whether a command needs Deno, since it always uses the store. */
export function needsDeno(command: CommandName): boolean {
  const options: readonly string[] = COMMANDS[command].options;
  return options.includes("kv") && command !== "validate";
}

/** A parsed command line. */
export interface CommandArguments extends OptionValues<typeof COMMAND_OPTIONS> {
  readonly command: CommandName;
  /** The arguments after the command that are not flags. */
  readonly args: readonly string[];
}

/** Returns the command that a command line begins with; `undefined` if it starts the gateway. */
export function commandIn(args: readonly string[]): CommandName | undefined {
  const [first] = withoutDashes(args);
  return COMMAND_NAMES.find((name) => name === first);
}

/** Removes a leading `--`, which `deno serve` and `deno task` pass on. */
export function withoutDashes(args: readonly string[]): string[] {
  return args[0] === "--" ? args.slice(1) : [...args];
}
