import type { Environment } from "./classify.ts";
import { isRepName, pickRepVariables } from "./environment.ts";
import { ConfigurationError } from "./snapshot.ts";
import { messageOf } from "../observe/log.ts";
import { localFiles, readBoundedFile } from "../values/local_files.ts";
import { type EnvFileIssue, lineAt, parseEnvFile } from "./parse_env_file.ts";

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
  const reads = await Promise.allSettled(paths.map(loadEnvFile));
  const issues = reads.flatMap((read, index) =>
    read.status === "rejected" ? issuesOf(read.reason, paths[index]) : []
  );
  if (issues.length > 0) throw new ConfigurationError(issues);
  return reads.flatMap((read) =>
    read.status === "fulfilled" ? [read.value] : []
  );
}

function issuesOf(error: unknown, path = ""): readonly string[] {
  return error instanceof ConfigurationError
    ? error.issues
    : [`"${path}": ${messageOf(error)}`];
}

/** Creates an error about the file at a path, which may be in a directory of variables. */
function invalidFile(
  path: string,
  issues: readonly EnvFileIssue[],
): ConfigurationError {
  return new ConfigurationError(issues.map(({ line, detail }) => {
    return `"${line === undefined ? path : `${path}:${line}`}": ${detail}`;
  }));
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
  return isDirectory
    ? await readDirectory(path, await files.names(path))
    : await readFile(path);
}

async function readFile(path: string): Promise<EnvFile> {
  const text = await readText(path);
  const { variables, lines, issues } = parseEnvFile(text);
  if (issues.length > 0) throw invalidFile(path, issues);
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
  const names = entries.filter(isRepName);
  const values = names.map(async (name) =>
    [name, await readValue(`${path.replace(/\/+$/, "")}/${name}`)] as const
  );
  const variables = Object.fromEntries(await Promise.all(values));
  return {
    variables,
    lines: new Map(),
    isTerminated: true,
  };
}

/** The text of the file is the value, except for a newline at its end. */
async function readValue(path: string): Promise<string> {
  const text = await readText(path);
  const nul = text.indexOf("\0");
  if (nul < 0) return text.replace(/\r?\n$/, "");
  throw invalidFile(path, [{
    line: lineAt(text, nul),
    detail: "expected text, got a NUL byte",
  }]);
}

/** Reads UTF-8 without its byte order mark. `Deno.readTextFile` would replace what is invalid. */
async function readText(path: string): Promise<string> {
  const bytes = await readBoundedFile(path);
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw invalidFile(path, [{
      line: firstInvalidLine(bytes),
      detail: "expected UTF-8",
    }]);
  }
}

/** What cannot be decoded becomes U+FFFD, which has other bytes, or more of them if the file ends with it. */
function firstInvalidLine(bytes: Uint8Array): number {
  const replaced = new TextEncoder().encode(
    new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes),
  );
  const position = bytes.findIndex((byte, index) => byte !== replaced[index]);
  const valid = position === -1 ? bytes : bytes.subarray(0, position);
  return valid.filter((byte) => byte === 0x0a).length + 1;
}
