import { messageOf } from "../../observe/log.ts";
import { localFiles, readBoundedFile } from "../../values/local_files.ts";
import { isGranted } from "../../values/runtime.ts";
import { ConfigurationError } from "../variables/snapshot.ts";
import { type Environment, isRepName } from "../variables/tiers.ts";
import { parseEnvFile } from "./parse_env_file.ts";

/** Returns the `REP_…` variables of the process; none without `--allow-env`, since reading them would prompt. */
export function readEnvironment(): Environment {
  return isGranted({ name: "env" }) ? pickRepVariables(allVariables()) : {};
}

/** On Deno, `process` is not even looked at, since that loads the Node layer. Some runtimes have neither. */
function allVariables(): Environment {
  if (globalThis.Deno !== undefined) return Deno.env.toObject();
  const { process } = globalThis as { process?: { env: Environment } };
  return process?.env ?? {};
}

/** Others may be secrets of other programs and are not kept in memory. */
function pickRepVariables(environment: Environment): Environment {
  const entries = Object.entries(environment);
  return Object.fromEntries(entries.filter(([name]) => isRepName(name)));
}

/** What an env file or directory contains. */
export interface EnvFile {
  readonly variables: Environment;
  /** The line of each variable of a file, counted from 1. */
  readonly lines: ReadonlyMap<string, number>;
  /** Whether the last line of the file has an end. */
  readonly isTerminated: boolean;
}

/**
 * Reads several env files or directories, in order.
 *
 * @throws {ConfigurationError} If any of them cannot be read or is invalid. Each issue of all of them begins with the
 * place; the caller knows which option names it.
 */
export async function readEnvFiles(
  paths: readonly string[],
): Promise<readonly EnvFile[]> {
  const files: EnvFile[] = [];
  const issues: string[] = [];
  for (const path of paths) {
    try {
      files.push(await loadEnvFile(path));
    } catch (error) {
      if (error instanceof ConfigurationError) issues.push(...error.issues);
      else issues.push(`"${path}": ${messageOf(error)}`);
    }
  }
  if (issues.length > 0) throw new ConfigurationError(issues);
  return files;
}

/**
 * Reads variables from a file of `NAME=value` lines, or from a directory with one file per variable, as Kubernetes
 * mounts a ConfigMap or a Secret.
 *
 * @throws {Error} Of the runtime, if the path cannot be read.
 * @throws {ConfigurationError} If it is not UTF-8, or not an env file.
 */
export async function loadEnvFile(path: string): Promise<EnvFile> {
  const files = await localFiles();
  const { isDirectory } = await files.stat(path);
  if (isDirectory) return await readDirectory(path, await files.names(path));
  const text = await readText(path);
  const { variables, lines, issues } = parseEnvFile(text);
  if (issues.length > 0) {
    throw new ConfigurationError(
      issues.map(({ line, detail }) => `"${path}:${line}": ${detail}`),
    );
  }
  return {
    variables: pickRepVariables(Object.fromEntries(variables)),
    lines,
    isTerminated: text.endsWith("\n"),
  };
}

async function readDirectory(
  path: string,
  entries: readonly string[],
): Promise<EnvFile> {
  const directory = path.replace(/\/+$/, "");
  const names = entries.filter(isRepName);
  const values = await Promise.all(
    names.map((name) => readValue(`${directory}/${name}`)),
  );
  const variables = names.map((name, index) => [name, values[index]]);
  return {
    variables: Object.fromEntries(variables),
    lines: new Map(),
    isTerminated: true,
  };
}

/** The text of the file is the value, except for a newline at its end. */
async function readValue(path: string): Promise<string> {
  const text = await readText(path);
  return text.replace(/\r?\n$/, "");
}

/** Reads UTF-8 without its byte order mark. `Deno.readTextFile` would replace what is invalid. */
async function readText(path: string): Promise<string> {
  const bytes = await readBoundedFile(path);
  const reject = (position: number, detail: string): never => {
    const line = bytes.subarray(0, position).filter(isLineFeed).length + 1;
    throw new ConfigurationError([`"${path}:${line}": ${detail}`]);
  };
  const text = new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes);
  // What cannot be decoded becomes U+FFFD, which has other bytes, or more of them if the file ends with it.
  const replaced = new TextEncoder().encode(text);
  const invalid = bytes.findIndex((byte, index) => byte !== replaced[index]);
  if (invalid >= 0) reject(invalid, "expected UTF-8");
  if (replaced.length > bytes.length) reject(bytes.length, "expected UTF-8");
  const nul = bytes.indexOf(0);
  if (nul >= 0) reject(nul, "expected text, got a NUL byte");
  return text.replace(/^\uFEFF/, "");
}

function isLineFeed(byte: number): boolean {
  return byte === 0x0a;
}
