import { join } from "@std/path/join";
import fs from "node:fs/promises";
import { ConfigurationError } from "../../core/config/variables/snapshot.ts";
import { messageOf } from "../../core/observe/log.ts";

/**
 * Lists the regular files of a directory, sorted by path, or returns the path if it is a file. It does not follow links
 * to directories, since they could form a cycle.
 *
 * @param isSkipped Returns whether to skip directories of this name. By default, none is skipped.
 * @throws {ConfigurationError} If it cannot be read, or is neither a directory nor a regular file.
 */
export async function listBuildFiles(
  path: string,
  isSkipped: (name: string) => boolean = () => false,
): Promise<string[]> {
  try {
    const info = await fs.stat(path);
    return info.isFile() ? [path] : await listDirectory(path, isSkipped);
  } catch (cause) {
    throw new ConfigurationError([
      `Cannot read DIR "${path}": ${messageOf(cause)}`,
    ], { cause });
  }
}

async function listDirectory(
  directory: string,
  isSkipped: (name: string) => boolean,
): Promise<string[]> {
  const entries = await fs.readdir(directory, { withFileTypes: true });
  entries.sort((a, b) => a.name < b.name ? -1 : 1);
  const lists = entries.map(async (entry) => {
    const path = join(directory, entry.name);
    if (entry.isSymbolicLink()) {
      const target = await fs.stat(path).catch(() => undefined); // a broken link
      return target?.isFile() ? [path] : [];
    }
    if (entry.isFile()) return [path];
    const isListed = entry.isDirectory() && !isSkipped(entry.name);
    return isListed ? await listDirectory(path, isSkipped) : [];
  });
  return (await Promise.all(lists)).flat();
}
