import { type Log, logTaskError } from "../observe/log.ts";
import { type Clock, every } from "../values/clock.ts";
import { StoreUnavailableError } from "./store.ts";

/** Options of {@linkcode BackgroundTasks}. */
interface BackgroundTasksOptions {
  clock: Clock;
  log: Log;
  /** Ends the repetitions when it is aborted. */
  signal: AbortSignal;
}

/** Runs tasks that need the store, in the background. Their errors are logged, but for an outage, which is logged once. */
export class BackgroundTasks {
  readonly #options: BackgroundTasksOptions;

  constructor(options: BackgroundTasksOptions) {
    this.#options = options;
  }

  /** Runs a task now. It never rejects. */
  async run(name: string, task: () => Promise<unknown>): Promise<void> {
    try {
      await task();
    } catch (error) {
      if (!(error instanceof StoreUnavailableError)) logTaskError(this.#options.log, name)(error);
    }
  }

  /** Runs a task every `ms` milliseconds. */
  repeat(ms: number, name: string, task: () => Promise<unknown>): void {
    const { clock, log, signal } = this.#options;
    const stop = every(ms, () => this.run(name, task), { clock, onError: logTaskError(log, name) });
    signal.addEventListener("abort", stop);
  }
}
