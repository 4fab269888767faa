import { join } from "@std/path";

const IS_WINDOWS = Deno.build.os === "windows";

/**
 * Returns the path of a program.
 *
 * @param name Its name without `.exe`.
 * @param folders Where to look besides the folders in `PATH`.
 * @returns `undefined` if it is in none of them.
 */
export async function findProgram(
  name: string,
  folders: readonly string[] = [],
): Promise<string | undefined> {
  const path = Deno.env.get("PATH") ?? "";
  const onPath = path.split(IS_WINDOWS ? ";" : ":").filter(Boolean);
  const file = IS_WINDOWS ? `${name}.exe` : name;
  return await findFile([...onPath, ...folders], file);
}

/** Returns the path of a file in the first folder that contains it. */
export async function findFile(
  folders: readonly string[],
  name: string,
): Promise<string | undefined> {
  for (const folder of folders) {
    const path = join(folder, name);
    if (await isFile(path)) return path;
  }
}

/** Returns whether a path names a file. */
export async function isFile(path: string): Promise<boolean> {
  try {
    return (await Deno.stat(path)).isFile;
  } catch {
    return false; // missing, or not readable by this user
  }
}
