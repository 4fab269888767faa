import { join } from "@std/path";
import { homedir } from "node:os";

/** Returns the folder in which the tools keep what they download: XDG Base Directory Specification. */
function userCache(): string {
  return join(
    Deno.env.get("XDG_CACHE_HOME") || join(homedir(), ".cache"),
    "rep-gateway",
  );
}

/**
 * Returns a folder of the cache, which is filled once. A rename is atomic: no process sees an incomplete folder, and if
 * several fill it at once, one wins.
 *
 * @param fill Writes the contents into an empty folder beside it, which is removed if that fails.
 */
export async function cachedFolder(
  name: string,
  fill: (folder: string) => Promise<void>,
): Promise<string> {
  const cache = userCache();
  const folder = join(cache, name);
  if (!await exists(folder)) await fillOnce(folder, cache, fill);
  return folder;
}

async function fillOnce(
  folder: string,
  cache: string,
  fill: (folder: string) => Promise<void>,
): Promise<void> {
  await Deno.mkdir(cache, { recursive: true });
  const staging = await Deno.makeTempDir({ dir: cache, prefix: "incomplete-" });
  try {
    await fill(staging);
    await Deno.rename(staging, folder);
  } catch (error) {
    await Deno.remove(staging, { recursive: true });
    if (!await exists(folder)) throw error;
  }
}

async function exists(path: string): Promise<boolean> {
  try {
    await Deno.stat(path);
    return true;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}
