import { retryConflicts, type RetryOptions } from "./retry.ts";
import type { Entry, Key, Store } from "./store.ts";

/** An entry to be updated. */
export interface EntryUpdate<T> {
  readonly key: Key;
  /**
   * Returns the new value for the stored one; `undefined` leaves the entry as it is. Called again if another writer has
   * written meanwhile.
   */
  readonly update: (stored: T | undefined) => T | undefined;
}

/** Options of {@linkcode updateEntries}. */
interface UpdateOptions extends RetryOptions {
  /**
   * Whether probably none of the entries exists: then they are committed without being read first, and read only if one
   * does.
   */
  areNew: boolean;
}

/**
 * Reads entries, and commits their new values together, each with a check that nobody else has written it meanwhile.
 *
 * After a conflict, the entries that another writer has changed are left out, and the others are committed together
 * again. If none has changed, the database was locked.
 *
 * @param updates At most {@linkcode Store.maxChecks}, each with a key of its own.
 * @returns The updates that were left out, of which nothing is stored; the caller repeats them one by one. A single one
 * never is.
 * @throws {StoreUnavailableError} If the store is unavailable, or too many attempts in a row conflict. Nothing is
 * stored then.
 */
export async function updateEntries<T, U extends EntryUpdate<T>>(
  store: Store,
  updates: readonly U[],
  { areNew, ...options }: UpdateOptions,
): Promise<readonly U[]> {
  if (areNew && await areCommittedAsNew(store, updates, options)) return [];
  const contended: U[] = [];
  let rest = updates.map((update): Read<U> => ({ update, version: undefined }));
  await retryConflicts(async () => {
    const entries = await store.getMany<T>(
      rest.map(({ update }) => update.key),
    );
    const reads = rest.map(({ update, version: before }, index) =>
      toRead(update, before, entries[index])
    );
    if (updates.length > 1) {
      contended.push(...reads.filter(isChanged).map(({ update }) => update));
    }
    rest = updates.length > 1
      ? reads.filter((read) => !isChanged(read))
      : reads;
    return await commit(store, rest) || undefined;
  }, options);
  return contended;
}

/**
 * After an error within this time, the entries are read all the same: on a full disk, only commits fail. It is not a
 * timeout.
 */
const MAX_FAILURE_MS = 1_000;

async function areCommittedAsNew<T>(
  store: Store,
  updates: readonly EntryUpdate<T>[],
  { clock }: RetryOptions,
): Promise<boolean> {
  const startedAt = clock.monotonic();
  try {
    return await commit(
      store,
      updates.map((update) => ({ update, version: null })),
    );
  } catch (error) {
    if (clock.monotonic() - startedAt < MAX_FAILURE_MS) return false;
    throw error;
  }
}

interface Read<U> {
  readonly update: U;
  /** The version that the entry has; `undefined` if it has not been read yet. */
  readonly version: string | null | undefined;
  /** The version at the previous attempt. */
  readonly before?: string | null | undefined;
  readonly value?: unknown;
}

function toRead<U>(
  update: U,
  before: Read<U>["before"],
  entry: Entry | undefined,
): Read<U> {
  return {
    update,
    before,
    version: entry?.version ?? null,
    value: entry?.value,
  };
}

function isChanged({ version, before }: Read<unknown>): boolean {
  return before !== undefined && before !== version;
}

async function commit<T>(
  store: Store,
  reads: readonly Read<EntryUpdate<T>>[],
): Promise<boolean> {
  const changes = reads
    .map(({ update: { key, update }, version = null, value }) => ({
      key,
      version,
      value: update(value as T | undefined),
    }))
    .filter(({ value }) => value !== undefined);
  if (changes.length === 0) return true;
  const version = await store.commit(
    changes.map(({ key, version }) => ({ key, version })),
    changes.map(({ key, value }) => ({ key, value })),
  );
  return version !== undefined;
}
