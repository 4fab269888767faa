import { EMPTY_SNAPSHOT, type Snapshot } from "../config/variables/snapshot.ts";
import { VARIABLES_HEAD_KEY } from "../config/stored/stored_variables.ts";
import { type Log, messageOf } from "../observe/log.ts";
import type { Metrics } from "../observe/metrics.ts";
import { sampleNames } from "../rollout/conflicts.ts";
import { type Rollout, StandsApartError } from "../rollout/rollout.ts";
import { retryConflicts } from "../store/commits.ts";
import { type Store, StoreUnavailableError } from "../store/store.ts";
import type { Clock } from "../values/clock.ts";
import { shortHash } from "../values/hash.ts";
import { commitDifference } from "./commit_difference.ts";
import type { EventLog } from "./event_log.ts";
import type { LogEvent } from "./event.ts";
import type { Tail } from "./tail.ts";

/** Options of {@linkcode Publisher}. */
interface PublisherOptions {
  rollout: Pick<
    Rollout,
    "hash" | "active" | "join" | "fencingChecks"
  >;
  eventLog: EventLog;
  tail: Tail;
  /** Holds the variables that snapshots were built from. */
  store: Pick<Store, "get">;
  clock: Clock;
  /** Returns a number in [0, 1). */
  random: () => number;
  log: Log;
  metrics: Metrics;
}

/** Variables in the store have been written after they were read for a snapshot, which is therefore not published. */
class OutdatedSnapshotError extends Error {
  override name = "OutdatedSnapshotError";
}

/**
 * Publishes this process's snapshots while their configuration is the active one (`docs/rollouts.md`).
 *
 * All replicas of a deployment may publish. So that none of them publishes a state that is older than what another one
 * has published, each commit checks the version of the variables in the store that the snapshot was built from.
 *
 * If the store fails during a publication, every operation fails at once until the store is back (`CircuitBreaker`).
 * What was committed is valid as it is, since the next attempt compares with the store again. `Changes` repeats the
 * publication every few seconds, and the gateway when the store is available again.
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
  #cursor = 0;
  #queue: Promise<void> = Promise.resolve();
  /** Whether the last publication has failed. */
  #hasFailed = false;
  #isOutdated = false;
  /** Whether pages have had the target's values without an event, since a publication of it has failed. */
  #isServed = false;
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

  /** Whether the target was built from variables in the store that have changed since: they have to be read again. */
  get isOutdated(): boolean {
    return this.#isOutdated;
  }

  /** Whether the values of a snapshot have not been published, since the store has failed. */
  isWaiting(snapshot: Snapshot): boolean {
    return this.#hasFailed && !this.#isOutdated &&
      snapshot.state !== this.#settled.state;
  }

  /**
   * Publishes a snapshot: a new one, or the same again when its configuration becomes active after another one. If the
   * store fails meanwhile, it returns: pages have the new values, streams get them with the next {@linkcode retry}.
   *
   * @returns Whether no value waits for the next retry. Then, a failure is not worth an error: nobody misses a change.
   */
  async publish(target: Snapshot): Promise<boolean> {
    const isNew = target.deployment !== this.#target.deployment ||
      target.state !== this.#target.state;
    this.#replaceTarget(target);
    await this.#enqueue(isNew ? "error" : "debug");
    return !this.#hasFailed || target.state === this.#settled.state;
  }

  /** Repeats the last publication if it has failed. What it has committed until then is published already. */
  async retry(): Promise<void> {
    if (this.#hasFailed) await this.#enqueue("debug");
  }

  /** Called when another configuration becomes active: this process's own is to be published again, or superseded. */
  followRollout(): void {
    if (this.#isJoining) return; // which precedes a publication
    const { rollout } = this.#options;
    if (rollout.active === rollout.hash) void this.#enqueue("error");
  }

  /** Waits for a publication that is under way. No other begins. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#queue;
  }

  /** Publishes the target, one publication at a time: of two at once, the older could be written last. */
  #enqueue(level: "error" | "debug"): Promise<void> {
    this.#queue = this.#queue.then(() => this.#publishTarget(level));
    return this.#queue;
  }

  /** @param level At which a failure is logged. It never rejects. */
  async #publishTarget(level: "error" | "debug"): Promise<void> {
    if (this.#isClosed) return;
    try {
      await this.#commitTarget();
      this.#hasFailed = false;
      this.#isOutdated = false;
      this.#isServed = false;
    } catch (error) {
      this.#hasFailed = true;
      this.#isOutdated = error instanceof OutdatedSnapshotError;
      this.#isServed ||= this.isWaiting(this.#target);
      const isReported = error instanceof StandsApartError; // by the rollout, if it is a fault
      const isFault = level === "error" && !this.#isOutdated && !isReported;
      this.#logFailure(error, isFault ? level : "debug");
    }
  }

  /** Pages may have had the values of a target that is replaced before it was published. */
  #replaceTarget(target: Snapshot): void {
    const previous = this.#target;
    const wasServed = this.#isServed;
    this.#target = target;
    this.#isServed = this.isWaiting(target);
    if (!wasServed) return;
    const names = [...previous.public.keys(), ...target.public.keys()];
    const changed = names.filter((name) =>
      previous.public.get(name) !== target.public.get(name)
    );
    this.#unpublished = new Set([...this.#unpublished, ...changed]);
  }

  /** Commits what differs from the target, if its configuration is active. */
  async #commitTarget(): Promise<void> {
    const { rollout, tail } = this.#options;
    const target = this.#target;
    const unpublished = this.#unpublished;
    const { storedVersion } = target;
    if (storedVersion === undefined) {
      throw new StoreUnavailableError(
        "Cannot publish: the variables in the store have not been read yet",
      );
    }
    if (rollout.hash !== target.deployment) await this.#join(target);
    const outcome = await retryConflicts(
      () => this.#tryToCommit(target, storedVersion, unpublished),
      this.#options,
    );
    await tail.readNew();
    this.#settled = target;
    if (outcome === "superseded") return;
    this.#unpublished = this.#unpublished.difference(unpublished);
    this.#cursor = outcome.head;
  }

  /** @returns `undefined` if another process has written in the meantime, so that this has to be repeated. */
  async #tryToCommit(
    target: Snapshot,
    storedVersion: string | null,
    unpublished: ReadonlySet<string>,
  ): Promise<{ head: number } | "superseded" | undefined> {
    const { rollout, eventLog, tail } = this.#options;
    const fencing = await rollout.fencingChecks();
    if (fencing === undefined) return "superseded";
    const variables = { key: VARIABLES_HEAD_KEY, version: storedVersion };
    const head = await commitDifference(target, eventLog, {
      checks: [...fencing, variables],
      delivered: tail.state,
      unpublished,
      onCommit: (events) => this.#logEvents(events),
    });
    if (head !== undefined) return { head };
    await this.#rejectIfOutdated(storedVersion);
    return undefined;
  }

  /** Called after a conflict, which no further attempt resolves if the variables in the store have been written. */
  async #rejectIfOutdated(storedVersion: string | null): Promise<void> {
    const head = await this.#options.store.get(VARIABLES_HEAD_KEY);
    if ((head?.version ?? null) === storedVersion) return;
    throw new OutdatedSnapshotError(
      "the variables in the store have been written since they were read; reading them again",
    );
  }

  async #join({ deployment, deployedNames, sensitive }: Snapshot) {
    this.#isJoining = true;
    try {
      const names = sampleNames(deployedNames);
      const needsKey = sensitive.size > 0;
      await this.#options.rollout.join(deployment, names, needsKey);
    } finally {
      this.#isJoining = false;
    }
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
