import { type Clock, sleep } from "../../values/clock.ts";
import { ConfigurationError } from "../variables/snapshot.ts";
import {
  type Environment,
  HOW_TO_EMPTY,
  isEmptied,
} from "../variables/tiers.ts";
import {
  type EnvFile,
  type EnvPath,
  readEnvFiles,
} from "./read_environment.ts";

/** How long a file has to stay the same before what is missing in it counts as removed. */
const CONFIRM_MS = 500;
/** How often a file is read that changes all the time. */
const MAX_READS = 10;

/** Where a variable is set. */
export interface VariablePlace {
  readonly path: string;
  /** The line of the file, counted from 1; a directory has none. */
  readonly line: number | undefined;
}

/**
 * Env files and directories that are read again and again, possibly while somebody writes them. A variable that
 * disappears or becomes empty does so on all open pages, so it is not believed at first sight, and neither is a mistake:
 * all files are read again after a pause, since it may be moving from one to another.
 */
export class EnvSource {
  readonly #paths: readonly EnvPath[];
  readonly #clock: Clock;
  #last: readonly EnvFile[] | undefined;

  constructor(paths: readonly EnvPath[], clock: Clock) {
    this.#paths = paths;
    this.#clock = clock;
  }

  /**
   * Reads the variables. Each file overrides the ones before it.
   *
   * @throws {ConfigurationError} If a file cannot be read, is invalid, has lost all its variables, or does not stay the
   * same for half a second. Each issue begins with the place.
   */
  async read(): Promise<Environment> {
    const current = await this.#readStable();
    const issues = this.#paths.flatMap(({ path, required }, index) =>
      required ? emptinessIssues(path, this.#last?.[index], current[index]) : []
    );
    if (issues.length > 0) throw new ConfigurationError(issues);
    this.#last = current;
    return Object.assign({}, ...current.map(({ variables }) => variables));
  }

  /** The files as last read, in the order of the paths. */
  get files(): readonly EnvFile[] {
    return this.#last ?? [];
  }

  /** Returns where a variable was last read from. */
  placeOf(name: string): VariablePlace | undefined {
    const { files } = this;
    const index = files.findLastIndex(({ variables }) =>
      variables[name] !== undefined
    );
    const path = this.#paths[index]?.path;
    if (path === undefined) return undefined;
    return { path, line: files[index]?.lines.get(name) };
  }

  /** Reads the files until none has lost anything, or all are the same in two reads. */
  async #readStable(): Promise<readonly EnvFile[]> {
    let current = await this.#readValid();
    let changed: readonly string[] = [];
    for (let reads = 1; this.#hasLost(current); reads++) {
      if (reads === MAX_READS) {
        throw new ConfigurationError(changed.map(unstableIssue));
      }
      await sleep(CONFIRM_MS, this.#clock);
      const next = await readEnvFiles(this.#paths);
      changed = this.#changedPaths(current, next);
      if (changed.length === 0) return next;
      current = next;
    }
    return current;
  }

  async #readValid(): Promise<readonly EnvFile[]> {
    const read = () => readEnvFiles(this.#paths);
    const wasValid = this.#last !== undefined;
    return wasValid ? await readTwice(read, this.#clock) : await read();
  }

  #hasLost(current: readonly EnvFile[]): boolean {
    return current.some((file, index) => hasLost(this.#last?.[index], file));
  }

  #changedPaths(
    before: readonly EnvFile[],
    after: readonly EnvFile[],
  ): readonly string[] {
    const paths = this.#paths.map(({ path }) => path);
    return paths.filter((_, index) => !isSame(before[index], after[index]));
  }
}

/**
 * Reads once more, half a second later, if reading fails: an editor may have emptied the file, or written only the
 * beginning of a line. Use it for what was valid before, so that a mistake at the start is reported at once.
 */
export async function readTwice<T>(
  read: () => Promise<T>,
  clock: Clock,
): Promise<T> {
  try {
    return await read();
  } catch {
    await sleep(CONFIRM_MS, clock);
    return await read();
  }
}

function emptinessIssues(
  where: string,
  before: EnvFile | undefined,
  after: EnvFile | undefined,
): string[] {
  const { variables = {} } = before ?? {};
  if (!isEmptied(variables, after?.variables ?? {})) return [];
  return [
    `"${where}": expected variables, as before, got none; ${HOW_TO_EMPTY}`,
  ];
}

function unstableIssue(where: string): string {
  return `"${where}": expected a file that stays the same, but it changed in ${MAX_READS} reads`;
}

/**
 * Returns whether a variable is missing, or empty, that was not before, or the last line is not terminated, although it
 * was before: then its value may be cut off.
 */
function hasLost(before: EnvFile | undefined, after: EnvFile): boolean {
  if (before === undefined) return false;
  if (before.isTerminated && !after.isTerminated) return true;
  return Object.entries(before.variables).some(([name, value]) => {
    const now = after.variables[name];
    return now === undefined || (now === "" && value !== "");
  });
}

function isSame(a: EnvFile | undefined, b: EnvFile | undefined): boolean {
  if (a === undefined || b === undefined) return a === b;
  const names = Object.keys(a.variables);
  return names.length === Object.keys(b.variables).length &&
    names.every((name) => a.variables[name] === b.variables[name]);
}
