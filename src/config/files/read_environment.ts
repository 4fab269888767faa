import { messageOf } from "../../observe/log.ts";
import {
  type FileSystem,
  localFiles,
  readBoundedFile,
} from "../../values/local_files.ts";
import { isGranted } from "../../values/runtime.ts";
import { ConfigurationError } from "../variables/snapshot.ts";
import { type Environment, isRepName } from "../variables/tiers.ts";

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

/** The path of an env file or directory. */
export interface EnvPath {
  readonly path: string;
  /** Whether it has to exist. */
  readonly required: boolean;
}

/** Returns a path that has to exist. */
export function requiredPath(path: string): EnvPath {
  return { path, required: true };
}

const NO_FILE: EnvFile = {
  variables: {},
  lines: new Map(),
  isTerminated: true,
};

/**
 * Reads several env files or directories, in order.
 *
 * @throws {ConfigurationError} If any of them cannot be read or is invalid. Each issue of all of them begins with the
 * place; the caller knows which option names it.
 */
export async function readEnvFiles(
  paths: readonly EnvPath[],
): Promise<readonly EnvFile[]> {
  const files: EnvFile[] = [];
  const issues: string[] = [];
  for (const { path, required } of paths) {
    try {
      files.push(await loadEnvFile(path));
    } catch (error) {
      if (!required && isMissing(error)) files.push(NO_FILE);
      else if (error instanceof ConfigurationError) {
        issues.push(...error.issues);
      } else issues.push(`"${path}": ${messageOf(error)}`);
    }
  }
  if (issues.length > 0) throw new ConfigurationError(issues);
  return files;
}

/** Returns whether an error of Deno or of Node.js says that there is no such file. */
export function isMissing(error: unknown): boolean {
  const { name, code } = error as { name?: string; code?: string };
  return name === "NotFound" || code === "ENOENT";
}

/**
 * Reads variables from a file of `NAME=value` lines, or from a directory with one file per variable, as Kubernetes
 * mounts a ConfigMap or a Secret.
 *
 * @param files The file system. That of the runtime by default.
 * @throws {Error} Of the runtime, if the path cannot be read.
 * @throws {ConfigurationError} If it is not UTF-8, or not an env file.
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
    variables: pickRepVariables(Object.fromEntries(variables)),
    lines,
    isTerminated: text.endsWith("\n"),
  };
}

/** How often a directory is read that is replaced again and again. */
const MAX_READS = 10;

/**
 * Reads a directory. Kubernetes replaces all its files at once, by another target for the link `..data` that leads to
 * them: if that happens meanwhile, some values are of the previous version, or their files are gone already.
 */
async function readMount(path: string, files: FileSystem): Promise<EnvFile> {
  const directory = path.replace(/\/+$/, "");
  const data = `${directory}/..data`;
  for (let reads = 0; reads < MAX_READS; reads++) {
    const before = await targetOf(data, files);
    const reading = readDirectory(directory, files);
    await reading.catch(() => {}); // rejects below, unless it is read again
    const after = await targetOf(data, files);
    if (before === after) return await reading;
  }
  throw new Error(
    `expected a directory that stays the same, but ..data changed in ${MAX_READS} reads`,
  );
}

/** Returns what a link leads to; `undefined` if there is none, as in a directory that nobody mounts. */
async function targetOf(
  link: string,
  files: FileSystem,
): Promise<string | undefined> {
  try {
    return await files.realPath(link);
  } catch {
    return undefined; // whoever reads the directory reports what is wrong with it
  }
}

async function readDirectory(
  directory: string,
  files: FileSystem,
): Promise<EnvFile> {
  const names = (await files.names(directory)).filter(isRepName);
  const values = await Promise.all(
    names.map((name) => readValue(`${directory}/${name}`, files)),
  );
  const variables = names.map((name, index) => [name, values[index]]);
  return {
    variables: Object.fromEntries(variables),
    lines: new Map(),
    isTerminated: true,
  };
}

/** The text of the file is the value, except for a newline at its end. */
async function readValue(path: string, files: FileSystem): Promise<string> {
  const text = await readText(path, files);
  return text.replace(/\r?\n$/, "");
}

/** Reads UTF-8 without its byte order mark. `Deno.readTextFile` would replace what is invalid. */
async function readText(path: string, files: FileSystem): Promise<string> {
  const bytes = await readBoundedFile(path, files);
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

/** What is wrong with an env file, and where. It never contains a value, since that may be a secret. */
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
  /** The issues in the order of the file: the first 20. */
  readonly issues: readonly EnvFileIssue[];
}

/**
 * Parses lines of `NAME=value`. Everything that is not clearly an assignment, a comment or a blank line is an issue: a
 * file that is damaged or read while it is being written must not look like one from which variables were removed.
 *
 * - A value in single, double or back quotes may span lines. In double quotes, `\n`, `\r`, `\t`, `\"` and `\\` are
 *   escapes; every other backslash stands for itself.
 * - An unquoted value ends with its line, or before a `#` that follows whitespace, as in Docker Compose and
 *   python-dotenv.
 * - `export` may precede the name, and spaces may surround the `=`. Variables are not expanded. Lines end with LF or CRLF.
 */
