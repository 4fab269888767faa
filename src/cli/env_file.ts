import { parseEnv } from "node:util";
import { join } from "@std/path";
import type { Environment } from "../variables/classify.ts";
import { isRepName, pickRepVariables } from "../variables/environment.ts";

/**
 * Reads variables from a file of `NAME=value` lines, or from a directory in which each file is a variable: Kubernetes
 * mounts a ConfigMap or a Secret like that. Node's parser does the reading: it is built in, and expands nothing.
 *
 * @throws {Deno.errors.NotFound} And its like, if the path cannot be read.
 */
export async function readEnvFile(path: string): Promise<Environment> {
  const { isDirectory } = await Deno.stat(path);
  return isDirectory ? await readDirectory(path) : parseEnvText(await Deno.readTextFile(path));
}

/** The variables in a text of `NAME=value` lines. Outside of quotes, `#` begins a comment, also within a value. */
export function parseEnvText(text: string): Environment {
  const withoutMark = text.replace(/^\uFEFF/, ""); // Windows editors put it there, and parseEnv takes it for a letter
  return pickRepVariables(parseEnv(withoutMark) as Environment);
}

async function readDirectory(path: string): Promise<Environment> {
  const entries = await Array.fromAsync(Deno.readDir(path));
  const names = entries.map(({ name }) => name).filter(isRepName);
  const values = names.map(async (name) => [name, await readValue(join(path, name))] as const);
  return Object.fromEntries(await Promise.all(values));
}

/** A file's one last line end is its editor's, not the value's. */
async function readValue(path: string): Promise<string> {
  return (await Deno.readTextFile(path)).replace(/\r?\n$/, "");
}
