import { type Log, messageOf } from "../observe/log.ts";
import { type Clock, sleep } from "../values/clock.ts";
import {
  type Key,
  OPERATION_TIMEOUT_MS,
  type Store,
  StoreFullError,
  StoreUnavailableError,
  toUnavailableError,
  withTimeout,
} from "./store.ts";

/** Options of {@linkcode openRemoteStore}. */
interface RemoteStoreOptions {
  /** Connects to the server. */
  connect: () => Promise<Store>;
  /** How many checks a commit on the server may contain. */
  maxChecks: number;
  /** See {@linkcode Store.engine}. */
  engine: string;
  log: Log;
  clock: Clock;
  /** Returns a number in [0, 1), for backoff. */
  random: () => number;
}

/** The pause before connecting again, half of it random; each is twice as long as the one before, up to the maximum. */
const FIRST_PAUSE_MS = 250;
const MAX_PAUSE_MS = 2_000;

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
  options: RemoteStoreOptions,
): Promise<Store> {
  const store = new RemoteStore(options);
  await store.start();
  return store;
}

interface Watch {
  readonly key: Key;
  readonly hint: () => void;
  stop: () => void;
}

class RemoteStore implements Store {
  readonly engine: string;
  readonly maxChecks: number;
  readonly #options: RemoteStoreOptions;
  readonly #closed = new AbortController();
  readonly #watches = new Set<Watch>();
  #connection: Store | undefined;
  /** Why there is no connection. */
  #failure = new StoreUnavailableError(
    "Cannot use the store: it is not connected yet",
  );

  constructor(options: RemoteStoreOptions) {
    this.#options = options;
    this.maxChecks = options.maxChecks;
    this.engine = options.engine;
  }

  /** Connects for the first time. After a transient error, it reconnects in the background. */
  async start(): Promise<void> {
    try {
      this.#use(await this.#connect());
    } catch (error) {
      if (!isOutage(error)) throw error;
      const detail = `retrying in the background: ${messageOf(error)}`;
      this.#options.log.warn("rep.store.unreachable", { detail });
      this.#reconnect(error);
    }
  }

  readonly get: Store["get"] = (key) =>
    this.#run((connection) => connection.get(key));

  readonly getMany: Store["getMany"] = (keys) =>
    this.#run((connection) => connection.getMany(keys));

  readonly list: Store["list"] = (prefix, options) =>
    this.#run((connection) => connection.list(prefix, options));

  readonly commit: Store["commit"] = (checks, writes) =>
    this.#run((connection) => connection.commit(checks, writes));

  watch(key: Key, hint: () => void): () => void {
    const stop = this.#connection?.watch(key, hint) ?? (() => {});
    const watch: Watch = { key, hint, stop };
    this.#watches.add(watch);
    return () => {
      this.#watches.delete(watch);
      watch.stop();
    };
  }

  close(): void {
    this.#closed.abort();
    this.#disconnect();
  }

  async #run<T>(operation: (connection: Store) => Promise<T>): Promise<T> {
    const { clock } = this.#options;
    const connection = this.#connection;
    if (connection === undefined) throw this.#failure;
    const running = operation(connection);
    try {
      return await withTimeout(running, OPERATION_TIMEOUT_MS, clock);
    } catch (error) {
      const isCurrent = connection === this.#connection;
      if (isCurrent && !keepsConnection(error)) this.#reconnect(error);
      throw error;
    }
  }

  #reconnect(error: unknown): void {
    this.#disconnect();
    this.#failure = toUnavailableError(error);
    void this.#retryConnecting();
  }

  #disconnect(): void {
    for (const watch of this.#watches) watch.stop();
    this.#connection?.close();
    this.#connection = undefined;
  }

  async #retryConnecting(): Promise<void> {
    const { clock, random } = this.#options;
    const { signal } = this.#closed;
    let pause = FIRST_PAUSE_MS;
    while (!signal.aborted) {
      await sleep(pause * (0.5 + 0.5 * random()), clock, { signal });
      if (signal.aborted) return;
      try {
        return this.#use(await this.#connect());
      } catch (error) {
        this.#failure = toUnavailableError(error);
      }
      pause = Math.min(2 * pause, MAX_PAUSE_MS);
    }
  }

  async #connect(): Promise<Store> {
    const { connect, clock } = this.#options;
    const connecting = connect();
    try {
      return await withTimeout(connecting, OPERATION_TIMEOUT_MS, clock);
    } catch (error) {
      connecting.then((late) => late.close(), () => {}); // `error` has been reported; a late connection is not needed
      throw error;
    }
  }

  #use(connection: Store): void {
    if (this.#closed.signal.aborted) return connection.close();
    this.#connection = connection;
    for (const watch of this.#watches) {
      watch.stop = connection.watch(watch.key, watch.hint);
    }
  }
}

/**
 * Whether a server may be reachable later. Deno throws the same class for all failures: only the message distinguishes
 * them.
 */
function isOutage(error: unknown): boolean {
  if (error instanceof StoreUnavailableError) return true;
  return /failed to connect to|timed out|responded with status (429|5\d\d)/
    .test(messageOf(error));
}

/**
 * Deno throws a `TypeError` for keys and values that no database accepts. A store without room for a commit can still
 * be read.
 */
function keepsConnection(error: unknown): boolean {
  return error instanceof TypeError || error instanceof StoreFullError;
}
