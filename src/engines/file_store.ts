import type { Clock } from "../core/values/clock.ts";
import { type Store, StoreUnavailableError } from "../core/store/store.ts";

/** How often to check that the file is still there while the store is used. */
const LOOK_MS = 1_000;

/** Returns what distinguishes a file from others at the same path; `undefined` if there is no file. */
export async function identify(path: string): Promise<string | undefined> {
  try {
    const { dev, ino } = await Deno.stat(path);
    return `${dev}:${ino}`;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}

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
  const opened = await identify(path);
  let lookedAt = clock.monotonic();
  let look = Promise.resolve();

  async function lookForFile(): Promise<void> {
    if (await identify(path) === opened) return;
    throw new StoreUnavailableError(
      `Cannot use the store: "${path}" was deleted or replaced while it was open; restore it or a backup, then restart`,
    );
  }

  async function run<T>(operation: () => Promise<T>): Promise<T> {
    const now = clock.monotonic();
    if (now - lookedAt >= LOOK_MS) {
      lookedAt = now;
      look = lookForFile();
    }
    await look;
    return await operation();
  }

  return {
    engine: store.engine,
    maxChecks: store.maxChecks,
    get: (key) => run(() => store.get(key)),
    getMany: (keys) => run(() => store.getMany(keys)),
    list: (prefix, options) => run(() => store.list(prefix, options)),
    commit: (checks, writes) => run(() => store.commit(checks, writes)),
    watch: (key, hint) => store.watch(key, hint),
    close: () => store.close(),
  };
}
