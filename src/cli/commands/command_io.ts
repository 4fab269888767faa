import type { Environment } from "../../config/variables/tiers.ts";
import { readEnvironment } from "../../config/files/read_environment.ts";
import { escapeCodeUnit, messageOf, silentLog } from "../../observe/log.ts";
import { openStore } from "../../store/open.ts";
import { FILE_NOT_PRIVATE } from "../../store/open_named.ts";
import type { Store } from "../../store/store.ts";
import { type Clock, systemClock } from "../../values/clock.ts";
import { loadKvToken } from "../sources/secret_files.ts";
import { STOP_SIGNALS } from "../start/signals.ts";
import type { CommandArguments } from "./command_line.ts";
import { dirname } from "@std/path/dirname";
import { ConfigurationError } from "../../config/variables/snapshot.ts";
import { isGranted } from "../../values/runtime.ts";

/** Everything outside the process that a command uses. */
export interface CommandIo {
  /** The `REP_…` variables of the process. */
  environment: Environment;
  /** Opens the store at a path; the command closes it. */
  openStore: (path: string | undefined) => Promise<Store>;
  /** Width of the terminal in columns. */
  columns: number;
  /** Prints one or more lines to standard output. */
  print: (text: string) => void;
  /** Prints a message to standard error. */
  printError: (text: string) => void;
  /** Resolves when the user stops `watch`. */
  stopped: () => Promise<void>;
  clock: Clock;
  /** Source of numbers in [0, 1), for backoff. */
  random: () => number;
}

/** Runs a command. */
export type Run = (
  line: CommandArguments,
  io: CommandIo,
) => Promise<number | void>;

/** Width of a table that is written to a file or a pipe. */
const FILE_COLUMNS = 200;

/** Returns the implementation for a command that runs as a process. */
export function systemIo(): CommandIo {
  return {
    environment: readEnvironment(),
    openStore: openPersistentStore,
    columns: terminalColumns(),
    print,
    printError,
    stopped,
    clock: systemClock,
    random: Math.random,
  };
}

/**
 * Opens the store that `--kv` names, like the gateway does, but only if it outlives the command.
 *
 * @throws {TypeError} If it does not, or cannot be opened.
 */
export async function openPersistentStore(
  path: string | undefined,
): Promise<Store> {
  const warnings = path === ":memory:"
    ? [
      "it is deleted when this command ends; expected --kv with a file or a URL",
    ]
    : [];
  await loadKvToken();
  const store = await openStore(path, {
    ...silentLog,
    warn: (event, fields) =>
      event !== FILE_NOT_PRIVATE && warnings.push(String(fields?.detail)),
  });
  if (warnings.length === 0) return store;
  store.close();
  throw new TypeError(
    `Cannot keep variables in memory, where no gateway would see them: ${
      warnings.join("; ")
    }`,
  );
}

function terminalColumns(): number {
  const columns = Deno.stdout.isTerminal() ? Deno.consoleSize().columns : 0;
  return columns > 0 ? columns : FILE_COLUMNS; // some terminals report 0
}

/** Writes without `console.log`, which ignores a broken pipe, so that `watch` would never end. */
function print(text: string): void {
  let rest = encoder.encode(`${text}\n`);
  while (rest.length > 0) rest = rest.subarray(Deno.stdout.writeSync(rest));
}

function printError(text: string): void {
  // deno-lint-ignore no-console -- messages go to standard error
  console.error(text);
}

/** Resolves at the first signal. The listeners are then removed, so that the next signal ends the process. */
function stopped(): Promise<void> {
  return new Promise((resolve) => {
    function stop() {
      for (const signal of STOP_SIGNALS) {
        Deno.removeSignalListener(signal, stop);
      }
      resolve();
    }
    for (const signal of STOP_SIGNALS) Deno.addSignalListener(signal, stop);
  });
}

const GAP = "  ";
/** Minimum width of the truncated column. */
const MIN_WIDTH = 10;

/**
 * Prints rows as a table with one line per row. The first row is the heading.
 *
 * @param flexible Index of the column that is truncated if a line is too wide for the terminal.
 */
export function printTable(
  rows: readonly (readonly string[])[],
  flexible: number,
  { columns, print }: Pick<CommandIo, "columns" | "print">,
): void {
  const cells = rows.map((row) => row.map(escapeInvisible));
  const widths = (rows[0] ?? []).map((_, index) =>
    Math.max(...cells.map((row) => widthOf(row[index] ?? "")))
  );
  const others = widths.reduce(
    (sum, column, index) =>
      index === flexible ? sum : sum + column + GAP.length,
    0,
  );
  widths[flexible] = Math.min(
    widths[flexible] ?? 0,
    Math.max(MIN_WIDTH, columns - others),
  );
  const fit = (cell: string, index: number) =>
    pad(truncate(cell, widths[index] ?? 0), widths[index] ?? 0);
  print(cells.map((row) => row.map(fit).join(GAP).trimEnd()).join("\n"));
}

