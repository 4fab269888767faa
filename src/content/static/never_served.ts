import type { Clock } from "../../values/clock.ts";
import { isGranted } from "../../values/permissions.ts";
import { SharedCalls } from "../../values/shared_calls.ts";
import { isInside, isSameFile, type Look, lookAt } from "./look.ts";

/** Options of {@linkcode NeverServed}. */
interface NeverServedOptions {
  /** Returns the paths of files and directories. */
  readonly neverServed: () => Promise<readonly string[]>;
  readonly clock: Pick<Clock, "monotonic">;
}

/** A file or a directory; without what was seen at the path, if there is nothing. */
type Excluded = Pick<Look, "path"> & Partial<Look>;

/** How long what was seen is used without looking again. */
const MAX_AGE_MS = 1_000;

/** The files and directories that are never served, by whatever name or link: what the gateway itself reads. */
export class NeverServed {
  readonly #options: NeverServedOptions;
  readonly #looks = new SharedCalls<readonly Excluded[]>();
  #excluded: readonly Excluded[] = [];
  #checkedAt = -Infinity;

  constructor(options: NeverServedOptions) {
    this.#options = options;
  }

  /**
   * Returns whether a file is one of them, or in one of the directories.
   *
   * @param isKnown Whether the file was served before, as it is. Otherwise it may just have taken the place of one of
   * them, so that all of them are looked at again.
   */
  async includes(file: Look, isKnown: boolean): Promise<boolean> {
    const excluded = isKnown ? await this.#recent() : await this.#look();
    return excluded.some((excluded) => excludes(excluded, file));
  }

  /** Returns the real paths of those that are in a directory. */
  async findIn({ path: root }: Look): Promise<string[]> {
    const excluded = await this.#look();
    return excluded.filter(({ path, stats }) =>
      stats !== undefined && isInside(path, root)
    ).map(({ path }) => path);
  }

  async #recent(): Promise<readonly Excluded[]> {
    if (this.#options.clock.monotonic() - this.#checkedAt < MAX_AGE_MS) {
      return this.#excluded;
    }
    return await this.#looks.run("", () => this.#look());
  }

  async #look(): Promise<readonly Excluded[]> {
    const checkedAt = this.#options.clock.monotonic();
    this.#excluded = await Promise.all(
      (await this.#options.neverServed()).map(exclude),
    );
    this.#checkedAt = checkedAt;
    return this.#excluded;
  }
}

/** Without the permission, looking would prompt. What is in the served directory may be read. */
async function exclude(path: string): Promise<Excluded> {
  const look = isGranted({ name: "read", path })
    ? await lookAt(path).catch(() => undefined)
    : undefined;
  return look ?? { path };
}

/** A link or a hard link to a file has the same device and inode. Windows has no inodes. */
function excludes({ path, stats }: Excluded, file: Look): boolean {
  if (stats === undefined) return path === file.path;
  return isInside(file.path, path) ||
    (stats.ino !== null && isSameFile(stats, file.stats));
}
