import type { Environment } from "../../config/classify.ts";
import { isRepName, pickRepVariables } from "../../config/environment.ts";
import { messageOf } from "../../observe/log.ts";
import { readBoundedFile } from "./bounded_file.ts";
import { type EnvFileIssue, lineAt, parseEnvFile } from "../../config/parse_env_file.ts";

/** What an env file or directory contains. */
export interface EnvFile {
  readonly kind: "file" | "directory";
  readonly variables: Environment;
  /** Whether the file has no text, or the directory no entries. */
  readonly isEmpty: boolean;
  /** Whether the last line of the file has an end. */
  readonly isTerminated: boolean;
}

/** An issue, and where it is: a path, or `path:line`. */
export interface LocatedIssue {
  readonly where: string;
  readonly detail: string;
}

/** Env files that cannot be read or are invalid. The issues never contain a value. */
export class EnvFileError extends SyntaxError {
  /** The name of the class. */
  override name = "EnvFileError";
  /** All issues of all files. */
  readonly issues: readonly LocatedIssue[];

  /** Creates an error with all issues. */
  constructor(issues: readonly LocatedIssue[]) {
    super(issues.map(({ where, detail }) => `${where}: ${detail}`).join("\n"));
    this.issues = issues;
  }
}

/**
 * Reads several env files or directories, in order.
 *
 * @throws {EnvFileError} If any of them cannot be read or is invalid; the error has the issues of all.
 */
export async function readEnvFiles(paths: readonly string[]): Promise<readonly EnvFile[]> {
  const issues: LocatedIssue[][] = [];
  const files = await Promise.all(paths.map(async (path, index) => {
    try {
      return await readEnvFile(path);
    } catch (error) {
      issues[index] = [...issuesOf(error, path)]; // in the order of the paths, not of the failures
    }
  }));
  if (issues.length > 0) throw new EnvFileError(issues.flat());
  return files.filter((file) => file !== undefined);
}

function issuesOf(error: unknown, path: string): readonly LocatedIssue[] {
  return error instanceof EnvFileError ? error.issues : [{ where: path, detail: messageOf(error) }];
}

/** Creates an error about the file at a path, which may be in a directory of variables. */
function invalidFile(path: string, issues: readonly EnvFileIssue[]): EnvFileError {
  return new EnvFileError(issues.map(({ line, detail }) => {
    return { where: line === undefined ? path : `${path}:${line}`, detail };
  }));
}

/**
 * Reads variables from a file of `NAME=value` lines, or from a directory with one file per variable, as Kubernetes
 * mounts a ConfigMap or a Secret.
 *
 * @throws {Deno.errors.NotFound} Or another of `Deno.errors`, if the path cannot be read.
 * @throws {EnvFileError} If it is not UTF-8, or not an env file.
 */
export async function readEnvFile(path: string): Promise<EnvFile> {
  const { isDirectory } = await Deno.stat(path);
  return isDirectory ? await readDirectory(path) : await readFile(path);
}

async function readFile(path: string): Promise<EnvFile> {
  const text = await readText(path);
  const { variables, issues } = parseEnvFile(text);
  if (issues.length > 0) throw invalidFile(path, issues);
  return {
    kind: "file",
    variables: pickRepVariables(Object.fromEntries(variables)),
    isEmpty: text.trim() === "",
    isTerminated: text.endsWith("\n"),
  };
}

async function readDirectory(path: string): Promise<EnvFile> {
  const entries = await Array.fromAsync(Deno.readDir(path));
  const names = entries.map(({ name }) => name).filter(isRepName);
  const values = names.map(async (name) => [name, await readValue(`${path.replace(/\/+$/, "")}/${name}`)] as const);
  const variables = Object.fromEntries(await Promise.all(values));
  return { kind: "directory", variables, isEmpty: entries.length === 0, isTerminated: true };
}

/** The text of the file is the value, except for a newline at its end. */
async function readValue(path: string): Promise<string> {
  const text = await readText(path);
  const nul = text.indexOf("\0");
  if (nul < 0) return text.replace(/\r?\n$/, "");
  throw invalidFile(path, [{ line: lineAt(text, nul), detail: "expected text, got a NUL byte" }]);
}

/** Reads UTF-8 without its byte order mark. `Deno.readTextFile` would replace what is invalid. */
async function readText(path: string): Promise<string> {
  const bytes = await readBoundedFile(path);
  try {
    return decode(bytes);
  } catch {
    throw invalidFile(path, [{ line: firstInvalidLine(bytes), detail: "expected UTF-8" }]);
  }
}

function decode(bytes: Uint8Array): string {
  return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
}

/** A line feed is never part of another character in UTF-8, so that each line can be decoded on its own. */
function firstInvalidLine(bytes: Uint8Array): number {
  let start = 0;
  for (let line = 1;; line++) {
    const end = bytes.indexOf(0x0a, start);
    if (end < 0 || !isValid(bytes.subarray(start, end))) return line;
    start = end + 1;
  }
}

function isValid(bytes: Uint8Array): boolean {
  try {
    decode(bytes);
    return true;
  } catch {
    return false; // a TypeError is the answer to the question
  }
}
