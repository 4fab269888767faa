import { SEPARATOR } from "@std/path/constants";
import { join } from "@std/path/join";
import { versionOf } from "./file_version.ts";

/** A file below the served directory. */
export interface ResolvedFile {
  /** Its real path. */
  readonly path: string;
  /** The real path of the directory. */
  readonly root: string;
  /** Identifies the version of the file: see {@linkcode versionOf}. */
  readonly version: string;
}

/** What a path leads to: a file, or the reason why there is none. */
export type ResolvedPath =
  | { kind: "file"; file: ResolvedFile }
  | { kind: "directory" | "absent" | "rejected" };

/**
 * Resolves a path below a directory, without opening the file.
 *
 * Symbolic links are followed if they end inside the directory, as in Kubernetes mounts. The directory itself may be a
 * link that is switched to another release at any time, so it is resolved for each call.
 *
 * @returns `rejected` if the path leads out of the directory, must not be accessed, or is neither a file nor a
 * directory. What is at the path may change before it is opened: {@linkcode openRegularFile} looks again.
 */
export async function resolvePath(directory: string, names: readonly string[]): Promise<ResolvedPath> {
  return await withoutErrors(async () => await resolveInside(await Deno.realPath(directory), names));
}

/**
 * As {@linkcode resolvePath}, for a directory that is resolved already: with a file of the same release.
 *
 * @param root The real path of the directory.
 */
export async function resolveBelow(root: string, names: readonly string[]): Promise<ResolvedPath> {
  return await withoutErrors(() => resolveInside(root, names));
}

async function resolveInside(root: string, names: readonly string[]): Promise<ResolvedPath> {
  const path = await Deno.realPath(join(root, ...names));
  return isInside(path, root) ? await inspect(path, root) : { kind: "rejected" };
}

async function withoutErrors(resolve: () => Promise<ResolvedPath>): Promise<ResolvedPath> {
  try {
    return await resolve();
  } catch (error) {
    if (isAbsence(error)) return { kind: "absent" };
    if (isInaccessible(error)) return { kind: "rejected" };
    throw error;
  }
}

/** Compares whole names: `/srv/site-old` begins with `/srv/site`, but is not inside. */
function isInside(path: string, root: string): boolean {
  return path === root || path.startsWith(root.endsWith(SEPARATOR) ? root : root + SEPARATOR);
}

async function inspect(path: string, root: string): Promise<ResolvedPath> {
  const stats = await Deno.stat(path);
  if (stats.isFile) return { kind: "file", file: { path, root, version: versionOf(stats) } };
  return { kind: stats.isDirectory ? "directory" : "rejected" };
}

function isAbsence(error: unknown): boolean {
  return error instanceof Deno.errors.NotFound || error instanceof Deno.errors.NotADirectory;
}

function isInaccessible(error: unknown): boolean {
  return error instanceof Deno.errors.PermissionDenied || error instanceof Deno.errors.NotCapable ||
    error instanceof Deno.errors.FilesystemLoop ||
    (error instanceof Error && "code" in error && error.code === "ENAMETOOLONG"); // Deno has no class for it
}
