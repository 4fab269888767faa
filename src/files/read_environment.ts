import { filterKeys } from "@std/collections/filter-keys";
import { messageOf } from "../core/observe/log.ts";
import { type FileSystem, localFiles, readBoundedFile } from "./local_files.ts";
import { isGranted } from "../core/values/runtime.ts";
import { ConfigurationError } from "../core/config/variables/snapshot.ts";
import { type Environment, isRepName } from "../core/config/variables/tiers.ts";

/** Returns the `REP_…` variables of the process; none without `--allow-env`, since Deno would ask for the permission. */
export function readEnvironment(): Environment {
  return isGranted({ name: "env" }) ? pickRepVariables(allVariables()) : {};
}

/** Does not touch `process` on Deno, where that loads the Node.js compatibility layer. Some runtimes have neither. */
function allVariables(): Environment {
  if (globalThis.Deno !== undefined) return Deno.env.toObject();
  const { process } = globalThis as { process?: { env: Environment } };
  return process?.env ?? {};
}

/** Other variables may be secrets of other programs, so they are not kept in memory. */
function pickRepVariables(environment: Environment): Environment {
  return filterKeys(environment, isRepName);
}

/** The content of an env file or directory. */
export interface EnvFile {
  readonly path: string;
  readonly variables: Environment;
  /** The line of each variable of a file, counted from 1. */
  readonly lines: ReadonlyMap<string, number>;
  /** Whether the file ends with a newline. */
  readonly isTerminated: boolean;
}

/** The path of an env file or directory. */
export interface EnvPath {
  readonly path: string;
  /** Whether it has to exist. */
  readonly required: boolean;
  /** What an error adds if it does not exist. */
  readonly remedy?: string;
}

/** Returns a path that has to exist. */
export function requiredPath(path: string): EnvPath {
  return { path, required: true };
}

/**
 * Reads several env files or directories, in order.
 *
 * @throws {ConfigurationError} If any of them cannot be read or is invalid. It contains the issues of all of them; each
 * begins with the path, before which the caller names the option.
 */
export async function readEnvFiles(
  paths: readonly EnvPath[],
): Promise<readonly EnvFile[]> {
  const files: EnvFile[] = [];
  const issues: string[] = [];
  for (const { path, required, remedy = "" } of paths) {
    try {
      files.push(await loadEnvFile(path));
    } catch (error) {
      const isComplete = error instanceof ConfigurationError;
      if (!required && isMissing(error)) files.push(unnumbered(path, []));
      else if (isComplete) issues.push(...error.issues);
      else {
        const hint = isMissing(error) ? remedy : "";
        issues.push(`"${path}": ${messageOf(error)}${hint}`);
      }
    }
  }
  if (issues.length > 0) throw new ConfigurationError(issues);
  return files;
}

/** Returns whether an error of Deno or Node.js says that there is no such file. */
export function isMissing(error: unknown): boolean {
  const { name, code } = error as { name?: string; code?: string };
  return name === "NotFound" || code === "ENOENT";
}

/**
 * Reads variables from a file of `NAME=value` lines, or from a directory with one file per variable, as Kubernetes
 * mounts a ConfigMap or a Secret.
 *
 * @param files The file system; by default, that of the runtime.
 * @throws {Error} The runtime's error, if the path cannot be read.
 * @throws {ConfigurationError} If a file is not UTF-8, or not an env file.
 */
export async function loadEnvFile(
  path: string,
  files?: FileSystem,
): Promise<EnvFile> {
  files ??= await localFiles();
  const { isDirectory } = await files.stat(path);
  if (isDirectory) return await readMount(path, files);
  const text = await readText(path, files);
  const { variables, lines, issues } = parseEnvFile(text);
  if (issues.length > 0) {
    throw new ConfigurationError(
      issues.map(({ line, detail }) => `"${path}:${line}": ${detail}`),
    );
  }
  return {
    path,
    variables: pickRepVariables(Object.fromEntries(variables)),
    lines,
    isTerminated: text.endsWith("\n"),
  };
}

/**
 * Reads a directory. Kubernetes replaces all its files at once by changing the target of the link `..data`. If that
 * happens during a read, some values are those of the previous version, or their files no longer exist.
 */
async function readMount(path: string, files: FileSystem): Promise<EnvFile> {
  const data = `${path}/..data`;
  const before = await targetOf(data, files);
  const reading = readDirectory(path, files);
  await reading.catch(() => {}); // the error is thrown below, unless the directory changed
  const after = await targetOf(data, files);
  return before === after ? await reading : await readMount(path, files);
}

/** Returns the target of a link; `undefined` if there is no such link, as in an ordinary directory. */
async function targetOf(
  link: string,
  files: FileSystem,
): Promise<string | undefined> {
  try {
    return await files.realPath(link);
  } catch {
    return undefined; // readDirectory() reports any other error
  }
}

async function readDirectory(
  directory: string,
  files: FileSystem,
): Promise<EnvFile> {
  const names = (await files.names(directory)).filter(isRepName).sort();
  const variables = await Promise.all(names.map(async (name) => {
    const text = await readText(`${directory}/${name}`, files);
    return [name, text.replace(/\r?\n$/, "")] as const; // without a newline at its end
  }));
  return unnumbered(directory, variables);
}

/** Returns what has no lines: a directory, or no file. */
function unnumbered(
  path: string,
  entries: readonly (readonly [string, string])[],
): EnvFile {
  const variables = Object.fromEntries(entries);
  return { path, variables, lines: new Map(), isTerminated: true };
}

