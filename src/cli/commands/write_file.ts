import { dirname } from "@std/path/dirname";
import { ConfigurationError } from "../../config/snapshot.ts";
import { messageOf } from "../../observe/log.ts";
import { isGranted } from "../../values/permissions.ts";

const encoder = new TextEncoder();

/**
 * Writes a file that an option or argument names, with its directory, unless it has these bytes already.
 *
 * @returns Whether it was written.
 * @throws {ConfigurationError} If it cannot be written.
 */
export async function writeFile(flag: string, path: string, data: string | Uint8Array): Promise<boolean> {
  const bytes = typeof data === "string" ? encoder.encode(data) : data;
  if (await hasBytes(path, bytes)) return false;
  if (!isGranted({ name: "write", path })) {
    throw new ConfigurationError([`Cannot write ${flag} "${path}": expected --allow-write=${path}`]);
  }
  try {
    await Deno.mkdir(dirname(path), { recursive: true });
    await Deno.writeFile(path, bytes);
    return true;
  } catch (cause) {
    throw new ConfigurationError([`Cannot write ${flag} "${path}": ${messageOf(cause)}`], { cause });
  }
}

async function hasBytes(path: string, bytes: Uint8Array): Promise<boolean> {
  if (!isGranted({ name: "read", path })) return false;
  const existing = await Deno.readFile(path).catch(() => undefined); // it does not exist, or the write reports why
  return existing !== undefined && existing.length === bytes.length && existing.every((byte, i) => byte === bytes[i]);
}
