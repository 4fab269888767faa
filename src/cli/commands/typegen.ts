import { ConfigurationError } from "../../config/variables/snapshot.ts";
import { findDefaultManifest, readManifest } from "../sources/sources.ts";
import type { CommandIo } from "./command_io.ts";
import type { CommandArguments } from "./command_line.ts";
import { generateTypes } from "../../config/variables/generate_types.ts";
import { writeFile } from "./write_file.ts";

/** Prints TypeScript types for the variables in the manifest, or writes them to a file. */
export async function typegen(
  line: CommandArguments,
  io: CommandIo,
): Promise<void> {
  const path = line.manifest ?? await findDefaultManifest();
  if (path === undefined) {
    throw new ConfigurationError([
      "Cannot find the manifest: expected --manifest, or .rep.yaml in this directory",
    ]);
  }
  const { variables } = await readManifest(path);
  const types = generateTypes(variables);
  if (line.out === undefined) io.print(types.trimEnd());
  else if (await writeFile("--out", line.out, types)) {
    io.printError(`Wrote ${line.out}`);
  } else io.printError(`${line.out} is up to date`);
}
