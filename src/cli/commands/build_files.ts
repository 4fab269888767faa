import { join } from "@std/path/join";
import { ConfigurationError } from "../../config/variables/snapshot.ts";
import { messageOf } from "../../observe/log.ts";
import { missingRead } from "../sources/variable_sources.ts";

/**
 * Lists the regular files of a build in the order of their paths, or a single one. Links to directories are not
 * followed, since they could form a cycle.
 *
 * @throws {ConfigurationError} If the directory or the permission to read it is missing, or it is neither a directory
 * nor a regular file.
 */
export async function listBuildFiles(path: string): Promise<string[]> {
  const missing = missingRead("DIR", path);
  if (missing !== undefined) throw new ConfigurationError([missing]);
  try {
    const { isDirectory, isFile } = await Deno.stat(path);
    if (!isDirectory && !isFile) {
      throw new TypeError("expected a directory or a regular file");
    }
    return isDirectory ? await listDirectory(path) : [path];
  } catch (cause) {
    throw new ConfigurationError([
      `Cannot read DIR "${path}": ${messageOf(cause)}`,
    ], { cause });
  }
}

async function listDirectory(directory: string): Promise<string[]> {
  const entries = await Array.fromAsync(Deno.readDir(directory));
  entries.sort((a, b) => a.name < b.name ? -1 : 1);
  const lists = entries.map((entry) => {
    const path = join(directory, entry.name);
    if (entry.isDirectory) return listDirectory(path);
    return entry.isSymlink
      ? listLink(path)
      : Promise.resolve(entry.isFile ? [path] : []);
  });
  return (await Promise.all(lists)).flat();
}

async function listLink(path: string): Promise<string[]> {
  const target = await Deno.stat(path).catch(() => undefined); // a broken link
  return target?.isFile ? [path] : [];
}
