import type { Stats } from "node:fs";
import fs from "node:fs/promises";
import { ConfigurationError } from "../../core/config/variables/snapshot.ts";
import { messageOf } from "../../core/observe/log.ts";

/**
 * Writes a file that an option or argument names; also a device or a pipe.
 *
 * @throws {ConfigurationError} If it cannot be written. A file that exists stays as it is then.
 */
export async function writeFile(
  flag: string,
  path: string,
  data: string | Uint8Array,
): Promise<void> {
  try {
    const info = await fs.stat(path).catch(() => undefined);
    if (!info?.isFile()) return await fs.writeFile(path, data);
    await replaceFile(await fs.realpath(path), info, data);
  } catch (cause) {
    const message = `Cannot write ${flag} "${path}": ${messageOf(cause)}`;
    throw new ConfigurationError([message], { cause });
  }
}

/** Writes another file and renames it: on a full disk, a page that is written in place would lose its end. */
async function replaceFile(
  path: string,
  { uid, gid, mode }: Stats,
  data: string | Uint8Array,
): Promise<void> {
  const temporary = `${path}.${crypto.randomUUID()}`;
  try {
    await fs.writeFile(temporary, data);
    await fs.chown(temporary, uid, gid).catch(() => {}); // only root may change the owner
    await fs.chmod(temporary, mode);
    await fs.rename(temporary, path);
  } catch (error) {
    await fs.rm(temporary, { force: true });
    throw error;
  }
}
