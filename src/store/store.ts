/** A place in the store: parts that sort one after the other, numbers by value. */
export type Key = readonly (string | number)[];

/** What stands at a key. Values are never changed once they are stored. */
export interface Entry<T = unknown> {
  /** Where it stands. */
  readonly key: Key;
  /** What was stored. */
  readonly value: T;
  /** Changes with every write; for {@linkcode Check}. */
  readonly version: string;
}

/** A commit's condition: the key still has the version that was read; `null` says that there is nothing at it. */
export interface Check {
  /** Where to look. */
  readonly key: Key;
  /** What must be there. */
  readonly version: string | null;
}

/** A commit's deed: stores a value, or deletes what is there if there is none. */
export interface Write {
  /** Where to write. */
  readonly key: Key;
  /** What to store. */
  readonly value?: unknown;
}

/** Which entries to list: those directly under a prefix. */
export interface ListOptions {
  /** The smallest last part, itself included. */
  from?: number | string;
  /** How many entries at the most. @default {Infinity} */
  limit?: number;
  /** Whether the largest comes first. @default {false} */
  reverse?: boolean;
}

/**
 * What the gateway asks of its memory: an ordered map with commits that are whole or not at all.
 *
 * These are fewer and plainer words than the domain's: so each rule (ids, compaction, windows) is written once, over any
 * store, and not once a store.
 */
export interface Store {
  /** What stands at a key; nothing if there is nothing. */
  get<T>(key: Key): Promise<Entry<T> | undefined>;
  /** The entries under a prefix, in order. */
  list<T>(prefix: Key, options?: ListOptions): Promise<Entry<T>[]>;
  /**
   * Does all writes if all checks hold, else none.
   *
   * @returns The version of what was written; nothing if a check failed and it has to be tried again.
   */
  commit(checks: readonly Check[], writes: readonly Write[]): Promise<string | undefined>;
  /**
   * Calls back when somebody may have written to the key. It is a hint to look: it may come late, twice or, from another
   * process, never.
   *
   * @returns A function that ends it.
   */
  watch(key: Key, hint: () => void): () => void;
  /** Frees what the store holds. */
  close(): void;
}

/** The store did not do what it was asked, in time or at all. */
export class StoreUnavailableError extends Error {
  /** What an error of this kind is called. */
  override name = "StoreUnavailableError";
}
