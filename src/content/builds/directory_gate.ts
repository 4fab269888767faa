import { SerialQueue } from "../../core/values/serial_queue.ts";
import { type Clock, withDeadline } from "../../core/values/clock.ts";

/** How long an operation may take; the directory is late after that. */
export const LATE_MS = 2_000;

/**
 * Limits the operations on a directory that may be on a network: one that keeps builds, and one that serves them. A server
 * that does not answer blocks a thread for each, which no deadline gives back, and 32 blocked threads stop all files of the
 * process. While an operation is late, all others fail at once.
 */
export class DirectoryGate {
  readonly #clock: Clock;
  readonly #lanes = { keep: new SerialQueue(), serve: new SerialQueue() };
  #late = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * Runs an operation after the others of its lane.
   *
   * @param ms How long it may take.
   * @throws {Deno.errors.TimedOut} If it, or another one, is late.
   */
  async run<T>(
    lane: "keep" | "serve",
    work: () => Promise<T>,
    ms = 0,
  ): Promise<T> {
    return await this.#lanes[lane].run(async () => {
      const late = new Deno.errors.TimedOut("the directory does not answer");
      if (this.#late > 0) throw late;
      const running = work();
      return await withDeadline(running, LATE_MS + ms, this.#clock, () => {
        this.#late++;
        const end = () => this.#late--;
        running.then(end, end);
        return late;
      });
    });
  }
}
