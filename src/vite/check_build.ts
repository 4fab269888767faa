import { readdir } from "node:fs/promises";
import { join, relative } from "node:path";
import { detectInCode } from "../config/variables/guardrails.ts";
import {
  type EnvPath,
  isMissing,
  loadEnvFile,
} from "../config/files/read_environment.ts";
import { classify } from "../config/variables/snapshot.ts";
import type { Environment, Variable } from "../config/variables/tiers.ts";
import { findSame } from "./deny_files.ts";
import type { ViteConfig, ViteOutput } from "./vite.ts";

/** @throws {Error} If a module is one of the files that the plugin reads, and would become part of a page. */
export async function rejectModule(
  id: string,
  paths: readonly string[],
  { root }: ViteConfig,
): Promise<void> {
  const path = id.replace(/[?#].*$/s, "");
  const found = await findSame([path], paths);
  if (found === undefined) return;
  const name = relative(root, found);
  throw new Error(
    `Cannot import ${name}: what the plugin reads is for no page`,
  );
}

/** @throws {Error} If one of the files that the plugin reads is in the folder of public files, which a build copies. */
export async function rejectPublicFiles(
  paths: readonly string[],
  { root, publicDir, build }: ViteConfig,
): Promise<void> {
  if (publicDir === "" || build.copyPublicDir === false) return;
  const names = await readdir(publicDir, { recursive: true }).catch(() => []); // there may be no such folder
  const files = names.map((name) => join(publicDir, name));
  const found = await findSame(files, paths);
  if (found === undefined) return;
  const name = relative(root, found);
  const folder = relative(root, publicDir);
  throw new Error(
    `Cannot build: ${name} would be part of the build, for everyone to read; expected it outside of ${folder}`,
  );
}

/** Shorter values are found in any code. */
const MIN_VALUE_LENGTH = 8;

/**
 * Checks the files of a build for the known formats of secrets, and for the SENSITIVE and SERVER values of the env files,
 * as far as these exist where the build runs.
 *
 * @throws {Error} If there are any: with the file and the name of the variable, but not the value.
 */
export async function rejectSecrets(
  files: readonly ViteOutput[],
  envFiles: readonly Pick<EnvPath, "path">[],
): Promise<void> {
  const secrets: Variable[] = [];
  for (const { path } of envFiles) {
    for (const secret of await secretsIn(path)) secrets.push(secret);
  }
  const findings: string[] = [];
  for (const file of files) {
    const text = textOf(file);
    const format = detectInCode(text);
    if (format) findings.push(`${file.fileName}: ${format.detail}`);
    for (const { name, value } of secrets) {
      if (!contains(text, value)) continue;
      findings.push(`${file.fileName}: the value of ${name}`);
    }
  }
  if (findings.length === 0) return;
  throw new Error(
    `Cannot build: the output contains secrets\n${findings.join("\n")}`,
  );
}

async function secretsIn(path: string): Promise<Variable[]> {
  const environment = await readIfPresent(path);
  const { variables } = classify(environment);
  return variables.filter(({ tier, value }) =>
    tier !== "public" && value.length >= MIN_VALUE_LENGTH
  );
}

async function readIfPresent(path: string): Promise<Environment> {
  try {
    const { variables } = await loadEnvFile(path);
    return variables;
  } catch (error) {
    if (isMissing(error)) return {};
    throw error;
  }
}

/** Returns whether code contains a value, as it is or as a string literal. */
function contains(code: string, value: string): boolean {
  const literal = JSON.stringify(value).slice(1, -1);
  return code.includes(value) || code.includes(literal);
}

function textOf(file: ViteOutput): string {
  if (file.type === "chunk") return file.code;
  if (typeof file.source === "string") return file.source;
  return new TextDecoder().decode(file.source);
}
