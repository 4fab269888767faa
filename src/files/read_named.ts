import { ConfigurationError } from "../core/config/variables/snapshot.ts";
import { messageOf } from "../core/observe/log.ts";
import { type Clock, systemClock, withDeadline } from "../core/values/clock.ts";
import { readBoundedFile } from "./local_files.ts";

/** A network file system may never answer. */
const READ_TIMEOUT_MS = 15_000;

/** Paths, and the flag or option that names them. */
export interface FlagPaths {
  readonly flag: string;
  readonly paths: readonly string[];
}

/**
 * Reads a file that an option names.
 *
 * @throws {ConfigurationError} If it cannot be read.
 */
export function readTextFile(
  path: string,
  flag: string,
  clock: Clock = systemClock,
): Promise<string> {
  const read = async () =>
    new TextDecoder().decode(await readBoundedFile(path));
  return readPaths({ flag, paths: [path] }, read, clock);
}

/**
 * Reads files that an option names.
 *
 * @throws {ConfigurationError} If they cannot be read in time.
 */
export async function readPaths<T>(
  { flag, paths }: FlagPaths,
  read: () => Promise<T>,
  clock: Clock,
): Promise<T> {
  const seconds = READ_TIMEOUT_MS / 1_000;
  const createError = () =>
    new Error(`expected to be read within ${seconds} s`);
  try {
    return await withDeadline(read(), READ_TIMEOUT_MS, clock, createError);
  } catch (cause) {
    const isComplete = cause instanceof ConfigurationError; // its issues contain the paths
    const issues = isComplete
      ? cause.issues
      : paths.map((path) => `"${path}": ${messageOf(cause)}`);
    throw new ConfigurationError(
      issues.map((issue) => `Cannot read ${flag} ${issue}`),
      { cause },
    );
  }
}
