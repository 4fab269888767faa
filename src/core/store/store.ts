import { messageOf } from "../observe/log.ts";
import { type Clock, withDeadline } from "../values/clock.ts";

/** A key: parts that are compared one by one, numbers by value. No number is negative. */
export type Key = readonly (string | number)[];

/** A key and its value. A stored value is never modified in place. */
export interface Entry<T = unknown> {
  /** The full key. */
  readonly key: Key;
  /** The stored value. */
  readonly value: T;
  /** Changes with every write; see {@linkcode Check}. */
  readonly version: string;
}

/** A precondition of a commit: the key still has this version, or does not exist if it is `null`. */
export interface Check {
  /** The key to check. */
  readonly key: Key;
  /** The expected version. */
  readonly version: string | null;
}

/** A mutation of a commit: stores the value, or deletes the key if there is no value. */
export interface Write {
  /** The key to write. */
  readonly key: Key;
  /** The value to store. */
  readonly value?: unknown;
}

/** Selects entries among those directly under a prefix. */
export interface ListOptions {
  /** The first last key part to include. */
  from?: number | string;
  /** The maximum number of entries. @default {Infinity} */
  limit?: number;
  /** Whether to list in descending order. @default {false} */
  reverse?: boolean;
}

/**
 * The storage interface of the gateway: an ordered key-value store with atomic commits. It is more general than the
 * gateway's domain, so that every rule (ids, compaction, windows) is implemented once for all stores.
 *
 * The gateway relies on the following rules, which `contract_test.ts` checks for each store:
 *
 * - A version is unique to one commit, and is never repeated, not even for a key that was deleted and written again.
 *   All entries that a commit writes have the same version.
 * - The writes of a commit are applied in order, so the last write to a key counts.
 * - A value is what JSON can represent (text with any character, numbers, booleans, `null`, arrays, plain objects) or a
 *   `Uint8Array`, even within an object. A field that is `undefined` may be absent afterwards.
 * - Entries under a prefix are in the order of the last part of their keys: strings by their characters' codes, then
 *   numbers by value. The string `"1"` and the number 1 are different parts.
 *
 * A gateway's store consists of several, from the inside:
 *
 * 1. the database: memory or another of `src/engines/`, which `open.ts` there chooses by `--kv`;
 * 2. there as well, on a server, `remote.ts`, which drops a connection that failed or timed out and connects again; for
 *    a file, `file_store.ts`, which notices that it was deleted;
 * 3. the circuit breaker, `circuit_breaker.ts`, which times out and pauses;
 * 4. the part of an app, `app_store.ts`, by a prefix of the keys: the gateway itself uses this one only. (The part of a port
 *    lies below the circuit breaker.)
 */
export interface Store {
  /** The name of the database, for the status page. */
  readonly engine?: string | undefined;
  /** How many checks a commit may contain. */
  readonly maxChecks: number;
  /** How many bytes each key has in addition, because this is a part of another store. @default {0} */
  readonly prefixBytes?: number;
  /** Returns the entry at a key, or `undefined`. */
  get<T>(key: Key): Promise<Entry<T> | undefined>;
  /**
   * Returns the entries at several keys in the order of the keys, `undefined` where there is none. It takes as few
   * round trips as possible. Entries beyond the first ten may be read a moment later.
   */
  getMany<T>(keys: readonly Key[]): Promise<(Entry<T> | undefined)[]>;
  /** Returns the entries directly under a prefix, in order. */
  list<T>(prefix: Key, options?: ListOptions): Promise<Entry<T>[]>;
  /**
   * Applies all writes if all checks pass, otherwise none. There are at most {@linkcode maxChecks} checks.
   *
   * @returns The version of the written entries, or `undefined` if a check failed and the caller has to retry.
   */
  commit(
    checks: readonly Check[],
    writes: readonly Write[],
  ): Promise<string | undefined>;
  /**
   * Calls `hint` when the key may have been written. The call may come late, twice or, after a write by another
   * process, never; callers poll as well.
   *
   * @returns A function that stops watching.
   */
  watch(key: Key, hint: () => void): () => void;
  /** Releases all resources. */
  close(): void;
}

/** Returns the entries at several keys, each with a value of its own type; see {@linkcode Store.getMany}. */
export async function getTuple<Values extends readonly unknown[]>(
  store: Pick<Store, "getMany">,
  keys: { readonly [I in keyof Values]: Key },
): Promise<{ [I in keyof Values]: Entry<Values[I]> | undefined }> {
  const entries: unknown = await store.getMany([...keys]);
  return entries as { [I in keyof Values]: Entry<Values[I]> | undefined };
}

/** Thrown if a store operation failed or timed out. */
export class StoreUnavailableError extends Error {
  /** The name of the error class. */
  override name = "StoreUnavailableError";
}

/** Thrown if the store can be reached, but lacks room or other resources for an operation, as on a full disk. */
export class StoreFullError extends StoreUnavailableError {
  /** Creates an error with the store's own error as the cause. */
  constructor(cause: unknown) {
    super(`Cannot use the store: ${messageOf(cause)}`, { cause });
  }
}

/** Thrown if the store can be read, but the server is read-only. */
export class StoreReadOnlyError extends StoreUnavailableError {}

/**
 * Thrown if the store can be reached, but is none that this version can use. A start ends with it, since waiting does not
 * help; a gateway that runs treats it as an outage.
 */
export class StoreIncompatibleError extends StoreUnavailableError {
  /** The name of the error class. */
  override name = "StoreIncompatibleError";
}

/** Returns the error itself if it is a {@linkcode StoreUnavailableError}, otherwise a new one with it as the cause. */
export function toUnavailableError(error: unknown): StoreUnavailableError {
  if (error instanceof StoreUnavailableError) return error;
  return new StoreUnavailableError(
    `Cannot use the store: ${messageOf(error)}`,
    { cause: error },
  );
}

/**
 * How long an operation or connecting may take. The circuit breaker applies it to every store, with all waiting for
 * connections and locks in it, so that nobody waits longer. Servers need the same time-out for what the circuit breaker
 * cannot end:
 *
 * - `remote.ts` drops the connection, since an operation on a silent server may never end;
 * - PostgreSQL ends the statement (`statement_timeout`), which would otherwise hold its locks and commit later.
 */
export const OPERATION_TIMEOUT_MS = 5_000;

/**
 * Waits for a store operation, or for a store to open, with a timeout. A result that arrives later is ignored.
 *
 * @throws {StoreUnavailableError} If the operation takes longer than `timeoutMs`.
 */
export function withTimeout<T>(
  promise: Promise<T>,
  timeoutMs: number,
  clock: Clock,
): Promise<T> {
  const message = `Cannot use the store: no answer within ${timeoutMs} ms`;
  return withDeadline(
    promise,
    timeoutMs,
    clock,
    () => new StoreUnavailableError(message),
  );
}
