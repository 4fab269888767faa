import { EMPTY_SNAPSHOT, type Snapshot } from "../config/snapshot.ts";
import type { StoredVariablesSource } from "../config/stored_variables_source.ts";
import type { Log } from "../observe/log.ts";
import type { Metrics } from "../observe/metrics.ts";
import { retryConflicts } from "../store/retry.ts";
import { StoreUnavailableError } from "../store/store.ts";
import { type Clock, sleep } from "../values/clock.ts";
import { commitDifference } from "./commit_difference.ts";
import type { EventLog } from "./event_log.ts";
import type { LogEvent } from "./log_event.ts";
import type { Replica } from "./replica.ts";
import type { Tail } from "./tail.ts";

/** Options of {@linkcode Publisher}. */
interface PublisherOptions {
  replica: Pick<Replica, "join" | "fencingChecks" | "configurations">;
  eventLog: EventLog;
  tail: Tail;
  storedVariables: Pick<StoredVariablesSource, "isKnown">;
  clock: Clock;
  /** Returns a number in [0, 1). */
  random: () => number;
  log: Log;
  metrics: Metrics;
}

/** The first and the longest pause before a failed publication is retried, in milliseconds. */
const RETRY_MS = [1_000, 30_000] as const;

/** Publishes this process's snapshots while their configuration is the active one (`docs/rollouts.md`). */
export class Publisher {
  readonly #options: PublisherOptions;
  readonly #stop = new AbortController();
  #target = EMPTY_SNAPSHOT;
  /** The last target that needed no further publication. */
  #settled = EMPTY_SNAPSHOT;
  /**
   * Names whose values pages may have, since they were served, although the store was unavailable until they changed.
   */
  #unpublished: ReadonlySet<string> = new Set();
  #cursor = 0;
  #queue: Promise<unknown> = Promise.resolve();
  #retrying: Promise<void> | undefined;
  #retryPause = new AbortController();

  constructor(options: PublisherOptions) {
    this.#options = options;
  }

  /**
   * The id of the newest event that the snapshot contains, from which its pages follow the log. It may lag behind the
   * snapshot: then a page is sent events that it contains already, and misses none.
   */
  get cursor(): number {
    return this.#cursor;
  }

  /**
   * Publishes a snapshot: a new one, or the same again when its configuration becomes active after another one. If the
   * store is unavailable, it returns, and retries in the background.
   */
  async publishOrRetry(target: Snapshot): Promise<void> {
    this.#replaceTarget(target);
    if (this.#stop.signal.aborted) return;
    try {
      await this.#enqueue(() => this.#publishIfActive());
    } catch (error) {
      this.#logFailure(error);
      this.#retrying ??= this.#retry().finally(() => this.#retrying = undefined);
    }
  }

  /** Retries a failed publication now, if there is one, instead of after its pause. */
  retryNow(): void {
    this.#retryPause.abort();
  }

  /** Ends the retries. */
  async close(): Promise<void> {
    this.#stop.abort();
    await this.#retrying;
  }

  /** Pages had the values of a target that is replaced before it was published. */
  #replaceTarget(target: Snapshot): void {
    const previous = this.#target;
    this.#target = target;
    if (previous === this.#settled) return;
    const names = [...previous.public.keys(), ...target.public.keys()];
    const changed = names.filter((name) => previous.public.get(name) !== target.public.get(name));
    this.#unpublished = new Set([...this.#unpublished, ...changed]);
  }

  /** Runs one publication at a time: of two at once, the older could be written last. */
  #enqueue(publication: () => Promise<void>): Promise<void> {
    const done = this.#queue.then(publication);
    this.#queue = done.catch(() => {}); // the caller handles the rejection
    return done;
  }

  async #publishIfActive(): Promise<void> {
    const { replica, eventLog, tail, storedVariables } = this.#options;
    const [target, unpublished] = [this.#target, this.#unpublished];
    if (!storedVariables.isKnown) {
      throw new StoreUnavailableError("Cannot publish: the variables in the store have not been read yet");
    }
    await replica.join(target);
    const onCommit = (events: readonly LogEvent[]) => this.#logEvents(events);
    const { head } = await retryConflicts(async () => {
      const checks = await replica.fencingChecks();
      if (checks === undefined) return { head: undefined }; // another configuration is active
      const options = { checks, delivered: tail.state, unpublished, onCommit };
      const head = await commitDifference(target, eventLog, options);
      return head === undefined ? undefined : { head };
    }, this.#options);
    await tail.readNew();
    this.#settled = target;
    if (head === undefined) return;
    this.#unpublished = this.#unpublished.difference(unpublished);
    this.#cursor = head;
  }

  async #retry(): Promise<void> {
    const { clock, log } = this.#options;
    const { signal } = this.#stop;
    for (let pauseMs: number = RETRY_MS[0];; pauseMs = Math.min(2 * pauseMs, RETRY_MS[1])) {
      this.#retryPause = new AbortController();
      await sleep(pauseMs, clock, { signal: AbortSignal.any([signal, this.#retryPause.signal]) });
      if (signal.aborted) return;
      try {
        return await this.#enqueue(() => this.#publishIfActive());
      } catch (error) {
        log.debug("rep.config.not_published", { detail: String(error) });
      }
    }
  }

  #logFailure(error: unknown): void {
    const { log, replica: { configurations } } = this.#options;
    const isActive = configurations.configuration === configurations.active;
    const effect = isActive ? "" : "the previous configuration stays active until this succeeds; ";
    log.error("rep.config.not_published", { ...configurations, detail: `${effect}${error}; retrying` });
  }

  #logEvents(events: readonly LogEvent[]): void {
    const { log, metrics } = this.#options;
    metrics.count("rep.events.published", events.length);
    for (const { name, value, id } of events) {
      const action = value === undefined ? "delete" : "update";
      log.info("rep.config.changed", { key: name, tier: "public", action, id });
    }
  }
}
