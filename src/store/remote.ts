import { type Clock, sleep } from "../clock.ts";
import { withTimeout } from "./with_timeout.ts";
import {
  type Check,
  type Entry,
  type Key,
  type ListOptions,
  type Store,
  StoreUnavailableError,
  type Write,
} from "./store.ts";

/** Settings of {@linkcode openRemoteStore}. */
export interface RemoteStoreOptions {
  /** Connects to the server, or fails; if it does neither, it is tried again all the same. */
  open: () => Promise<Store>;
  /** Whether an error of the first `open` may pass by itself; any other is thrown. */
  mayPass: (error: unknown) => boolean;
  clock: Clock;
  /** From 0 to below 1: processes that lost the same server must not come back as one. */
  random: () => number;
  /** How long an operation, or connecting, may take. @default {5000} */
  timeoutMs?: number;
}

/** The pause before connecting again, at first and at most; half of it is left to chance. */
const RETRY_MS = [250, 2_000] as const;

/**
 * Opens a store on a server that may be away, now or later.
 *
 * An operation of KV Connect on a server that is down does not end, not even when the database is closed: it is tried three
 * times a second, with a line on standard error each time, as long as the process lives. One that is sent to look whether the
 * server is there again would be one more of them. So a connection that gave no answer is given up, operations fail at once
 * while there is none, and what is tried again is connecting, which fails and leaves nothing behind.
 */
export async function openRemoteStore(options: RemoteStoreOptions): Promise<Store> {
  const store = new RemoteStore(options);
  await store.connect();
  return store;
}

interface Watch {
  readonly key: Key;
  readonly hint: () => void;
  stop: () => void;
}

class RemoteStore implements Store {
  readonly #options: Required<RemoteStoreOptions>;
  readonly #stop = new AbortController();
  readonly #watches = new Set<Watch>();
  #connection: Store | undefined;
  #failure = new StoreUnavailableError("Cannot use the store: there is no connection yet");

  constructor({ timeoutMs = 5_000, ...options }: RemoteStoreOptions) {
    this.#options = { timeoutMs, ...options };
  }

  /** Tries for the first time; what may pass is tried again beside everything else. */
  async connect(): Promise<void> {
    try {
      this.#use(await this.#open());
    } catch (error) {
      if (!this.#options.mayPass(error)) throw error;
      this.#failed(error);
    }
  }

  get<T>(key: Key): Promise<Entry<T> | undefined> {
    return this.#run((connection) => connection.get<T>(key));
  }

  list<T>(prefix: Key, options?: ListOptions): Promise<Entry<T>[]> {
    return this.#run((connection) => connection.list<T>(prefix, options));
  }

  commit(checks: readonly Check[], writes: readonly Write[]): Promise<string | undefined> {
    return this.#run((connection) => connection.commit(checks, writes));
  }

  watch(key: Key, hint: () => void): () => void {
    const watch: Watch = { key, hint, stop: this.#connection?.watch(key, hint) ?? (() => {}) };
    this.#watches.add(watch);
    return () => {
      this.#watches.delete(watch);
      watch.stop();
    };
  }

  close(): void {
    this.#stop.abort();
    this.#leave();
  }

  async #run<T>(operation: (connection: Store) => Promise<T>): Promise<T> {
    const connection = this.#connection;
    if (connection === undefined) throw this.#failure;
    try {
      return await withTimeout(operation(connection), this.#options.timeoutMs, this.#options.clock);
    } catch (error) {
      if (!isOfCaller(error) && connection === this.#connection) this.#failed(error);
      throw error;
    }
  }

  #failed(error: unknown): void {
    this.#leave();
    this.#remember(error);
    void this.#connectAgain();
  }

  #remember(cause: unknown): void {
    const reason = cause instanceof Error ? cause.message : String(cause);
    this.#failure = new StoreUnavailableError(`Cannot use the store: ${reason}`, { cause });
  }

  #leave(): void {
    for (const watch of this.#watches) watch.stop();
    this.#connection?.close();
    this.#connection = undefined;
  }

  async #connectAgain(): Promise<void> {
    const { clock, random } = this.#options;
    const { signal } = this.#stop;
    for (let pause: number = RETRY_MS[0];; pause = Math.min(2 * pause, RETRY_MS[1])) {
      await sleep(pause * (0.5 + 0.5 * random()), clock, { signal });
      if (signal.aborted) return;
      try {
        return this.#use(await this.#open());
      } catch (error) {
        this.#remember(error);
      }
    }
  }

  async #open(): Promise<Store> {
    const { open, timeoutMs, clock } = this.#options;
    const opening = open();
    try {
      return await withTimeout(opening, timeoutMs, clock);
    } catch (error) {
      opening.then((late) => late.close(), () => {}); // another one has been opened since, or the error has been told
      throw error;
    }
  }

  #use(connection: Store): void {
    if (this.#stop.signal.aborted) return connection.close();
    this.#connection = connection;
    for (const watch of this.#watches) watch.stop = connection.watch(watch.key, watch.hint);
  }
}

/** Deno throws it for keys and values that no database would take. */
function isOfCaller(error: unknown): boolean {
  return error instanceof TypeError;
}
