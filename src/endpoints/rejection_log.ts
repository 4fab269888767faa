import type { Clock } from "../clock.ts";
import type { Client } from "../http/client_address.ts";
import type { Log, LogFields } from "../log.ts";

/** Why a client's request for a session key was rejected. */
export interface Rejection {
  readonly event: "rep.session_key.rejected" | "rep.session_key.rate_limited";
  /** One word, under which further rejections are counted. */
  readonly reason: string;
  /** What the log line says besides the client. */
  readonly fields: LogFields;
}

/** Options of {@linkcode RejectionLog}. */
interface RejectionLogOptions {
  log: Log;
  clock: Clock;
}

const SUMMARY_MS = 60_000;
/**
 * How many clients are counted separately, so that an attacker with many addresses fills neither the memory nor the
 * log.
 */
const MAX_CLIENTS = 1_000;
/** All clients beyond that. */
const OTHERS = "others";

/**
 * Logs rejections: the first of a client at once, and those that follow in one line a minute. A line for each would let
 * a single client write 20,000 lines a second. Issued keys are not logged here, but always one by one.
 */
export class RejectionLog {
  readonly #options: RejectionLogOptions;
  /** How many rejections of each client have not been logged yet, by reason. */
  readonly #clients = new Map<string, Map<string, number>>();
  #cancelSummary: (() => void) | undefined;

  constructor(options: RejectionLogOptions) {
    this.#options = options;
  }

  /** Logs or counts a rejection. Like the rate limit, it takes an IPv6 /64 for one client. */
  report({ address, rateKey }: Client, { event, reason, fields }: Rejection): void {
    const { log } = this.#options;
    const key = this.#clients.has(rateKey) || this.#clients.size < MAX_CLIENTS ? rateKey : OTHERS;
    const counts = this.#clients.get(key);
    if (counts !== undefined) return void counts.set(reason, (counts.get(reason) ?? 0) + 1);
    this.#clients.set(key, new Map());
    this.#scheduleSummary();
    log.warn(event, { client_ip: address, ...fields });
  }

  /** Logs what has only been counted so far. */
  close(): void {
    this.#cancelSummary?.();
    for (const [key, counts] of this.#clients) this.#summarize(key, counts);
    this.#clients.clear();
  }

  #scheduleSummary(): void {
    this.#cancelSummary ??= this.#options.clock.after(SUMMARY_MS, () => this.#summarizeAll(), true);
  }

  #summarizeAll(): void {
    this.#cancelSummary = undefined;
    for (const [key, counts] of this.#clients) {
      if (counts.size === 0) this.#clients.delete(key); // its next rejection is logged at once
      else this.#summarize(key, counts);
    }
    if (this.#clients.size > 0) this.#scheduleSummary();
  }

  #summarize(key: string, counts: Map<string, number>): void {
    if (counts.size > 0) {
      this.#options.log.warn("rep.session_key.refused", { client_ip: key, ...Object.fromEntries(counts) });
    }
    counts.clear();
  }
}