/** Reads UTF-8 without its byte order mark. */
async function readText(path: string, files: FileSystem): Promise<string> {
  const bytes = await readBoundedFile(path, files);
  const text = decodeUtf8(bytes);
  if (text !== undefined && !text.includes("\0")) return text;
  const lines = new TextDecoder().decode(bytes).split("\n"); // with U+FFFD for what is no UTF-8
  const line = lines.findIndex((line) => /[\0\ufffd]/.test(line)) + 1;
  const issue = `"${path}:${line}": expected UTF-8 without NUL bytes`;
  throw new ConfigurationError([issue]);
}

function decodeUtf8(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return undefined; // a TypeError
  }
}

/** An issue of an env file. It never contains a value, since that may be a secret. */
export interface EnvFileIssue {
  /** The number of the line, counted from 1. */
  readonly line: number;
  /** One clause, such as `expected NAME=value`. */
  readonly detail: string;
}

/** The result of {@linkcode parseEnvFile}. */
interface ParsedEnvFile {
  /** The variables by name. They must not be used if there are issues. */
  readonly variables: ReadonlyMap<string, string>;
  /** The line in which each variable is assigned, counted from 1. */
  readonly lines: ReadonlyMap<string, number>;
  /** The first 20 issues, in the order of the file. */
  readonly issues: readonly EnvFileIssue[];
}

/** A file that is not an env file at all would have an issue in every line. */
const MAX_ISSUES = 20;

// Each pattern is matched at the current position only. `[^\S\r\n]` is white space, such as the no-break space of a web page.
const NOTHING = /[^\S\r\n]*(?:#[^\r\n]*)?(?:\n|$)/y; // includes the end of the line
const NAME = /[^\S\r\n]*(?:export[^\S\r\n]+)?([A-Za-z_][\w.-]*)[^\S\r\n]*=/y;
const QUOTED =
  /[^\S\r\n]*(?:"([^"\\]*(?:\\[^][^"\\]*)*)"|'([^']*)'|`([^`]*)`)(?:[^\S\r\n]+#[^\r\n]*|[^\S\r\n]*)(?:\n|$)/y;
const UNQUOTED = /(?![^\S\r\n]*["'`])([^\r\n]*)(?:\n|$)/y;
/** A value in quotes and what follows it in its line, or the rest of a line. */
const INVALID =
  /[^\S\r\n]*(?:"[^"\\]*(?:\\[^][^"\\]*)*"|'[^']*'|`[^`]*`)?[^\n]*\n?/y;
const LINE = /[^\n]*\n?/y;

/**
 * Parses lines of `NAME=value`. Everything that is not clearly an assignment, a comment or a blank line is an issue: a
 * file that is damaged, or is being written, must not look like a file from which variables were removed.
 *
 * - A value in single, double or back quotes may span lines. In double quotes, `\n`, `\r`, `\t`, `\"` and `\\` are
 *   escapes; every other backslash stands for itself.
 * - An unquoted value ends with its line, or before a `#` that follows whitespace, as in Docker Compose and
 *   python-dotenv.
 * - `export` may precede the name, and spaces may surround the `=`. Variables are not expanded. Lines end with LF or CRLF.
 */
export function parseEnvFile(source: string): ParsedEnvFile {
  const text = source.replaceAll("\r\n", "\n");
  const variables = new Map<string, string>();
  const lines = new Map<string, number>();
  const issues: EnvFileIssue[] = [];
  let position = 0;
  let line = 1;

  while (position < text.length && issues.length < MAX_ISSUES) {
    if (take(NOTHING) === undefined) parseAssignment(line);
  }
  return { variables, lines, issues };

  function parseAssignment(line: number): void {
    const name = take(NAME)?.[1];
    if (name === undefined) {
      const detail = "expected NAME=value, a comment or a blank line";
      issues.push({ line, detail });
      take(LINE);
      return;
    }
    const value = takeValue();
    const first = lines.get(name);
    if (value === undefined) {
      issues.push({ line, detail: EXPECTED_VALUE });
      take(INVALID);
    } else if (first !== undefined) {
      const detail =
        `expected each name once, but this one is already on line ${first}`;
      issues.push({ line, detail });
    } else {
      lines.set(name, line);
      variables.set(name, value);
    }
  }

  function takeValue(): string | undefined {
    const quoted = take(QUOTED);
    if (quoted === undefined) return withoutComment(take(UNQUOTED)?.[1]);
    const [, double, single, back] = quoted;
    return double === undefined ? single ?? back : unescape(double);
  }

  /** Matches a pattern at the current position, and moves behind the match. */
  function take(pattern: RegExp): RegExpExecArray | undefined {
    pattern.lastIndex = position;
    const match = pattern.exec(text);
    if (match === null) return undefined;
    const [taken] = match;
    position += taken.length;
    line += taken.split("\n").length - 1;
    return match;
  }
}

const EXPECTED_VALUE =
  "expected a value that ends with its line, or with a closing quote and nothing but a comment after it";

function withoutComment(value: string | undefined): string | undefined {
  return value?.replace(/\s#[^]*$/, "").trim();
}

/** JSON has the same escapes. */
function unescape(text: string): string {
  return text.replace(/\\[nrt"\\]/g, (escape) => JSON.parse(`"${escape}"`));
}
