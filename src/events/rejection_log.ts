import type { Clock } from "../clock.ts";
import type { Log, LogFields } from "../log.ts";

/** Options of {@linkcode RejectionLog}. */
export interface RejectionLogOptions {
  clock: Clock;
  log: Log;
}

/** The rejections of a client that have not been logged yet. */
interface Pending {
  readonly fields: LogFields;
  /** When they are logged. */
  readonly dueAt: number;
  count: number;
}

const PERIOD_MS = 60_000;
/** Limits the memory and the lines per minute, whatever the number of clients. */
const MAX_KEYS = 1_000;

/** Logs rejected streams: the first one of a client at once, the others in one line per minute with their number. */
export class RejectionLog {
  readonly #options: RejectionLogOptions;
  readonly #pending = new Map<string, Pending>();

  constructor(options: RejectionLogOptions) {
    this.#options = options;
  }

  /**
   * Logs or counts a rejection.
   *
   * @param key Rejections with the same key are counted together.
   */
  add(key: string, fields: LogFields): void {
    const pending = this.#pending.get(key);
    if (pending !== undefined) pending.count++;
    else if (this.#pending.size < MAX_KEYS) this.#write(key, { fields, count: 1 });
  }

  /** Logs what is due. */
  tick(): void {
    const now = this.#options.clock.now();
    for (const [key, pending] of this.#pending) {
      if (now < pending.dueAt) continue;
      this.#pending.delete(key);
      if (pending.count > 0) this.#write(key, pending);
    }
  }

  #write(key: string, { fields, count }: Pick<Pending, "fields" | "count">): void {
    const { clock, log } = this.#options;
    log.warn("rep.streams.refused", { ...fields, refused: count });
    this.#pending.set(key, { fields, dueAt: clock.now() + PERIOD_MS, count: 0 });
  }
}
