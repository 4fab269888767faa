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

/** Runs tasks that need the store, in the background. Their errors are logged, but for an outage, which is logged once. */
export class BackgroundTasks {
  readonly #options: BackgroundTasksOptions;
  /** Run the repeated tasks that need the store. */
  readonly #repeated: (() => Promise<void>)[] = [];

  constructor(options: BackgroundTasksOptions) {
    this.#options = options;
  }

  /** Runs a task now. It never rejects. */
  async run(name: string, task: () => Promise<unknown>): Promise<void> {
    try {
      await task();
    } catch (error) {
      if (!(error instanceof StoreUnavailableError)) {
        logTaskError(this.#options.log, name)(error);
      }
    }
  }

  /** Runs a task every `ms` milliseconds, and in {@linkcode runAll}, but never twice at the same time. */
  repeat(
    ms: number,
    name: string,
    task: () => Promise<unknown>,
    { needsStore = true } = {},
  ): void {
    const { clock, log, signal } = this.#options;
    let running: Promise<void> | undefined;
    const run = () =>
      running ??= this.run(name, task).finally(() => running = undefined);
    if (needsStore) this.#repeated.push(run);
    signal.addEventListener(
      "abort",
      every(ms, run, { clock, onError: logTaskError(log, name) }),
    );
  }

  /** Runs a task when the store hints that a key may have been written. */
  runOnHint(key: Key, name: string, task: () => Promise<unknown>): void {
    const { store, signal } = this.#options;
    signal.addEventListener(
      "abort",
      store.watch(key, () => void this.run(name, task)),
    );
  }

  /**
   * Runs all repeated tasks that need the store now: when it is available again, they make up for what has failed
   * meanwhile.
   */
  runAll(): void {
    for (const run of this.#repeated) void run();
  }
}
