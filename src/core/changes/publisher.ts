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
import type { Change, EventLog, LogEvent, PublicState } from "./event_log.ts";
import { changeSources, type SourceOf } from "./change_sources.ts";
import type { Tail } from "./tail.ts";

/** Options of {@linkcode Publisher}. */
interface PublisherOptions {
  rollout: Pick<
    Rollout,
    | "highestRank"
    | "isAnnounced"
    | "isSuperseded"
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

/** The last snapshot that was published or superseded. */
interface Settled {
  readonly snapshot: Snapshot;
  /** The highest rank when it was published; `undefined` if it was superseded. */
  readonly publishedAt: number | undefined;
}

/** The variables to publish, and the names in the other tiers. */
export type PublicTarget = Pick<Snapshot, "public" | "sensitive" | "server">;

/**
 * Publishes this process's snapshots while their configuration is the active one (`docs/rollouts.md`): it appends
 * events that make the public state in the store equal to them.
 *
 * It compares with the store, not with what this process has published before. So a change made while the gateway was
 * down is published when it starts, and if several replicas see the same change, one publishes it. Each commit checks
 * the version of the stored variables that the snapshot was built from, so that no replica publishes an older state
 * over a newer one.
 *
 * A snapshot has been published, or it is superseded by another configuration, or it waits: the store fails, failed when
 * the snapshot was read, or has variables that are newer than it. What was committed until then is valid as it is. While
 * a snapshot waits, `BackgroundTasks` has everything read and published again, and pages and streams keep what is
 * published.
 */
export class Publisher {
  readonly #options: PublisherOptions;
  #settled: Settled = { snapshot: EMPTY_SNAPSHOT, publishedAt: undefined };
  /** The last snapshot, if it waits. */
  #waiting: Snapshot | undefined;
  /** Since when a change waits, if one does. */
  #waitsSince = 0;
  /** Names whose values in open pages may differ from the published ones: each gets an event (`#noteUnsure`). */
  #unsure: ReadonlySet<string> = new Set();

  constructor(options: PublisherOptions) {
    this.#options = options;
  }

  /** Whether the last snapshot waits, so that it has to be read and published again. */
  get isWaiting(): boolean {
    return this.#waiting !== undefined;
  }

  /**
   * Since when a change of PUBLIC values waits, in milliseconds since the Unix epoch; `undefined` if none does. After a
   * restart, the values may be those in the log.
   */
  get changeWaitsSince(): number | undefined {
    const waiting = this.#waiting;
    const waits = waiting !== undefined && this.#isMissed(waiting) &&
      !isEqualMap(waiting.public, this.#options.tail.publicValues);
    return waits ? this.#waitsSince : undefined;
  }

  /** Whether anybody misses a snapshot that could not be published: not while another configuration is active. */
  #isMissed({ publicHash }: Snapshot): boolean {
    const { highestRank, isAnnounced, isSuperseded } = this.#options.rollout;
    if (isAnnounced && isSuperseded) return false;
    const { snapshot, publishedAt } = this.#settled;
    const mayDiffer = highestRank !== publishedAt; // another one has been active since
    return mayDiffer || publicHash !== snapshot.publicHash;
  }

  /**
   * Publishes a snapshot. It never rejects, and is not called again before it returns: of two publications at once, the
   * older could be written last.
   *
   * @returns Whether no change of PUBLIC values waits, even if the snapshot does.
   */
  async publish(snapshot: Snapshot): Promise<boolean> {
    const waiting = this.#waiting;
    this.#noteUnsure(snapshot, waiting ?? this.#settled.snapshot);
    try {
      const outcome = await retryConflicts(
        () => this.#tryToCommit(snapshot),
        this.#options,
      );
      if (outcome !== "waits") {
        if (outcome.publishedAt !== undefined) this.#unsure = new Set();
        this.#settled = outcome;
        this.#waiting = undefined;
        return true;
      }
      const detail = "the store may be newer; reading everything again";
      this.#logWaiting("debug", detail);
    } catch (error) {
      const isNew = snapshot.publicHash !== waiting?.publicHash;
      const isError = isNew && this.#isMissed(snapshot);
      this.#logWaiting(isError ? "error" : "debug", messageOf(error));
    }
    this.#waitsSince = this.changeWaitsSince ?? this.#options.clock.now();
    this.#waiting = snapshot;
    return !this.#isMissed(snapshot);
  }

