import { type Log, messageOf } from "../core/observe/log.ts";
import type { RetryOptions } from "../core/store/commits.ts";
import { sleep } from "../core/values/clock.ts";
import {
  type Key,
  OPERATION_TIMEOUT_MS,
  type Store,
  StoreFullError,
  StoreIncompatibleError,
  StoreReadOnlyError,
  StoreUnavailableError,
  toUnavailableError,
  withTimeout,
} from "../core/store/store.ts";

/** A server that {@linkcode openRemoteStore} connects to. */
interface RemoteServer {
  /** Connects to the server; if `needsWrites`, only to one that is not read-only. */
  connect: (needsWrites: boolean) => Promise<Store>;
  /** How many checks a commit on the server may contain. */
  maxChecks: number;
  /** See {@linkcode Store.engine}. */
  engine: string;
}

/** The pause before connecting again, half of it random; each is twice as long as the one before, up to the maximum. */
const FIRST_PAUSE_MS = 250;
const MAX_PAUSE_MS = 2_000;

interface Watch {
  readonly key: Key;
  readonly hint: () => void;
  stop: () => void;
}

/**
 * Whether a server may be reachable later. Deno throws the same class for all failures: only the message distinguishes
 * them.
 */
function isOutage(error: unknown): boolean {
  if (error instanceof StoreIncompatibleError) return false;
  if (error instanceof StoreUnavailableError) return true;
  return /failed to connect to|timed out|responded with status (429|5\d\d)/
    .test(messageOf(error));
}

/**
 * Deno throws a `TypeError` for keys and values that no database accepts. A store that is read-only or without room for a
 * commit can still be read.
 */
function keepsConnection(error: unknown): boolean {
  return error instanceof TypeError || error instanceof StoreFullError ||
    error instanceof StoreReadOnlyError;
}

/**
 * Opens a store on a server that may be unreachable, now or later.
 *
 * An operation of KV Connect on an unreachable server never ends, not even when the database is closed: it is retried
 * three times a second, each time with a line on standard error, for as long as the process lives. An operation that
 * tests whether the server is reachable again would add another. So this store drops a connection that timed out, fails
 * operations immediately while disconnected, and retries only the connection itself, which fails without leaving
 * anything behind.
 */
export async function openRemoteStore(
  { connect, maxChecks, engine }: RemoteServer,
  log: Log,
  { clock, random }: RetryOptions,
): Promise<Store> {
  const closed = new AbortController();
  const watches = new Set<Watch>();
  let connection: Store | undefined;
  /** Why there is no connection. */
  let failure = new StoreUnavailableError(
    "Cannot use the store: it is not connected yet",
  );

  async function connectInTime(needsWrites = false): Promise<Store> {
    const connecting = connect(needsWrites);
    try {
      return await withTimeout(connecting, OPERATION_TIMEOUT_MS, clock);
    } catch (error) {
      connecting.then((late) => late.close(), () => {}); // `error` has been reported; a late connection is not needed
      throw error;
    }
  }

  function use(opened: Store): void {
    if (closed.signal.aborted) return opened.close();
    connection = opened;
    for (const watch of watches) {
      watch.stop = opened.watch(watch.key, watch.hint);
    }
  }

  function disconnect(): void {
    for (const watch of watches) watch.stop();
    connection?.close();
    connection = undefined;
  }

  async function retryConnecting(): Promise<void> {
    const { signal } = closed;
    let pause = FIRST_PAUSE_MS;
    while (!signal.aborted) {
      await sleep(pause * (0.5 + 0.5 * random()), clock, { signal });
      if (signal.aborted) return;
      try {
        return use(await connectInTime());
      } catch (error) {
        failure = toUnavailableError(error);
      }
      pause = Math.min(2 * pause, MAX_PAUSE_MS);
    }
  }

  /** Replaces a connection to a read-only server, which serves reads until then. The next write looks again. */
  async function lookForWritable(used: Store): Promise<void> {
    const opened = await connectInTime(true);
    if (used !== connection) return opened.close();
    disconnect();
    use(opened);
  }

  function reconnect(error: unknown): void {
    disconnect();
    failure = toUnavailableError(error);
    void retryConnecting();
  }

  async function run<T>(
    operation: (connection: Store) => Promise<T>,
  ): Promise<T> {
    const used = connection;
    if (used === undefined) throw failure;
    try {
      return await withTimeout(operation(used), OPERATION_TIMEOUT_MS, clock);
    } catch (error) {
      const isCurrent = used === connection;
      if (isCurrent && !keepsConnection(error)) reconnect(error);
      if (error instanceof StoreReadOnlyError) {
        lookForWritable(used).catch(() => {}); // there is none
      }
      throw error;
    }
  }

  try {
    use(await connectInTime());
  } catch (error) {
    if (!isOutage(error)) throw error;
    const detail = `retrying in the background: ${messageOf(error)}`;
    log.warn("rep.store.unreachable", { detail });
    reconnect(error);
  }
  return {
    engine,
    maxChecks,
    get: (key) => run((connection) => connection.get(key)),
    getMany: (keys) => run((connection) => connection.getMany(keys)),
    list: (prefix, options) =>
      run((connection) => connection.list(prefix, options)),
    commit: (checks, writes) =>
      run((connection) => connection.commit(checks, writes)),
    watch(key, hint) {
      const stop = connection?.watch(key, hint) ?? (() => {});
      const watch: Watch = { key, hint, stop };
      watches.add(watch);
      return () => {
        watches.delete(watch);
        watch.stop();
      };
    },
    close() {
      closed.abort();
      disconnect();
    },
  };
}