export function parseEnvFile(text: string): ParsedEnvFile {
  return new EnvFileParser(text).parse();
}

function countLineFeeds(text: string): number {
  return text.split("\n").length - 1;
}

/** A file that is not an env file at all would have an issue in every line. */
const MAX_ISSUES = 20;

// Each pattern is matched at the current position only, and none backtracks over more than one line.
const NOTHING = /[^\S\r\n]*(?:#[^\r\n]*)?(?:\r?\n|\r?$)/y; // up to and including the end of the line
const AFTER_QUOTE = /(?:[^\S\r\n]+#[^\r\n]*|[^\S\r\n]*)(?:\r?\n|\r?$)/y;
const NAME = /[^\S\r\n]*(?:export[^\S\r\n]+)?([A-Za-z_][\w.-]*)[^\S\r\n]*=/y;
const OPENING_QUOTE = /[^\S\r\n]*(["'`])/y;
const UNQUOTED = /([^\r\n]*)(?:\r?\n|\r?$)/y;
const LINE = /[^\n]*\n?/y;

const ESCAPES: Readonly<Record<string, string>> = {
  "\\n": "\n",
  "\\r": "\r",
  "\\t": "\t",
  '\\"': '"',
  "\\\\": "\\",
};

function unescape(text: string): string {
  return text.replace(/\\[nrt"\\]/g, (escape) => ESCAPES[escape] ?? escape);
}

class EnvFileParser {
  readonly #text: string;
  readonly #variables = new Map<string, string>();
  /** The line in which each name was assigned. */
  readonly #lines = new Map<string, number>();
  readonly #issues: EnvFileIssue[] = [];
  #position = 0;
  #line = 1;

  constructor(text: string) {
    this.#text = text;
  }

  parse(): ParsedEnvFile {
    while (
      this.#position < this.#text.length && this.#issues.length < MAX_ISSUES
    ) {
      if (this.#take(NOTHING) === undefined) this.#parseAssignment();
    }
    return {
      variables: this.#variables,
      lines: this.#lines,
      issues: this.#issues,
    };
  }

  #parseAssignment(): void {
    const line = this.#line;
    const name = this.#take(NAME)?.[1];
    if (name === undefined) {
      return this.#skipLine("expected NAME=value, a comment or a blank line");
    }
    const quote = this.#take(OPENING_QUOTE)?.[1];
    const value = quote === undefined
      ? this.#parseUnquoted()
      : this.#parseQuoted(quote, line);
    if (value !== undefined) this.#assign(name, value, line);
  }

  #parseUnquoted(): string | undefined {
    const text = this.#take(UNQUOTED)?.[1];
    if (text === undefined) {
      return void this.#skipLine(
        "expected LF or CRLF at the end of the line, got CR",
      );
    }
    const comment = text.search(/\s#/);
    return (comment < 0 ? text : text.slice(0, comment)).trim();
  }

  #parseQuoted(quote: string, line: number): string | undefined {
    const end = this.#findClosing(quote);
    if (end === undefined) {
      this.#report(
        line,
        `expected a closing ${quote} for the value that begins here`,
      );
      this.#position = this.#text.length; // nobody can tell which of the following lines belong to the value
      return undefined;
    }
    const text = this.#text.slice(this.#position, end).replaceAll("\r\n", "\n");
    this.#advance(end + 1);
    if (this.#take(AFTER_QUOTE) === undefined) {
      return void this.#skipLine(
        `expected nothing but a comment after the value that begins in line ${line}`,
      );
    }
    return quote === '"' ? unescape(text) : text;
  }

  /** Returns the position of the quote that closes the value at the current position. */
  #findClosing(quote: string): number | undefined {
    for (let at = this.#position; at < this.#text.length; at++) {
      const char = this.#text[at];
      if (char === quote) return at;
      if (char === "\\" && quote === '"') at++; // what follows is escaped
    }
    return undefined;
  }

  #assign(name: string, value: string, line: number): void {
    const first = this.#lines.get(name);
    if (first !== undefined) {
      // A line of a secret may look like an assignment, so only names that are certainly names are shown.
      const shown = name.startsWith("REP_") ? name : "the name";
      return this.#report(
        line,
        `expected each name once, but ${shown} is already in line ${first}`,
      );
    }
    this.#lines.set(name, line);
    this.#variables.set(name, value);
  }

  #skipLine(detail: string): void {
    this.#report(this.#line, detail);
    this.#take(LINE);
  }

  #report(line: number, detail: string): void {
    this.#issues.push({ line, detail });
  }

  /** Matches a pattern at the current position and moves behind it. */
  #take(pattern: RegExp): RegExpExecArray | undefined {
    pattern.lastIndex = this.#position;
    const match = pattern.exec(this.#text);
    if (match === null) return undefined;
    this.#advance(this.#position + match[0].length);
    return match;
  }

  #advance(position: number): void {
    const passed = this.#text.slice(this.#position, position);
    this.#line += countLineFeeds(passed);
    this.#position = position;
  }
}
