import type { Clock } from "../values/clock.ts";
import { type Key, type Store, StoreUnavailableError } from "./store.ts";

/** How often to check that the file is still there while the store is used. */
const LOOK_MS = 1_000;

/**
 * Returns a store whose operations fail once its file has been deleted or replaced. SQLite would continue with the open
 * file as if nothing had happened, and what it writes would be lost when the process ends.
 *
 * @param store The store in the file, which is open.
 */
export async function fileStore(
  path: string,
  store: Store,
  clock: Clock,
): Promise<Store> {
  return new FileStore(path, store, await identify(path), clock);
}

class FileStore implements Store {
  readonly engine: string | undefined;
  readonly maxChecks: number;
  readonly #path: string;
  readonly #store: Store;
  /** Identifies the file that was opened. */
  readonly #identity: string | undefined;
  readonly #clock: Clock;
  #look: Promise<void> = Promise.resolve();
  #lookedAt: number;

  constructor(
    path: string,
    store: Store,
    identity: string | undefined,
    clock: Clock,
  ) {
    this.engine = store.engine;
    this.maxChecks = store.maxChecks;
    this.#path = path;
    this.#store = store;
    this.#identity = identity;
    this.#clock = clock;
    this.#lookedAt = clock.monotonic();
  }

  readonly get: Store["get"] = (key) => this.#run(() => this.#store.get(key));

  readonly getMany: Store["getMany"] = (keys) =>
    this.#run(() => this.#store.getMany(keys));

  readonly list: Store["list"] = (prefix, options) =>
    this.#run(() => this.#store.list(prefix, options));

  readonly commit: Store["commit"] = (checks, writes) =>
    this.#run(() => this.#store.commit(checks, writes));

  watch(key: Key, hint: () => void): () => void {
    return this.#store.watch(key, hint);
  }

  close(): void {
    this.#store.close();
  }

  async #run<T>(operation: () => Promise<T>): Promise<T> {
    const now = this.#clock.monotonic();
    if (now - this.#lookedAt >= LOOK_MS) {
      this.#lookedAt = now;
      this.#look = this.#lookForFile();
    }
    await this.#look;
    return await operation();
  }

  async #lookForFile(): Promise<void> {
    if (await identify(this.#path) === this.#identity) return;
    throw new StoreUnavailableError(
      `Cannot use the store: "${this.#path}" was deleted or replaced while it was open; restore it or a backup, then restart`,
    );
  }
}

/** Returns what distinguishes a file from others at the same path; `undefined` if there is no file. */
async function identify(path: string): Promise<string | undefined> {
  try {
    const { dev, ino } = await Deno.stat(path);
    return `${dev}:${ino}`;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}
