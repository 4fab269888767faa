import { systemClock, withDeadline } from "../../core/values/clock.ts";
import { LineQueue } from "./line_queue.ts";

/** How long an exit waits for the readers of what has been logged. */
export const LOG_FLUSH_MS = 1_000;

/** The two descriptors that a running gateway writes to. Nothing else may: a synchronous write can wait for ever. */
export class Output {
  readonly stdout = new LineQueue(Deno.stdout, systemClock);
  readonly stderr = new LineQueue(Deno.stderr, systemClock);

  /** Resolves when everything has been written. @throws {Error} If nobody reads it for a second. */
  flush(): Promise<unknown> {
    const flushed = Promise.all([this.stdout.flush(), this.stderr.flush()]);
    const createError = () => new Error("Cannot log: nobody reads it");
    return withDeadline(flushed, LOG_FLUSH_MS, systemClock, createError);
  }

  /** Ends the process as soon as everything has been written, or after a second. */
  readonly exit = async (code?: number): Promise<never> => {
    await this.flush().catch(() => {});
    Deno.exit(code);
  };
}
