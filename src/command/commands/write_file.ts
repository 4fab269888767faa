import fs from "node:fs/promises";
import { ConfigurationError } from "../../core/config/variables/snapshot.ts";
import { messageOf } from "../../core/observe/log.ts";

/**
 * Writes a file that an option or argument names.
 *
 * @throws {ConfigurationError} If it cannot be written.
 */
export async function writeFile(
  flag: string,
  path: string,
  data: string | Uint8Array,
): Promise<void> {
  try {
    await fs.writeFile(path, data);
  } catch (cause) {
    const message = `Cannot write ${flag} "${path}": ${messageOf(cause)}`;
    throw new ConfigurationError([message], { cause });
  }
}