/** Control and format characters, surrogates and line separators, which may change what a terminal displays. */
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;
const SHORT: Readonly<Record<string, string>> = {
  "\n": "\\n",
  "\r": "\\r",
  "\t": "\\t",
};

/** Replaces characters that a terminal interprets or does not display by escape sequences. */
export function escapeInvisible(text: string): string {
  return text.replace(
    INVISIBLE,
    (char) => SHORT[char] ?? `\\u{${char.codePointAt(0)?.toString(16)}}`,
  );
}

/** Formats a value as JSON in which such characters are escaped. Parsing it returns the same value. */
export function terminalJson(value: unknown, indent = 0): string {
  const escape = (char: string) =>
    char === "\n" ? char : char.split("").map(escapeCodeUnit).join("");
  return JSON.stringify(value, null, indent).replace(INVISIBLE, escape);
}

/** Truncates a text without invisible characters to a width, with an ellipsis. */
export function truncate(text: string, width: number): string {
  if (widthOf(text) <= width) return text;
  let kept = "";
  let used = 0;
  for (const char of text) {
    used += widthOf(char);
    if (used > width - 1) break;
    kept += char;
  }
  return `${kept}…`;
}

function pad(text: string, width: number): string {
  return text + " ".repeat(Math.max(0, width - widthOf(text)));
}

/** Characters that most terminals display two columns wide. */
const WIDE =
  /[\p{Script=Han}\p{Script=Hangul}\p{Script=Hiragana}\p{Script=Katakana}\p{Emoji_Presentation}\u3000-\u303e\uff01-\uff60]/gu;

/** Returns the width of a text in terminal columns. Combining marks have none. */
function widthOf(text: string): number {
  const withoutMarks = text.replace(/\p{M}/gu, "");
  return [...withoutMarks].length + (withoutMarks.match(WIDE)?.length ?? 0);
}

const encoder = new TextEncoder();

/**
 * Writes a file that an option or argument names, unless it has these bytes already. Devices and pipes are written to
 * as they are.
 *
 * @returns Whether it was written.
 * @throws {ConfigurationError} If it cannot be written.
 */
export async function writeFile(
  flag: string,
  path: string,
  data: string | Uint8Array,
): Promise<boolean> {
  const bytes = typeof data === "string" ? encoder.encode(data) : data;
  const existing = await findRegularFile(path);
  if (existing !== undefined && await hasBytes(existing, bytes)) return false;
  if (!isGranted({ name: "write", path })) {
    throw new ConfigurationError([
      `Cannot write ${flag} "${path}": expected --allow-write=${path}`,
    ]);
  }
  try {
    if (
      existing === undefined ||
      !isGranted({ name: "write", path: dirname(path) })
    ) await Deno.writeFile(path, bytes);
    else await replaceFile(existing, bytes);
    return true;
  } catch (cause) {
    const isMissing = cause instanceof Deno.errors.NotFound;
    const reason = isMissing
      ? `the directory "${dirname(path)}" does not exist`
      : messageOf(cause);
    throw new ConfigurationError(
      [`Cannot write ${flag} "${path}": ${reason}`],
      { cause },
    );
  }
}

/** A regular file that exists. */
interface RegularFile {
  /** Its path without links. */
  readonly path: string;
  readonly info: Deno.FileInfo;
}

/** Returns `undefined` if there is no regular file at a path, or none that may be read. */
export async function findRegularFile(
  path: string,
): Promise<RegularFile | undefined> {
  if (!isGranted({ name: "read", path })) return undefined;
  try {
    const info = await Deno.stat(path);
    return info.isFile ? { path: await Deno.realPath(path), info } : undefined;
  } catch {
    return undefined; // it does not exist, or the write reports why
  }
}

async function hasBytes(
  { path, info }: RegularFile,
  bytes: Uint8Array,
): Promise<boolean> {
  if (info.size !== bytes.length) return false;
  const existing = await Deno.readFile(path);
  return existing.length === bytes.length &&
    existing.every((byte, index) => byte === bytes[index]);
}

/** Writes beside the file and renames, so that a full disk leaves the file as it was. */
async function replaceFile(
  { path, info }: RegularFile,
  bytes: Uint8Array,
): Promise<void> {
  const temporary = await Deno.makeTempFile({
    dir: dirname(path),
    prefix: ".rep-",
  });
  try {
    await Deno.writeFile(temporary, bytes);
    await Deno.chown(temporary, info.uid, info.gid).catch(() => {}); // only root may give a file to another user
    if (info.mode !== null) await Deno.chmod(temporary, info.mode & 0o7777);
    await Deno.rename(temporary, path);
  } catch (error) {
    await Deno.remove(temporary);
    throw error;
  }
}
