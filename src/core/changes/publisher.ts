import { VARIABLES_HEAD_KEY } from "../config/stored/stored_variables.ts";
import {
  EMPTY_SNAPSHOT,
  isEqualMap,
  isHidden,
  type Snapshot,
} from "../config/variables/snapshot.ts";
import { type Log, messageOf } from "../observe/log.ts";
import type { Metrics } from "../observe/metrics.ts";
import type { Rollout } from "../rollout/rollout.ts";
import { batches, retryConflicts } from "../store/commits.ts";
import type { Check, Store } from "../store/store.ts";
import type { Clock } from "../values/clock.ts";
import { changeSources, type SourceOf } from "./change_sources.ts";
import type { EventLog, LogEvent, PublicState } from "./event_log.ts";
import { planChanges, type PlanInput } from "./plan_changes.ts";
import type { Tail } from "./tail.ts";

/** Options of {@linkcode Publisher}. */
interface PublisherOptions {
  rollout: Pick<
    Rollout,
    | "isAnnounced"
    | "role"
    | "configurations"
    | "claimCommit"
    | "rollback"
  >;
  eventLog: EventLog;
  tail: Tail;
  /** Where this process runs. */
  place: string;
  /** Holds the variables that snapshots were built from. */
  store: Pick<Store, "get" | "list" | "prefixBytes">;
  clock: Clock;
  /** Returns a number in [0, 1). */
  random: () => number;
  log: Log;
  metrics: Metrics;
}

/** A snapshot that could not be published. */
interface Waiting {
  readonly snapshot: Snapshot;
  /** When, in milliseconds since the Unix epoch. If a change waited already, since then. */
  readonly since: number;
}

/**
 * Publishes this process's snapshots while their configuration is the active one (`docs/rollouts.md`): it appends
 * events that make the public state in the store equal to them.
 *
 * It compares with the store, not with what this process has published before. So a change made while the gateway was
 * down is published when it starts, and if several replicas see the same change, one publishes it. Each commit of events
 * checks the version of the stored variables that the snapshot was built from, so that no replica publishes an older state
 * over a newer one. Commits that only delete outdated events check nothing but the head.
 *
 * A snapshot has been published, or it is superseded by another configuration, or it waits: the store fails, failed when
 * the snapshot was read, or has variables that are newer than it. What was committed until then is valid as it is. While
 * a snapshot waits, `BackgroundTasks` has everything read and published again, and pages and streams keep what is
 * published.
 */
export class Publisher {
  readonly #options: PublisherOptions;
  /** The last snapshot that was published or superseded. */
  #settled = EMPTY_SNAPSHOT;
  /** The last snapshot, if it waits. */
  #waiting: Waiting | undefined;
  /** Names that open pages may have (`true`) or lack, although that was never published. */
  #inPages = new Map<string, boolean>();

  constructor(options: PublisherOptions) {
    this.#options = options;
  }

  /** Whether the last snapshot waits, so that it has to be read and published again. */
  get isWaiting(): boolean {
    return this.#waiting !== undefined;
  }

  /**
   * Since when a change of PUBLIC values waits, in milliseconds since the Unix epoch; `undefined` if none does: the values
   * are those in the log, or another configuration is active.
   */
  get changeWaitsSince(): number | undefined {
    const { rollout, tail } = this.#options;
    const waiting = this.#waiting;
    if (waiting === undefined) return undefined;
    if (rollout.isAnnounced && rollout.role !== "active") return undefined;
    const { snapshot, since } = waiting;
    return isEqualMap(snapshot.public, tail.publicValues) ? undefined : since;
  }

  /**
   * Publishes a snapshot. It never rejects, and is not called again before it returns: of two publications at once, the
   * older could be written last.
   *
   * @returns Whether a change of PUBLIC values waits.
   */
  async publish(snapshot: Snapshot): Promise<boolean> {
    this.#notePages(snapshot);
    let failure: string | undefined;
    try {
      const attempt = () => this.#tryToCommit(snapshot);
      const outcome = await retryConflicts(attempt, this.#options);
      if (outcome === "published") this.#inPages.clear();
      else this.#notePages(snapshot); // by now it is known whether the process stands apart
      if (outcome !== "waits") {
        this.#settled = snapshot;
        this.#waiting = undefined;
        return false;
      }
    } catch (error) {
      failure = messageOf(error);
    }
    const isNew = snapshot.publicHash !== this.#waiting?.snapshot.publicHash;
    const since = this.changeWaitsSince ?? this.#options.clock.now();
    this.#waiting = { snapshot, since };
    const isWaiting = this.changeWaitsSince !== undefined;
    const isError = failure !== undefined && isWaiting && isNew;
    this.#logWaiting(isError ? "error" : "debug", failure);
    return isWaiting;
  }

  /**
   * Notes what pages of this process show from now on, and no comparison with the log will find: if it is taken back before
   * anything could be published, the log has never changed, and these pages would keep it.
   */
  #notePages(snapshot: Snapshot): void {
    const { rollout, tail: { head, publicValues } } = this.#options;
    const haveOwnValues = head === 0 || rollout.role === "apart"; // see `PublishedPageValues`
    for (const name of haveOwnValues ? snapshot.public.keys() : []) {
      this.#inPages.set(name, true);
    }
    // Pages leave out at once what is hidden.
    for (const name of publicValues.keys()) {
      if (isHidden(snapshot, name)) this.#inPages.set(name, false);
    }
  }

