import type { Clock } from "../values/clock.ts";
import type { Log, LogFields } from "./log.ts";

/** A rejected request or stream. */
export interface Rejection {
  /** Rejections with the same key, such as those of one client, are counted together. */
  readonly key: string;
  /** One word, under which further rejections are counted. */
  readonly reason: string;
  /** The event of the line that is logged at once if it is the first one with its key. */
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
 * Logs rejections: the first one with each key at once, and those that follow in one line a minute. A line for each
 * would let a single client write 20,000 lines a second.
 */
export class RejectionLog {
  readonly #options: RejectionLogOptions;
  /** How many rejections with each key have not been logged yet, by reason. */
  readonly #counts = new Map<string, Map<string, number>>();
  #cancelSummary: (() => void) | undefined;

  constructor(options: RejectionLogOptions) {
    this.#options = options;
  }

  /** Logs or counts a rejection. */
  report({ key, reason, event, fields }: Rejection): void {
    const group = this.#counts.has(key) || this.#counts.size < MAX_KEYS ? key : OTHERS;
    const counts = this.#counts.get(group);
    if (counts !== undefined) return void counts.set(reason, (counts.get(reason) ?? 0) + 1);
    this.#counts.set(group, new Map());
    this.#scheduleSummary();
    this.#options.log.warn(event, fields);
  }

  /** Logs what has only been counted so far. */
  close(): void {
    this.#cancelSummary?.();
    for (const [key, counts] of this.#counts) this.#summarize(key, counts);
    this.#counts.clear();
  }

  #scheduleSummary(): void {
    this.#cancelSummary ??= this.#options.clock.after(SUMMARY_MS, () => this.#summarizeAll(), true);
  }

  #summarizeAll(): void {
    this.#cancelSummary = undefined;
    for (const [key, counts] of this.#counts) {
      if (counts.size === 0) this.#counts.delete(key); // its next rejection is logged at once
      else this.#summarize(key, counts);
    }
    if (this.#counts.size > 0) this.#scheduleSummary();
  }

  #summarize(key: string, counts: Map<string, number>): void {
    const { log, summaryEvent, summaryFields } = this.#options;
    if (counts.size > 0) log.warn(summaryEvent, { ...summaryFields(key), ...Object.fromEntries(counts) });
    counts.clear();
  }
}
