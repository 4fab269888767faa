import { ConfigurationError } from "../../config/snapshot.ts";
import { parseCommandManifest } from "../options/manifest_settings.ts";
import { readTextFile } from "../sources/sources.ts";
import type { CommandIo } from "./command_io.ts";
import type { CommandLine } from "./command_line.ts";
import { findManifest } from "./read_sources.ts";
import { generateTypes } from "../../config/generate_types.ts";
import { writeFile } from "./write_file.ts";

/** Prints TypeScript types for the variables in the manifest, or writes them to a file. */
export async function typegen(line: CommandLine, io: CommandIo): Promise<void> {
  const path = await findManifest(line);
  if (path === undefined) {
    throw new ConfigurationError(["Cannot find the manifest: expected --manifest, or .rep.yaml in this directory"]);
  }
  const { manifest, issues } = parseCommandManifest(await readTextFile(path, "--manifest"), path);
  if (issues.length > 0) throw new ConfigurationError(issues);
  const types = generateTypes(manifest.variables);
  if (line.out === undefined) io.print(types.trimEnd());
  else if (await writeFile("--out", line.out, types)) io.printError(`Wrote ${line.out}`);
  else io.printError(`${line.out} is up to date`);
}
