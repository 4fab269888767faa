import { type Clock, sleep } from "../clock.ts";
import type { Environment } from "../variables/classify.ts";
import { type EnvFile, EnvFileError, readEnvFile } from "./env_file.ts";

/** How long a file has to stay the same before what is missing in it counts as removed. */
const CONFIRM_MS = 500;
/** How often a file is read that changes all the time. */
const MAX_READS = 10;

const BECAME_EMPTY: Readonly<Record<EnvFile["kind"], string>> = {
  file: "expected text, got an empty file that was not empty before; to remove all variables, leave a comment in it",
  directory: "expected files, got an empty directory that was not empty before",
};

/**
 * An env file or directory that is read again and again, possibly while somebody writes it. A variable that disappears
 * or becomes empty does so on all open pages, so it is not believed at first sight: the file is read again after a
 * pause.
 */
export class EnvSource {
  readonly #path: string;
  readonly #clock: Clock;
  #last: EnvFile | undefined;

  constructor(path: string, clock: Clock) {
    this.#path = path;
    this.#clock = clock;
  }

  /**
   * Reads the variables.
   *
   * @throws {Deno.errors.NotFound} Or another of `Deno.errors`, if the path cannot be read.
   * @throws {EnvFileError} If it is invalid, has become empty, or does not stay the same for half a second.
   */
  async read(): Promise<Environment> {
    const current = await this.#readStable();
    if (current.isEmpty && this.#last?.isEmpty === false) {
      throw this.#error(BECAME_EMPTY[current.kind]);
    }
    this.#last = current;
    return current.variables;
  }

  /** Reads the file until it has lost nothing, or is the same in two reads. */
  async #readStable(): Promise<EnvFile> {
    const last = this.#last;
    let current = await readEnvFile(this.#path);
    for (let reads = 1; last !== undefined && hasLost(last, current); reads++) {
      if (reads === MAX_READS) {
        throw this.#error(`expected a file that stays the same, but it changed in ${reads} reads`);
      }
      await sleep(CONFIRM_MS, this.#clock);
      const next = await readEnvFile(this.#path);
      if (isSame(current, next)) return next;
      current = next;
    }
    return current;
  }

  #error(detail: string): EnvFileError {
    return new EnvFileError(this.#path, [{ detail }]);
  }
}

/**
 * Returns whether a variable is missing, or empty, that was not before, or the last line is not terminated, although it was
 * before: then its value may be cut off.
 */
function hasLost(before: EnvFile, after: EnvFile): boolean {
  if (before.isTerminated && !after.isTerminated) return true;
  return Object.entries(before.variables).some(([name, value]) => {
    const now = after.variables[name];
    return now === undefined || (now === "" && value !== "");
  });
}

function isSame(a: EnvFile, b: EnvFile): boolean {
  const names = Object.keys(a.variables);
  return a.isEmpty === b.isEmpty && names.length === Object.keys(b.variables).length &&
    names.every((name) => a.variables[name] === b.variables[name]);
}
