import { isGranted } from "../values/runtime.ts";

/** Only the owner may read and write. */
const PRIVATE_MODE = 0o600;
const PRIVATE_UMASK = 0o077;
/** What SQLite puts beside a database. It gives new ones the mode of the database. */
export const SIDE_FILES: readonly string[] = ["-wal", "-shm", "-journal"];

/**
 * Creates a database file, if there is none, and makes it and the files beside it readable for their owner only.
 *
 * @returns Why other users may still read a file, if they may.
 * @throws {Deno.errors.NotFound} Or another of `Deno.errors`, if the file cannot be created.
 */
export async function restrictToOwner(
  path: string,
): Promise<string | undefined> {
  if (Deno.build.os === "windows") return undefined; // access is not controlled by a mode
  (await Deno.open(path, { write: true, create: true, mode: PRIVATE_MODE }))
    .close();
  try {
    await restrict(path);
    for (const suffix of SIDE_FILES) {
      await restrict(path + suffix).catch(ignoreMissing);
    }
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

async function restrict(path: string): Promise<void> {
  // The permission may be for the database only; then its new side files have its mode, at the latest after the next
  // restart.
  if (
    !isGranted({ name: "read", path }) || !isGranted({ name: "write", path })
  ) return;
  const { mode } = await Deno.stat(path);
  if (((mode ?? 0) & PRIVATE_UMASK) !== 0) await Deno.chmod(path, PRIVATE_MODE);
}

function ignoreMissing(error: unknown): void {
  if (!(error instanceof Deno.errors.NotFound)) throw error;
}

/** Opens a database whose path only Deno knows, and which it may have to create. */
export async function withPrivateUmask<T>(open: () => Promise<T>): Promise<T> {
  if (
    Deno.build.os === "windows" || !isGranted({ name: "sys", kind: "umask" })
  ) return await open();
  const previous = Deno.umask(PRIVATE_UMASK);
  try {
    return await open();
  } finally {
    Deno.umask(previous);
  }
}
