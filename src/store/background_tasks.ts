import { type Log, logTaskError } from "../observe/log.ts";
import { type Clock, every } from "../values/clock.ts";
import { type Key, type Store, StoreUnavailableError } from "./store.ts";

/** Options of {@linkcode BackgroundTasks}. */
interface BackgroundTasksOptions {
  store: Store;
  clock: Clock;
  log: Log;
  /** Ends the repetitions when it is aborted. */
  signal: AbortSignal;
}

/**
 * What a gateway does with its store beside answering requests, at intervals and on hints, until it closes. Errors of
 * tasks are logged, except that the store is unavailable: the circuit breaker logs an outage once.
 */
export class BackgroundTasks {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #signal: AbortSignal;
  /** Run the repeated tasks that need the store. */
  readonly #repeated: (() => Promise<void>)[] = [];

  constructor({ store, clock, log, signal }: BackgroundTasksOptions) {
    this.#store = store;
    this.#clock = clock;
    this.#log = log;
    this.#signal = signal;
  }

  /** Runs a task now. It never rejects. */
  async run(name: string, task: () => Promise<unknown>): Promise<void> {
    try {
      await task();
    } catch (error) {
      if (error instanceof StoreUnavailableError) return;
      logTaskError(this.#log, name)(error);
    }
  }

  /** Runs a task every `ms` milliseconds, and in {@linkcode runAll}, but never twice at the same time. */
  repeat(
    ms: number,
    name: string,
    task: () => Promise<unknown>,
    { needsStore = true } = {},
  ): void {
    let isRunning = false;
    const run = async () => {
      if (isRunning) return;
      isRunning = true;
      await this.run(name, task);
      isRunning = false;
    };
    if (needsStore) this.#repeated.push(run);
    const onError = logTaskError(this.#log, name);
    const stop = every(ms, run, { clock: this.#clock, onError });
    this.#signal.addEventListener("abort", stop);
  }

  /** Runs a task when the store hints that a key may have been written. */
  runOnHint(key: Key, name: string, task: () => Promise<unknown>): void {
    const stop = this.#store.watch(key, () => void this.run(name, task));
    this.#signal.addEventListener("abort", stop);
  }

  /** Runs all repeated tasks that need the store now: they make up for what has failed while it was unavailable. */
  runAll(): void {
    for (const run of this.#repeated) void run();
  }
}
