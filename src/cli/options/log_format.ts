import type { Environment } from "../../config/classify.ts";
import { environmentVariable } from "./option_table.ts";

/**
 * Returns whether `--log-format` is `text`, although other options may be invalid: the log says so in its configured
 * format.
 */
export function isTextLog(args: readonly string[], environment: Environment): boolean {
  const flags = args.flatMap((arg, index) => {
    const [isFlag, value] = /^--?log-format(?:=(.*))?$/s.exec(arg) ?? [];
    return isFlag === undefined ? [] : [value ?? args[index + 1]];
  });
  return (flags.at(-1) ?? environment[environmentVariable("log-format")]) === "text";
}
