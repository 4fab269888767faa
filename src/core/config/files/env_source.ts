import { type Clock, sleep } from "../../values/clock.ts";
import { ConfigurationError } from "../variables/snapshot.ts";
import {
  describeEmptied,
  type Environment,
  isEmptied,
} from "../variables/tiers.ts";
import {
  type EnvFile,
  type EnvPath,
  readEnvFiles,
} from "./read_environment.ts";

/** How long the files have to stay the same before a missing variable counts as removed. */
const CONFIRM_MS = 500;
/** How many times files that keep changing are read. */
const MAX_READS = 10;

/** Where a variable is set. */
export interface VariablePlace {
  readonly path: string;
  /** The line of the file, counted from 1; `undefined` for a directory. */
  readonly line: number | undefined;
}

/**
 * Env files and directories that are read again and again, possibly while somebody is writing them. A variable that
 * disappears here disappears from all open pages. So if a variable is missing or empty, or a file is invalid, all files
 * are read again after a pause. (All, since somebody may be moving a variable from one file to another.)
 */
export class EnvSource {
  readonly #paths: readonly EnvPath[];
  readonly #clock: Clock;
  #files: readonly EnvFile[] = [];

  constructor(paths: readonly EnvPath[], clock: Clock) {
    this.#paths = paths;
    this.#clock = clock;
  }

  /**
   * Reads the variables. Each file overrides the ones before it.
   *
   * @throws {ConfigurationError} If a file cannot be read, is invalid, lost all its variables, or does not stay the same
   * for half a second. Each issue begins with the path.
   */
  async read(): Promise<Environment> {
    const files = await this.#readStable();
    const issues: string[] = [];
    for (const [index, { path, required }] of this.#paths.entries()) {
      const after = variablesOf(files[index]);
      if (!required || !isEmptied(variablesOf(this.#files[index]), after)) {
        continue;
      }
      const got = describeEmptied(after);
      issues.push(`"${path}": expected variables, as before, ${got}`);
    }
    if (issues.length > 0) throw new ConfigurationError(issues);
    this.#files = files;
    return Object.assign({}, ...files.map(variablesOf));
  }

  /** The files as last read, in the order of the paths; none before the first read. */
  get files(): readonly EnvFile[] {
    return this.#files;
  }

  /** Returns where a variable was last read from. */
  placeOf(name: string): VariablePlace | undefined {
    const index = this.#files.findLastIndex(({ variables }) =>
      variables[name] !== undefined
    );
    const path = this.#paths[index]?.path;
    if (path === undefined) return undefined;
    return { path, line: this.#files[index]?.lines.get(name) };
  }

  /** Reads the files until nothing is missing, or two reads return the same variables. */
  async #readStable(): Promise<readonly EnvFile[]> {
    let files = await this.#readValid();
    let changed: readonly EnvPath[] = [];
    for (let reads = 1; this.#isIncomplete(files); reads++) {
      if (reads === MAX_READS) {
        throw new ConfigurationError(changed.map(unstableIssue));
      }
      await sleep(CONFIRM_MS, this.#clock);
      const next = await readEnvFiles(this.#paths);
      changed = this.#paths.filter((_, index) =>
        textOf(files[index]) !== textOf(next[index])
      );
      if (changed.length === 0) return next;
      files = next;
    }
    return files;
  }

  async #readValid(): Promise<readonly EnvFile[]> {
    const read = () => readEnvFiles(this.#paths);
    const wasValid = this.#files.length > 0;
    return wasValid ? await readTwice(read, this.#clock) : await read();
  }

  #isIncomplete(files: readonly EnvFile[]): boolean {
    return this.#files.some((before, index) => {
      const after = files[index];
      return after !== undefined && hasLost(before, after);
    });
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

function variablesOf(file: EnvFile | undefined): Environment {
  return file?.variables ?? {};
}

/** Returns a text that differs if the variables do. */
function textOf(file: EnvFile | undefined): string {
  return JSON.stringify(variablesOf(file));
}

function unstableIssue({ path }: EnvPath): string {
  return `"${path}": expected a file that stays the same, but it changed in ${MAX_READS} reads`;
}

/**
 * Returns whether a variable is missing or became empty, or the last line is not terminated although it was before: its
 * value may be incomplete.
 */
function hasLost(before: EnvFile, after: EnvFile): boolean {
  if (before.isTerminated && !after.isTerminated) return true;
  return Object.entries(before.variables).some(([name, value]) => {
    const now = after.variables[name];
    return now === undefined || (now === "" && value !== "");
  });
}
