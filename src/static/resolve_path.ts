import { join, SEPARATOR } from "@std/path";

/** What stands under a path: a file with its real path, or why there is none. */
export type ResolvedPath =
  | { kind: "file"; path: string }
  | { kind: "directory" | "absent" | "refused" };

/**
 * Looks for what stands below a directory, without opening it.
 *
 * Symbolic links are followed as long as they end inside the directory: Kubernetes mounts are made of them. The
 * directory may be a link itself that is turned to another release at any time, so it is resolved afresh.
 *
 * @returns `refused` for what lies outside, must not be looked at, or is neither a file nor a directory: to open a FIFO
 * would wait for ever.
 */
export async function resolvePath(directory: string, names: readonly string[]): Promise<ResolvedPath> {
  try {
    const top = await Deno.realPath(directory);
    const path = await Deno.realPath(join(top, ...names));
    return isInside(path, top) ? await entryAt(path) : { kind: "refused" };
  } catch (error) {
    if (isAbsence(error)) return { kind: "absent" };
    if (isRefusal(error)) return { kind: "refused" };
    throw error;
  }
}

/** `/srv/site-old` begins with `/srv/site` and is not in it. */
function isInside(path: string, top: string): boolean {
  return path === top || path.startsWith(top.endsWith(SEPARATOR) ? top : top + SEPARATOR);
}

async function entryAt(path: string): Promise<ResolvedPath> {
  const { isFile, isDirectory } = await Deno.stat(path);
  if (isFile) return { kind: "file", path };
  return { kind: isDirectory ? "directory" : "refused" };
}

function isAbsence(error: unknown): boolean {
  return error instanceof Deno.errors.NotFound || error instanceof Deno.errors.NotADirectory;
}

function isRefusal(error: unknown): boolean {
  return error instanceof Deno.errors.PermissionDenied || error instanceof Deno.errors.NotCapable ||
    error instanceof Deno.errors.FilesystemLoop ||
    (error instanceof Error && "code" in error && error.code === "ENAMETOOLONG"); // Deno has no class for it
}
