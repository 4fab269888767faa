import { dirname } from "@std/path/dirname";
import { ConfigurationError } from "../../config/snapshot.ts";
import { messageOf } from "../../observe/log.ts";
import { isGranted } from "../../values/permissions.ts";

const encoder = new TextEncoder();

/**
 * Writes a file that an option or argument names, with its directory, unless it has this content already.
 *
 * @returns Whether it was written.
 * @throws {ConfigurationError} If it cannot be written.
 */
export async function writeFile(flag: string, path: string, content: string | Uint8Array): Promise<boolean> {
  const bytes = typeof content === "string" ? encoder.encode(content) : content;
  if (await hasContent(path, bytes)) return false;
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

async function hasContent(path: string, bytes: Uint8Array): Promise<boolean> {
  if (!isGranted({ name: "read", path })) return false;
  const existing = await Deno.readFile(path).catch(() => undefined); // it does not exist, or the write reports why
  return existing !== undefined && existing.length === bytes.length && existing.every((byte, i) => byte === bytes[i]);
}
