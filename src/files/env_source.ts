import { type Clock, sleep } from "../core/values/clock.ts";
import { ConfigurationError } from "../core/config/variables/snapshot.ts";
import { withoutServiceLinks } from "../core/config/variables/service_links.ts";
import {
  EMPTIED,
  type Environment,
  isEmptied,
} from "../core/config/variables/tiers.ts";
import {
  type EnvFile,
  type EnvPath,
  readEnvFiles,
  readEnvironment,
} from "./read_environment.ts";

/** After how long a variable that is still missing counts as removed. */
const CONFIRM_MS = 500;

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
   * @throws {ConfigurationError} If a file cannot be read, is invalid, or lost all its variables. Each issue begins with
   * the path.
   */
  async read(): Promise<Environment> {
    const files = await this.#readComplete();
    const issues: string[] = [];
    for (const [index, { path, required }] of this.#paths.entries()) {
      const after = variablesOf(files[index]);
      if (!required || !isEmptied(variablesOf(this.#files[index]), after)) {
        continue;
      }
      issues.push(`"${path}": expected variables, as before, ${EMPTIED}`);
    }
    if (issues.length > 0) throw new ConfigurationError(issues);
    this.#files = files;
    return Object.assign({}, ...files.map(variablesOf));
  }

  /**
   * Reads the variables, which those of the environment of the process override. Service links lie below them: the gateway
   * warns of these.
   *
   * @throws {ConfigurationError} As {@linkcode read} does.
   */
  async readOverridden(): Promise<Environment> {
    const files = await this.read();
    const environment = readEnvironment();
    return { ...environment, ...files, ...withoutServiceLinks(environment) };
  }

  /** The files as last read, in the order of the paths; none before the first read. */
  get files(): readonly EnvFile[] {
    return this.#files;
  }

  /** Returns where a variable was last read from. The line is counted from 1, and `undefined` for a directory. */
  placeOf(name: string) {
    const file = this.#files.findLast(({ variables }) =>
      variables[name] !== undefined
    );
    return file && { path: file.path, line: file.lines.get(name) };
  }

  /**
   * Reads the files, and once more, half a second later, if that fails or they are incomplete: an editor may have emptied a
   * file, or written only the beginning of a line. A mistake at the start is reported at once.
   */
  async #readComplete(): Promise<readonly EnvFile[]> {
    const read = () => readEnvFiles(this.#paths);
    if (this.#files.length === 0) return await read();
    const files = await read().catch(() => []);
    const isComplete = this.#files.every((before, index) => {
      const after = files[index];
      return after !== undefined && !hasLost(before, after);
    });
    if (isComplete) return files;
    await sleep(CONFIRM_MS, this.#clock);
    return await read();
  }
}

function variablesOf(file: EnvFile | undefined): Environment {
  return file?.variables ?? {};
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
