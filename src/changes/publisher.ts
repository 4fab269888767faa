import { EMPTY_SNAPSHOT, type Snapshot } from "../config/snapshot.ts";
import type { StoredVariablesSource } from "../config/stored_variables_source.ts";
import { type Log, messageOf } from "../observe/log.ts";
import type { Metrics } from "../observe/metrics.ts";
import type { Rollout } from "../rollout/rollout.ts";
import { retryConflicts } from "../store/retry.ts";
import { StoreUnavailableError } from "../store/store.ts";
import type { Clock } from "../values/clock.ts";
import { shortHash } from "../values/hash.ts";
import { commitDifference } from "./commit_difference.ts";
import type { EventLog } from "./event_log.ts";
import type { LogEvent } from "./log_event.ts";
import type { Tail } from "./tail.ts";

/** Options of {@linkcode Publisher}. */
interface PublisherOptions {
  rollout: Pick<
    Rollout,
    "hash" | "active" | "members" | "join" | "fencingChecks"
  >;
  eventLog: EventLog;
  tail: Tail;
  storedVariables: Pick<StoredVariablesSource, "isKnown">;
  clock: Clock;
  /** Returns a number in [0, 1). */
  random: () => number;
  log: Log;
  metrics: Metrics;
}

/**
 * Publishes this process's snapshots while their configuration is the active one (`docs/rollouts.md`).
 *
 * If the store fails during a publication, every operation fails at once until the store is back (`CircuitBreaker`).
 * What was committed is valid as it is, since the next attempt compares with the store again. `Changes` repeats the
 * publication every few seconds, and `Core` when the store is available again.
 */
export class Publisher {
  readonly #options: PublisherOptions;
  #target = EMPTY_SNAPSHOT;
  /** The last target that needed no further publication. */
  #settled = EMPTY_SNAPSHOT;
  /**
   * Names whose values pages may have, since they were served, although the store was unavailable until they changed.
   */
  #unpublished: ReadonlySet<string> = new Set();
  #isJoining = false;
  /** The hashes that the log last named as those of this process's configuration and of the active one. */
  #logged: Pick<Rollout, "hash" | "active"> | undefined;
  #cursor = 0;
  #queue: Promise<unknown> = Promise.resolve();
  /** Whether the last publication has failed. */
  #hasFailed = false;
  #isClosed = false;

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
   * store fails meanwhile, it returns: pages have the new values, streams get them with the next {@linkcode retry}.
   *
   * @returns Whether no value waits for the next retry. Then, a failure is not worth an error: nobody misses a change.
   */
  async publishNowOrLater(target: Snapshot): Promise<boolean> {
    const isNew = target.hash !== this.#target.hash;
    this.#replaceTarget(target);
    await this.#publish(isNew ? "error" : "debug");
    return !this.#hasFailed || target.hash === this.#settled.hash;
  }

  /** Repeats the last publication if it has failed. What it has committed until then is published already. */
  async retry(): Promise<void> {
    if (this.#hasFailed) await this.#publish("debug");
  }

  /** Called when another configuration becomes active: this process's own is to be published again, or superseded. */
  onActiveChanged(): void {
    if (this.#isJoining) return; // which precedes a publication
    const { rollout } = this.#options;
    this.#logActive();
    if (rollout.active === rollout.hash) void this.#publish("error");
  }

  /** Waits for a publication that is under way. No other begins. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#queue;
  }

  /** @param level At which a failure is logged. */
  async #publish(level: "error" | "debug"): Promise<void> {
    if (this.#isClosed) return;
    try {
      await this.#enqueue(() => this.#publishIfActive());
      this.#hasFailed = false;
    } catch (error) {
      this.#hasFailed = true;
      this.#logFailure(error, level);
    }
  }

  /** Pages had the values of a target that is replaced before it was published. */
  #replaceTarget(target: Snapshot): void {
    const previous = this.#target;
    this.#target = target;
    if (previous === this.#settled) return;
    const names = [...previous.public.keys(), ...target.public.keys()];
    const changed = names.filter((name) =>
      previous.public.get(name) !== target.public.get(name)
    );
    this.#unpublished = new Set([...this.#unpublished, ...changed]);
  }

  /** Runs one publication at a time: of two at once, the older could be written last. */
  #enqueue(publication: () => Promise<void>): Promise<void> {
    const done = this.#queue.then(publication);
    this.#queue = done.catch(() => {}); // the caller handles the rejection
    return done;
  }

  async #publishIfActive(): Promise<void> {
    const { rollout, eventLog, tail, storedVariables } = this.#options;
    const [target, unpublished] = [this.#target, this.#unpublished];
    if (!storedVariables.isKnown) {
      throw new StoreUnavailableError(
        "Cannot publish: the variables in the store have not been read yet",
      );
    }
    if (rollout.hash !== target.hash) await this.#join(target.hash);
    const onCommit = (events: readonly LogEvent[]) => this.#logEvents(events);
    const { head } = await retryConflicts(async () => {
      const checks = await rollout.fencingChecks();
      this.#logActive();
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

  async #join(hash: string): Promise<void> {
    this.#isJoining = true;
    await this.#options.rollout.join(hash).finally(() =>
      this.#isJoining = false
    );
  }

  /** Logs which configuration is active, unless the log says so already. */
  #logActive(): void {
    const { log, rollout: { hash, active } } = this.#options;
    const previous = this.#logged;
    if (
      previous !== undefined && previous.hash === hash &&
      previous.active === active
    ) return;
    this.#logged = { hash, active };
    if (hash === active) {
      return this.#logOwnActive(
        previous?.hash === hash ? previous?.active : undefined,
      );
    }
    const detail = "another configuration is active; pages and streams use it";
    log.info("rep.rollout.superseded", { ...this.#configurations, detail });
  }

  /** @param replaced The hash of a newer configuration that was active, and whose processes have all ended. */
  #logOwnActive(replaced: string | undefined): void {
    const { log, rollout: { members } } = this.#options;
    const { configuration } = this.#configurations;
    const dead = members.filter(({ hash, state }) =>
      hash === replaced && state === "dead"
    );
    if (replaced === undefined || dead.length === 0) {
      return log.info("rep.rollout.active", { configuration });
    }
    const places = dead.map(({ place }) => place).join(", ");
    const detail =
      `the processes of the configuration that it replaces no longer send heartbeats: ${places}`;
    log.warn("rep.rollout.active", {
      configuration,
      replaces: shortHash(replaced),
      detail,
    });
  }

  #logFailure(error: unknown, level: "error" | "debug"): void {
    const configurations = this.#configurations;
    const isActive = configurations.configuration === configurations.active;
    const effect = isActive
      ? ""
      : "the previous configuration stays active until this succeeds; ";
    const detail = `${effect}${messageOf(error)}; retrying`;
    this.#options.log[level]("rep.config.not_published", {
      ...configurations,
      detail,
    });
  }

  /** This process's configuration and the active one, for the log. */
  get #configurations(): { configuration?: string; active?: string } {
    const { hash, active } = this.#options.rollout;
    if (hash === undefined || active === undefined) return {};
    return { configuration: shortHash(hash), active: shortHash(active) };
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
