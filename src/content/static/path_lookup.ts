import type { Clock } from "../../values/clock.ts";
import { SharedCalls } from "../../values/shared_calls.ts";
import { SizeBoundedCache } from "../../values/size_bounded_cache.ts";
import { isFresh } from "./file_cache.ts";
import { type FilePath, isPagePath, parseFilePath } from "./file_path.ts";
import { resolvePath } from "./resolve_path.ts";

/** What the path of a URL leads to. */
export type Target =
  /** The names of a file's path: either it existed, or it is the root's index. */
  | { readonly kind: "file"; readonly names: readonly string[]; readonly key: string }
  | { readonly kind: "redirect"; readonly location: string }
  | { readonly kind: "absent" };

/** A target, as it was found at a moment. */
interface Lookup {
  readonly target: Target;
  readonly checkedAt: number;
}

/** Options of {@linkcode PathLookup}. */
interface PathLookupOptions {
  readonly directory: string;
  readonly basePath: string;
  /** How many bytes are kept in memory, roughly. */
  readonly maxBytes: number;
  readonly clock: Pick<Clock, "now">;
}

const INDEX = "index.html";

/** What an entry takes in memory besides its key, roughly. */
const ENTRY_BYTES = 256;

const ABSENT: Target = { kind: "absent" };

/** Finds out which file the path of a URL leads to, and remembers it for a second. */
export class PathLookup {
  readonly #options: PathLookupOptions;
  readonly #lookups: SizeBoundedCache<Lookup>;
  readonly #running = new SharedCalls<Target>();
  /** First names without a file or directory. The routes of a single-page app are often below one. */
  readonly #absentNames: SizeBoundedCache<Pick<Lookup, "checkedAt">>;

  constructor(options: PathLookupOptions) {
    this.#options = options;
    this.#lookups = new SizeBoundedCache(options.maxBytes / 2);
    this.#absentNames = new SizeBoundedCache(options.maxBytes / 2);
  }

  /** Returns what a path led to within the last second. */
  getFresh(pathname: string, now: number): Target | undefined {
    const lookup = this.#lookups.get(pathname);
    return lookup !== undefined && isFresh(lookup, now) ? lookup.target : undefined;
  }

  /**
   * Returns what a path leads to.
   *
   * @param pathname The path as `URL` normalizes it.
   * @throws {Problem} 400 if the path cannot be decoded.
   */
  find(pathname: string): Promise<Target> {
    return this.#running.run(pathname, () => this.#find(pathname));
  }

  /** Looks a path up once more: a mount may have been swapped during the last lookup. */
  findAgain(pathname: string): Promise<Target> {
    this.#lookups.delete(pathname);
    return this.find(pathname);
  }

  /** Remembers that there is nothing at a path, although it led to a file. */
  setAbsent(pathname: string): void {
    this.#set(pathname, { target: ABSENT, checkedAt: this.#options.clock.now() });
  }

  async #find(pathname: string): Promise<Target> {
    const now = this.#options.clock.now();
    const fresh = this.getFresh(pathname, now);
    if (fresh !== undefined) return fresh;
    const path = parseFilePath(pathname.slice(this.#options.basePath.length));
    const lookup = path === undefined ? { target: ABSENT, checkedAt: now } : await this.#lookUp(path, now);
    this.#set(pathname, lookup);
    return lookup.target;
  }

  #set(pathname: string, lookup: Lookup): void {
    this.#lookups.set(pathname, lookup, ENTRY_BYTES + 2 * pathname.length);
  }

  async #lookUp(path: FilePath, now: number): Promise<Lookup> {
    const [first = "", ...rest] = path.names;
    const absentName = rest.length > 0 ? this.#absentNames.get(first) : undefined;
    if (absentName !== undefined && isFresh(absentName, now)) {
      return { target: fallback(path), checkedAt: absentName.checkedAt };
    }
    const target = await this.#resolve(path);
    if (rest.length > 0 && target === undefined) await this.#rememberIfAbsent(first, now);
    return { target: target ?? fallback(path), checkedAt: now };
  }

  /** Returns `undefined` if there is nothing at the path itself. */
  async #resolve({ names, isDirectory }: FilePath): Promise<Target | undefined> {
    const { directory } = this.#options;
    const resolved = await resolvePath(directory, names);
    if (resolved.kind === "rejected") return ABSENT;
    if (resolved.kind === "file" && !isDirectory) return fileTarget(names);
    if (resolved.kind !== "directory") return undefined;
    const index = [...names, INDEX];
    if ((await resolvePath(directory, index)).kind !== "file") return undefined;
    return isDirectory ? fileTarget(index) : { kind: "redirect", location: withSlash(names) };
  }

  async #rememberIfAbsent(name: string, checkedAt: number): Promise<void> {
    const { kind } = await resolvePath(this.#options.directory, [name]);
    if (kind === "absent") this.#absentNames.set(name, { checkedAt }, ENTRY_BYTES + 2 * name.length);
  }
}

/** The target of a path at which there is nothing. */
function fallback(path: FilePath): Target {
  return isPagePath(path) ? fileTarget([INDEX]) : ABSENT;
}

function fileTarget(names: readonly string[]): Target {
  return { kind: "file", names, key: names.join("/") };
}

/** Returns a relative location: it cannot lead to another host, and works behind a proxy that strips a prefix. */
function withSlash(names: readonly string[]): string {
  return `./${encodeURIComponent(names.at(-1) ?? "")}/`;
}
