import { dirname } from "@std/path/dirname";
import { join } from "@std/path/join";
import type { Stats } from "node:fs";
import fs from "node:fs/promises";
import { isMissing } from "../../core/config/files/read_environment.ts";
import { ConfigurationError } from "../../core/config/variables/snapshot.ts";
import { messageOf } from "../../core/observe/log.ts";
import { isGranted } from "../../core/values/runtime.ts";

const encoder = new TextEncoder();

/**
 * Writes a file that an option or argument names, unless it already contains these bytes. It also writes to devices and
 * pipes.
 *
 * @returns Whether it was written.
 * @throws {ConfigurationError} If it cannot be written.
 */
export async function writeFile(
  flag: string,
  path: string,
  data: string | Uint8Array,
): Promise<boolean> {
  const bytes = typeof data === "string" ? encoder.encode(data) : data;
  const existing = await findRegularFile(path);
  const mayBeSame = existing?.info.size === bytes.length; // a file of another size may be too large to read
  if (mayBeSame && (await fs.readFile(path)).equals(bytes)) return false;
  if (!isGranted({ name: "write", path })) {
    throw new ConfigurationError([
      `Cannot write ${flag} "${path}": expected --allow-write=${path}`,
    ]);
  }
  try {
    if (existing !== undefined && canReplace(existing)) {
      await replaceFile(existing, bytes);
    } else await fs.writeFile(path, bytes);
    return true;
  } catch (cause) {
    const reason = isMissing(cause)
      ? `the directory "${dirname(path)}" does not exist`
      : messageOf(cause);
    throw new ConfigurationError(
      [`Cannot write ${flag} "${path}": ${reason}`],
      { cause },
    );
  }
}

/** An existing regular file. */
interface RegularFile {
  /** Its path without links. */
  readonly path: string;
  readonly info: Stats;
}

/** Returns `undefined` if there is no regular file at a path, or it may not be read. */
export async function findRegularFile(
  path: string,
): Promise<RegularFile | undefined> {
  if (!isGranted({ name: "read", path })) return undefined;
  try {
    const info = await fs.stat(path);
    return info.isFile() ? { path: await fs.realpath(path), info } : undefined;
  } catch {
    return undefined; // it does not exist, or writing it fails for the same reason
  }
}

/** Returns whether a temporary file may be written beside a file. */
function canReplace({ path }: RegularFile): boolean {
  return isGranted({ name: "write", path: dirname(path) });
}

/** Writes a temporary file and renames it, so that the file never contains only a part, even if the disk is full. */
async function replaceFile(
  { path, info }: RegularFile,
  bytes: Uint8Array,
): Promise<void> {
  const temporary = join(dirname(path), `.rep-${crypto.randomUUID()}`);
  try {
    await fs.writeFile(temporary, bytes, { flag: "wx", mode: 0o600 });
    await fs.chown(temporary, info.uid, info.gid).catch(() => {}); // only root may change the owner
    await fs.chmod(temporary, info.mode & 0o7777);
    await fs.rename(temporary, path);
  } catch (error) {
    await fs.rm(temporary, { force: true });
    throw error;
  }
}
