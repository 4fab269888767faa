import type { Log, LogFields } from "../../observe/log.ts";
import {
  type Option,
  OPTION_NAMES,
  type OptionName,
  OPTIONS,
} from "./option_table.ts";
import { MASTER_KEY_VARIABLE } from "./read_options.ts";

/**
 * The flags by the names that the module's messages have for them. Single words stay, since they may not be meant as
 * names, unless they are in backticks.
 */
const FLAGS: ReadonlyMap<string, string> = new Map([
  ["storePath", "--kv"], // a parameter of openStore()
  ["allowSecrets", "--force"], // an option of setStoredVariables()
  ["manifestPath", "--manifest"],
  ["`store`", "--kv"],
  ["`masterKey`", MASTER_KEY_VARIABLE],
  ...OPTION_NAMES.map((name) => [`\`${name}\``, `--${name}`] as const),
  ...OPTION_NAMES.filter((name) => name.includes("-")).map((name) =>
    [moduleName(name), `--${name}`] as const
  ),
]);

/** Durations of the module are in milliseconds, and sizes in bytes. */
function moduleName(name: OptionName): string {
  const { value }: Option<unknown> = OPTIONS[name];
  const unit = value === "DURATION" ? "Ms" : value === "SIZE" ? "Bytes" : "";
  return name.replace(/-(.)/g, (_, letter: string) => letter.toUpperCase()) +
    unit;
}

/**
 * Replaces the names of the module's options in a message by the flags of the command: `allowedHosts` by
 * `--allowed-hosts`. What is in quotes is a value, and stays.
 */
export function nameFlags(message: string): string {
  return message.replace(
    /"[^"]*"|`\w+`|\w+/g,
    (part) => FLAGS.get(part) ?? part,
  );
}

/** Returns a log whose details name the flags of the command. */
export function withFlagNames(log: Log): Log {
  return {
    debug: (event, fields) => log.debug(event, nameFlagsIn(fields)),
    info: (event, fields) => log.info(event, nameFlagsIn(fields)),
    warn: (event, fields) => log.warn(event, nameFlagsIn(fields)),
    error: (event, fields) => log.error(event, nameFlagsIn(fields)),
  };
}

function nameFlagsIn(fields: LogFields = {}): LogFields {
  const { detail } = fields;
  return typeof detail === "string"
    ? { ...fields, detail: nameFlags(detail) }
    : fields;
}
