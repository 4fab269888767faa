import { EMPTY_SNAPSHOT, type Snapshot } from "../config/variables/snapshot.ts";
import { VARIABLES_HEAD_KEY } from "../config/stored/stored_variables.ts";
import { type Log, messageOf } from "../observe/log.ts";
import type { Metrics } from "../observe/metrics.ts";
import { sampleNames } from "../rollout/conflicts.ts";
import { type Rollout, StandsApartError } from "../rollout/rollout.ts";
import { retryConflicts } from "../store/retry.ts";
import { type Store, StoreUnavailableError } from "../store/store.ts";
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
  async publishNowOrLater(target: Snapshot): Promise<boolean> {
    const isNew = target.deployment !== this.#target.deployment ||
      target.state !== this.#target.state;
    this.#replaceTarget(target);
    await this.#publish(isNew ? "error" : "debug");
    return !this.#hasFailed || target.state === this.#settled.state;
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

  /** Runs one publication at a time: of two at once, the older could be written last. */
  #enqueue(publication: () => Promise<void>): Promise<void> {
    const done = this.#queue.then(publication);
    this.#queue = done.catch(() => {}); // the caller handles the rejection
    return done;
  }

  async #publishIfActive(): Promise<void> {
    const { rollout, eventLog, tail } = this.#options;
    const [target, unpublished] = [this.#target, this.#unpublished];
    const { storedVersion } = target;
    if (storedVersion === undefined) {
      throw new StoreUnavailableError(
        "Cannot publish: the variables in the store have not been read yet",
      );
    }
    if (rollout.hash !== target.deployment) await this.#join(target);
    const onCommit = (events: readonly LogEvent[]) => this.#logEvents(events);
    const { head } = await retryConflicts(async () => {
      const fencing = await rollout.fencingChecks();
      this.#logActive();
      if (fencing === undefined) return { head: undefined }; // another configuration is active
      const variables = { key: VARIABLES_HEAD_KEY, version: storedVersion };
      const checks = [...fencing, variables];
      const options = { checks, delivered: tail.state, unpublished, onCommit };
      const head = await commitDifference(target, eventLog, options);
      if (head !== undefined) return { head };
      await this.#rejectIfOutdated(storedVersion);
      return undefined;
    }, this.#options);
    await tail.readNew();
    this.#settled = target;
    if (head === undefined) return;
    this.#unpublished = this.#unpublished.difference(unpublished);
    this.#cursor = head;
  }

  /** Called after a conflict, which no further attempt resolves if the variables in the store have been written. */
  async #rejectIfOutdated(storedVersion: string | null): Promise<void> {
    const head = await this.#options.store.get(VARIABLES_HEAD_KEY);
    if ((head?.version ?? null) === storedVersion) return;
    throw new OutdatedSnapshotError(
      "the variables in the store have been written since they were read; reading them again",
    );
  }

  async #join({ deployment, deployedNames }: Snapshot): Promise<void> {
    this.#isJoining = true;
    const names = sampleNames(deployedNames);
    await this.#options.rollout.join(deployment, names).finally(() =>
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