  /** Notes what no comparison with the store will find. */
  #noteUnsure(snapshot: Snapshot, before: Snapshot): void {
    const { head, publicValues } = this.#options.tail;
    // While a snapshot waits, pages of this process already lack names that are hidden in it: if such a name is PUBLIC
    // again before anything could be published, with the same value, those pages would never get it.
    const lacking = publicValues.keys().filter((name) =>
      isHidden(snapshot, name)
    );
    // While the log is empty, pages have the process's own values: if a name is gone before anything could be published,
    // they would never lose it.
    const gone = before.public.keys()
      .filter((name) => head === 0 && !snapshot.public.has(name));
    this.#unsure = new Set([...this.#unsure, ...lacking, ...gone]);
  }

  /** @returns `undefined` if another process has written in the meantime, so that this has to be repeated. */
  async #tryToCommit(
    target: Snapshot,
  ): Promise<Settled | "waits" | undefined> {
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
    if (fencing === "superseded") {
      return { snapshot: target, publishedAt: undefined };
    }
    const variables = { key: VARIABLES_HEAD_KEY, version: storedVersion };
    const checks = [...fencing, variables];
    if (await this.#commitChanges(target, checks)) {
      return { snapshot: target, publishedAt: rollout.highestRank };
    }
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
    const input = { target, delivered, unsure: this.#unsure };
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

  #logWaiting(level: "error" | "debug", detail: string): void {
    const { log, rollout } = this.#options;
    log[level]("rep.config.not_published", {
      ...rollout.configurations,
      detail: `${detail}; retrying`,
    });
  }

  /** Values are published even if nobody can tell who changed them. */
  async #sourcesOf(target: Snapshot): Promise<SourceOf> {
    const { store, rollout, place } = this.#options;
    return await changeSources(store, {
      target,
      before: this.#settled.snapshot,
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

/** What {@linkcode planChanges} compares with the state in the store. */
interface PlanInput {
  readonly target: PublicTarget;
  /**
   * The newest event of each variable that this process has delivered, in order. Clients may have them although the
   * store has lost them, for example in a failover to a replica that lagged behind, or may have any other lost event of
   * the same variable.
   */
  readonly delivered: readonly Pick<LogEvent, "id" | "name">[];
  /** Names whose values in open pages may differ from the published state; see {@linkcode Publisher}. */
  readonly unsure: ReadonlySet<string>;
}

/**
 * Returns the changes that make the state in the store equal to the target (endpoint specification, Stream events:
 * updates first, then deletions, sorted by name), and the id that their ids have to exceed. If clients may have a value
 * that is not in the store, or lack one, its variable gets an event even if its state is already that of the target.
 */
function planChanges(
  state: PublicState,
  { target, delivered, unsure }: PlanInput,
): { changes: readonly Change[]; afterId: number } {
  const headId = state.head?.value.id ?? 0;
  const lost = delivered.filter(({ id }) => id > headId);
  const names = new Set([
    ...updatedNames(state, target),
    ...deletedNames(state, target),
    ...lost.map(({ name }) => name),
    ...[...unsure].filter((name) =>
      target.public.has(name) || !state.newest.has(name)
    ),
  ]);
  const changes = Array.from(names, (name) => changeTo(target, name));
  return { changes, afterId: lost.at(-1)?.id ?? 0 };
}

function updatedNames({ newest }: PublicState, target: PublicTarget): string[] {
  const updated = [...target.public].filter(([name, value]) =>
    newest.get(name)?.value !== value
  );
  return updated.map(([name]) => name).sort();
}

function deletedNames({ newest }: PublicState, target: PublicTarget): string[] {
  const deleted = [...newest.values()].filter((event) =>
    isToBeDeleted(event, target)
  );
  return deleted.map(({ name }) => name).sort();
}

/**
 * A variable that was deleted before it became SENSITIVE or SERVER is deleted once more: its old values are still in
 * the log and in the tail of every process, which all drop them when an event says that the variable leaves the PUBLIC
 * tier.
 */
function isToBeDeleted(
  { name, value, leavesPublic }: LogEvent,
  target: PublicTarget,
): boolean {
  if (value !== undefined) return !target.public.has(name);
  return !leavesPublic && isHidden(target, name);
}

/**
 * Returns the event after which every client has the value of the target, and no process has another value in memory if
 * the variable is not PUBLIC.
 */
function changeTo(target: PublicTarget, name: string): Change {
  return {
    name,
    value: target.public.get(name),
    leavesPublic: isHidden(target, name),
  };
}
