import { systemClock } from "../../core/values/clock.ts";
import { OptionError } from "../../core/values/option_error.ts";
import type { FileSystem } from "../../files/local_files.ts";
import {
  isInside,
  lastName,
  SEPARATOR,
  toAbsolute,
} from "../../files/paths.ts";
import { DirectoryGate } from "./directory_gate.ts";

/**
 * Checks that kept builds are outside of what is served, which would serve them or keep them again.
 *
 * @param served The directories from which files are served.
 * @param gate Limits the wait for a directory on a network. @default {one of its own}
 * @throws {OptionError} If they are not, or if there are no files to keep.
 */
export async function checkKeepBuilds(
  keepBuilds: string | undefined,
  immutable: readonly string[],
  served: readonly (string | undefined)[],
  files: FileSystem,
  gate = new DirectoryGate(systemClock),
): Promise<void> {
  if (keepBuilds === undefined) return;
  const got = JSON.stringify(keepBuilds);
  const directories = served.filter((path) => path !== undefined);
  if (directories.length === 0 || immutable.length === 0) {
    const expected = "static files, of which some are immutable";
    throw new OptionError("keepBuilds", expected, got);
  }
  const path = toAbsolute(keepBuilds);
  const own = await gate.run("keep", () => realPathOf(path, files))
    .catch(() => path); // it does not answer; the app starts without it
  for (const directory of directories) {
    const other = await realPathOf(toAbsolute(directory), files);
    if (!isInside(own, other) && !isInside(other, own)) continue;
    const expected = `a directory neither inside "${directory}" nor around it`;
    throw new OptionError("keepBuilds", expected, got);
  }
}

/** Returns a path without links. What does not exist yet is in the directory to which the path before it leads. */
async function realPathOf(path: string, files: FileSystem): Promise<string> {
  try {
    return await files.realPath(path);
  } catch {
    const name = lastName(path);
    if (name === path) return path;
    const parent = await realPathOf(path.slice(0, -name.length - 1), files);
    if (name === "..") return parent.slice(0, -lastName(parent).length - 1);
    return name === "" || name === "." ? parent : parent + SEPARATOR + name;
  }
}
