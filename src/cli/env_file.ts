import { parseEnv } from "node:util";
import { join } from "@std/path";
import type { Environment } from "../variables/classify.ts";
import { isRepName, pickRepVariables } from "../variables/environment.ts";

/**
 * Reads variables from a file of `NAME=value` lines, or from a directory with one file per variable, as Kubernetes mounts a
 * ConfigMap or a Secret.
 *
 * @throws {Deno.errors.NotFound} Or another of `Deno.errors`, if the path cannot be read.
 */
export async function readEnvFile(path: string): Promise<Environment> {
  const { isDirectory } = await Deno.stat(path);
  return isDirectory ? await readDirectory(path) : parseEnvText(await Deno.readTextFile(path));
}

/**
 * Parses `NAME=value` lines with the parser of Node.js, which is built in and does not expand variables. An unquoted `#`
 * starts a comment, even within a value.
 */
export function parseEnvText(text: string): Environment {
  const withoutBom = text.replace(/^\uFEFF/, ""); // `parseEnv` would make it part of the first name
  return pickRepVariables(parseEnv(withoutBom) as Environment);
}

async function readDirectory(path: string): Promise<Environment> {
  const entries = await Array.fromAsync(Deno.readDir(path));
  const names = entries.map(({ name }) => name).filter(isRepName);
  const values = names.map(async (name) => [name, await readValue(join(path, name))] as const);
  return Object.fromEntries(await Promise.all(values));
}

/** A newline at the end of a file is not part of the value. */
async function readValue(path: string): Promise<string> {
  return (await Deno.readTextFile(path)).replace(/\r?\n$/, "");
}
