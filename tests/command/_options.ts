import type { StartOptions } from "../../src/command/options/option_table.ts";
import {
  type OptionSources,
  parseCommandLine,
  readOptions,
} from "../../src/command/options/read_options.ts";

/** Reads the options of a command line, with nothing else set unless `sources` says so. */
export function optionsOf(
  args: readonly string[],
  { environment = {}, manifest = {} }: Partial<OptionSources> = {},
): StartOptions {
  const { flags } = parseCommandLine(args);
  return readOptions({ flags, environment, manifest });
}
