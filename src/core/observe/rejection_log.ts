import type { Clock } from "../values/clock.ts";
import type { Log, LogFields } from "./log.ts";

/** A rejected request or stream. */
export interface Rejection {
  /** Rejections with the same key, such as those of one client, are counted together. */
  readonly key: string;
  /** One word, under which further rejections are counted. */
  readonly reason: string;
  /** The event of the line that is logged at once if it is the first one with its key and its reason. */
  readonly event: string;
  /** The fields of that line. */
  readonly fields: LogFields;
}

/** Options of {@linkcode RejectionLog}. */
interface RejectionLogOptions {
  log: Log;
  clock: Clock;
  /** The event of the lines that count rejections. */
  summaryEvent: string;
  /** Returns the fields of such a line; the number for each reason is added to them. */
  summaryFields: (key: string) => LogFields;
}

const SUMMARY_MS = 60_000;
/**
 * How many keys are counted separately, so that an attacker with many addresses fills neither the memory nor the log.
 */
const MAX_KEYS = 1_000;
/** All keys beyond that. */
const OTHERS = "others";

/**
 * Logs rejections: the first one with each key and reason at once, and the following ones in one line a minute for each
 * key. A line for each would let a single client fill the log.
 */
export class RejectionLog {
  readonly #options: RejectionLogOptions;
  /** The number of rejections since the last logged one, by key and reason. */
  readonly #counts = new Map<string, Map<string, number>>();
  #cancelSummary: (() => void) | undefined;

  constructor(options: RejectionLogOptions) {
    this.#options = options;
  }

  /**
   * Logs or counts a rejection.
   *
   * @returns Whether it is the first one with its key and reason: there was none for a minute.
   */
  report({ key, reason, event, fields }: Rejection): boolean {
    const counts = this.#countsOf(key);
    const count = counts.get(reason);
    if (count !== undefined) {
      counts.set(reason, count + 1);
      return false;
    }
    counts.set(reason, 0);
    this.#scheduleSummary();
    this.#options.log.warn(event, fields);
    return true;
  }

  /** Logs what has only been counted so far. */
  close(): void {
    this.#cancelSummary?.();
    for (const key of this.#counts.keys()) this.#summarize(key);
    this.#counts.clear();
  }

  #countsOf(key: string): Map<string, number> {
    const isFull = this.#counts.size >= MAX_KEYS && !this.#counts.has(key);
    const group = isFull ? OTHERS : key;
    const counts = this.#counts.get(group) ?? new Map<string, number>();
    this.#counts.set(group, counts);
    return counts;
  }

  #scheduleSummary(): void {
    this.#cancelSummary ??= this.#options.clock.after(
      SUMMARY_MS,
      () => this.#summarizeAll(),
      true,
    );
  }

  #summarizeAll(): void {
    this.#cancelSummary = undefined;
    for (const key of this.#counts.keys()) this.#summarize(key);
    if (this.#counts.size > 0) this.#scheduleSummary();
  }

  /** Logs the counts of a key. The next rejection for a reason without any is logged at once again. */
  #summarize(key: string): void {
    const { log, summaryEvent, summaryFields } = this.#options;
    const counts = this.#countsOf(key);
    for (const [reason, count] of counts) {
      if (count === 0) counts.delete(reason);
    }
    if (counts.size === 0) return void this.#counts.delete(key);
    const fields = { ...summaryFields(key), ...Object.fromEntries(counts) };
    log.warn(summaryEvent, fields);
    for (const reason of counts.keys()) counts.set(reason, 0);
  }
}