  /** @returns `undefined` if another process has written in the meantime, so that this has to be repeated. */
  async #tryToCommit(
    target: Snapshot,
  ): Promise<"published" | "superseded" | "waits" | undefined> {
    const { storedVersion, rankAtRead } = target;
    const { rollout, store } = this.#options;
    if (storedVersion === undefined) {
      throw new Error(
        "Cannot publish: the variables in the store have not been read yet",
      );
    }
    const fencing = await rollout.claimCommit(target);
    if (fencing === undefined) return undefined;
    if (rankAtRead === undefined) return "waits"; // what is published may be newer
    if (fencing === "superseded") return "superseded";
    const variables = { key: VARIABLES_HEAD_KEY, version: storedVersion };
    const checks = [...fencing, variables];
    if (await this.#commitChanges(target, checks)) return "published";
    // If the variables in the store have been written, further attempts cannot resolve the conflict.
    const stored = await store.get(VARIABLES_HEAD_KEY);
    return (stored?.version ?? null) === storedVersion ? undefined : "waits";
  }

  /** @returns Whether the log matches the target; otherwise, another process has written in the meantime. */
  async #commitChanges(
    target: Snapshot,
    checks: readonly Check[],
  ): Promise<boolean> {
    const { eventLog, tail } = this.#options;
    const delivered = tail.newestOfAll;
    const input = { target, delivered, inPages: this.#inPages };
    let state = await this.#stateToChange(input);
    const { changes, afterId } = planChanges(state, input);
    if (changes.length === 0) {
      await tail.readUpTo(state.head?.value.id ?? 0);
      return true;
    }
    const leaving = changes.filter(({ leavesPublic }) => leavesPublic)
      .map(({ name }) => name);
    // This comes first: if the process ends before the rest, the next attempt repeats it. After a change of the log,
    // the target is compared again, and nothing is left to delete; if the state is stale, the commit's check fails.
    if (await eventLog.deleteValues(new Set(leaving), state)) {
      return await this.#commitChanges(target, checks);
    }
    const sourceOf = await this.#sourcesOf(target);
    const explained = changes.map((change) => ({
      ...change,
      cause: sourceOf(change.name).cause,
    }));
    const events: LogEvent[] = [];
    try {
      for (const batch of batches(explained, this.#options.store.prefixBytes)) {
        const options = { checks, afterId };
        const appended = await eventLog.append(batch, state, options);
        if (appended === undefined) return false;
        events.push(...appended.events);
        state = appended.state;
      }
      await eventLog.compact(state);
      await tail.readUpTo(state.head?.value.id ?? 0);
      return true;
    } finally {
      this.#logEvents(events, sourceOf); // whatever became of the rest
    }
  }

  /**
   * Returns the state that this process knows if the target differs from it: if another process has written since, the
   * commit fails. Only a read makes certain that there is nothing to commit.
   */
  async #stateToChange(input: PlanInput): Promise<PublicState> {
    const { eventLog, tail } = this.#options;
    const known = eventLog.knownState(tail.head);
    const hasChanges = known !== undefined &&
      planChanges(known, input).changes.length > 0;
    return hasChanges ? known : await eventLog.state();
  }

  #logWaiting(
    level: "error" | "debug",
    failure = "the store may be newer; reading everything again",
  ): void {
    const { log, rollout } = this.#options;
    log[level]("rep.config.not_published", {
      ...rollout.configurations,
      detail: `${failure}; retrying`,
    });
  }

  /** Values are published even if nobody can tell who changed them. */
  async #sourcesOf(target: Snapshot): Promise<SourceOf> {
    const { store, rollout, place } = this.#options;
    return await changeSources(store, {
      target,
      before: this.#settled,
      isRollback: rollout.rollback?.isReload === false, // the source of a reload is known
      place,
    }).catch(() => () => ({}));
  }

  #logEvents(events: readonly LogEvent[], sourceOf: SourceOf): void {
    const { log, metrics } = this.#options;
    if (events.length > 0) metrics.count("rep.events.published", events.length);
    for (const { name, value, id } of events) {
      const action = value === undefined ? "delete" : "update";
      const { logged } = sourceOf(name);
      const fields = { key: name, tier: "public", action, id, ...logged };
      log.info("rep.config.changed", fields);
    }
  }
}
