import { VARIABLES_HEAD_KEY } from "../config/stored/stored_variables.ts";
import {
  EMPTY_SNAPSHOT,
  isEqualMap,
  type Snapshot,
} from "../config/variables/snapshot.ts";
import { type Log, messageOf } from "../observe/log.ts";
import type { Metrics } from "../observe/metrics.ts";
import type { Rollout } from "../rollout/rollout.ts";
import { batches, retryConflicts } from "../store/commits.ts";
import {
  type Check,
  type Store,
  StoreUnavailableError,
} from "../store/store.ts";
import type { Clock } from "../values/clock.ts";
import { SerialQueue } from "../values/serial_queue.ts";
import type { Change, EventLog, LogEvent, PublicState } from "./event_log.ts";
import { changeSources } from "./change_sources.ts";
import type { Tail } from "./tail.ts";

/** Options of {@linkcode Publisher}. */
interface PublisherOptions {
  rollout: Pick<
    Rollout,
    | "isActive"
    | "configurations"
    | "claimCommit"
    | "rollback"
  >;
  eventLog: EventLog;
  tail: Tail;
  /** Holds the variables that snapshots were built from. */
  store: Pick<Store, "get" | "list" | "prefixBytes">;
  clock: Clock;
  /** Returns a number in [0, 1). */
  random: () => number;
  log: Log;
  metrics: Metrics;
}

/** The variables to publish, and the names in the other tiers. */
export type PublicTarget = Pick<Snapshot, "public" | "sensitive" | "server">;

/**
 * How a publication ends:
 *
 * | outcome      | because                                                                | what follows          |
 * | ------------ | ---------------------------------------------------------------------- | --------------------- |
 * | `published`  | the log matches the target                                             | nothing               |
 * | `superseded` | another configuration is active                                        | nothing               |
 * | `outdated`   | the variables in the store have changed since they were read            | a reload, then a retry |
 * | `apart`      | the process stands apart: the values in the log may be of another app  | a retry               |
 * | `failed`     | the store fails                                                        | a retry               |
 */
type Outcome = "published" | "superseded" | "outdated" | "apart" | "failed";

const NO_NAMES: ReadonlySet<string> = new Set();

/** Why a target is not published although the store works. */
const OBSTACLES = {
  outdated:
    "variables in the store have changed since they were read; reading them again",
  apart: "a gateway on the same store may be of another app",
};

/**
 * Publishes this process's snapshots while their configuration is the active one (`docs/rollouts.md`): it appends
 * events that make the public state in the store equal to them.
 *
 * It compares with the store, not with what this process has published before. So a change made while the gateway was
 * down is published when it starts, and if several replicas see the same change, one publishes it. Each commit checks
 * the version of the stored variables that the snapshot was built from, so that no replica publishes an older state
 * over a newer one.
 *
 * If the store fails during a publication, every operation fails at once until the store is back (`CircuitBreaker`).
 * What was committed is valid as it is, since the next attempt compares with the store again. The gateway repeats the
 * publication every few seconds, and when the store is available again. Until then, pages and streams keep what is
 * published, except for the {@linkcode withdrawn} names.
 */
export class Publisher {
  /** Called when the target is outdated: everything has to be read again. */
  onOutdated: () => void = () => {};
  readonly #options: PublisherOptions;
  /** The snapshot to be published. */
  #target = EMPTY_SNAPSHOT;
  /** The last target that was published or superseded. */
  #lastSettled = EMPTY_SNAPSHOT;
  #outcome: Outcome = "published";
  /**
   * Names that open pages may lack although they are published, since they were not PUBLIC in a target that was not
   * published; or that they may have although they never were, since pages have the process's own values while the log is
   * empty. Each gets an event even if the store has its value or knows nothing of it. With one variable, A:
   *
   * | what happens                           | this field | {@linkcode withdrawn}       |
   * | -------------------------------------- | ---------- | --------------------------- |
   * | A is PUBLIC and published              | none       | none                        |
   * | A becomes SERVER while the store fails | A          | A: new pages do not have it |
   * | A is PUBLIC again, with the same value | A          | none: new pages have it     |
   * | the store works: A gets an event       | none       | none                        |
   *
   * | what happens                                         | this field |
   * | ---------------------------------------------------- | ---------- |
   * | A is PUBLIC, and the log is empty: pages have it     | none       |
   * | A is removed before anything could be published      | A          |
   * | the store works: an event says that A was deleted    | none       |
   */
  #mayDifferInPages = NO_NAMES;
  /** Of two publications at once, the older could be written last. */
  readonly #queue = new SerialQueue();
  #isClosed = false;

  constructor(options: PublisherOptions) {
    this.#options = options;
  }

  /** Whether other PUBLIC values could not be published. */
  get #hasUnpublishedChange(): boolean {
    return this.#outcome === "failed" && this.#hasChange;
  }

  /** Whether the target has other PUBLIC values than the last one that was published or superseded. */
  get #hasChange(): boolean {
    return this.#target.publicHash !== this.#lastSettled.publicHash;
  }

  get #needsNoRetry(): boolean {
    return this.#outcome === "published" || this.#outcome === "superseded";
  }

  /** Whether the target was built from variables that may have changed since: they have to be read again. */
  get isOutdated(): boolean {
    return this.#outcome === "outdated";
  }

  /** Whether a change of PUBLIC values waits for the store. After a restart, the values may be those in the log. */
  get isWaiting(): boolean {
    const { tail } = this.#options;
    return this.#hasUnpublishedChange &&
      !isEqualMap(this.#target.public, tail.publicValues);
  }

  /**
   * Whether another configuration is active, and no change of this process will replace it. A reload without a change
   * makes no difference, also if the store fails.
   */
  get isSuperseded(): boolean {
    const isSettled = this.#lastSettled !== EMPTY_SNAPSHOT && !this.#hasChange;
    return isSettled && !this.#options.rollout.isActive;
  }

  /**
   * Names that are published but not in the target, while that waits for the store. Pages do not have them. They have
   * them during any other publication, since other replicas may be ahead: nothing should come and go.
   */
  get withdrawn(): ReadonlySet<string> {
    return this.#hasUnpublishedChange ? this.#mayDifferInPages : NO_NAMES;
  }

  /**
   * Publishes a snapshot. It returns even if the store fails: it is then published by a later {@linkcode retry}.
   *
   * @returns Whether no value waits for the next retry. None does while another configuration is active: a failure is
   * then no error, since nobody misses a change.
   */
  async publish(target: Snapshot): Promise<boolean> {
    const isNew = target.configurationHash !== this.#target.configurationHash ||
      target.publicHash !== this.#target.publicHash;
    const isLogEmpty = this.#options.tail.head === 0;
    if (isLogEmpty) this.#noteMissing(this.#target, target);
    this.#target = target;
    this.#noteMissing(this.#lastSettled, target);
    await this.#enqueue(isNew ? "error" : "debug");
    return this.#needsNoRetry || !this.#hasChange;
  }

  /** Repeats the last publication if it has failed. What it has committed until then is published already. */
  async retry(): Promise<void> {
    if (!this.#needsNoRetry) await this.#enqueue("debug");
  }

  /** Called when another configuration becomes active. If it is this process's own, it is published again. */
  followRollout(): void {
    if (this.#options.rollout.isActive) void this.#enqueue("error");
  }

  /** Waits for a publication that is under way. No other begins. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#queue.settled();
  }

  /** Adds the names that a later target leaves out to those of earlier targets. */
  #noteMissing(before: PublicTarget, later: PublicTarget): void {
    const names = [...before.public.keys()];
    const gone = names.filter((name) => !later.public.has(name));
    this.#mayDifferInPages = new Set([...this.#mayDifferInPages, ...gone]);
  }

  #enqueue(level: "error" | "debug"): Promise<void> {
    return this.#queue.run(() => this.#publishTarget(level));
  }

  /**
   * Commits what differs from the target, if its configuration is active. It never rejects.
   *
   * @param level At which a failure is logged.
   */
  async #publishTarget(level: "error" | "debug"): Promise<void> {
    if (this.#isClosed) return;
    const target = this.#target;
    const mayDiffer = this.#mayDifferInPages;
    try {
      const outcome = await retryConflicts(
        () => this.#tryToCommit(target, mayDiffer),
        this.#options,
      );
      this.#outcome = outcome;
      if (outcome === "outdated") this.onOutdated();
      if (outcome === "outdated" || outcome === "apart") {
        return this.#logFailure(OBSTACLES[outcome], "debug");
      }
      this.#lastSettled = target;
      if (outcome === "published") {
        this.#mayDifferInPages = this.#mayDifferInPages.difference(mayDiffer);
      }
      this.#noteMissing(target, this.#target); // which may have replaced this one
    } catch (error) {
      this.#outcome = "failed";
      this.#logFailure(messageOf(error), level);
    }
  }

  /** @returns `undefined` if another process has written in the meantime, so that this has to be repeated. */
  async #tryToCommit(
    target: Snapshot,
    mayDiffer: ReadonlySet<string>,
  ): Promise<Outcome | undefined> {
    const { storedVersion } = target;
    if (storedVersion === undefined) {
      throw new StoreUnavailableError(
        "Cannot publish: the variables in the store have not been read yet",
      );
    }
    const { rollout } = this.#options;
    const fencing = await rollout.claimCommit(target);
    if (fencing === undefined || typeof fencing === "string") return fencing;
    const variables = { key: VARIABLES_HEAD_KEY, version: storedVersion };
    const checks = [...fencing, variables];
    if (await this.#commitChanges(target, checks, mayDiffer)) {
      return "published";
    }
    // If the variables in the store have been written, further attempts cannot resolve the conflict.
    const stored = await this.#options.store.get(VARIABLES_HEAD_KEY);
    const isOutdated = (stored?.version ?? null) !== storedVersion;
    return isOutdated ? "outdated" : undefined;
  }

  /** @returns Whether the log matches the target; otherwise, another process has written in the meantime. */
  async #commitChanges(
    target: Snapshot,
    checks: readonly Check[],
    mayDiffer: ReadonlySet<string>,
  ): Promise<boolean> {
    const { eventLog, tail } = this.#options;
    const input = { target, delivered: tail.newestOfAll, mayDiffer };
    let state = await this.#stateToChange(input);
    const { changes, afterId } = planChanges(state, input);
    const leaving = changes.filter(({ leavesPublic }) => leavesPublic);
    const names = new Set(leaving.map(({ name }) => name));
    // This comes first: if the process ends before the rest, the next attempt repeats it. After a change of the log,
    // the target is compared again, and nothing is left to delete.
    if (await eventLog.deleteValues(names, state)) {
      return await this.#commitChanges(target, checks, mayDiffer);
    }
    const events: LogEvent[] = [];
    try {
      for (const batch of batches(changes, this.#options.store.prefixBytes)) {
        const options = { checks, afterId };
        const appended = await eventLog.append(batch, state, options);
        if (appended === undefined) return false;
        events.push(...appended.events);
        state = appended.state;
      }
      if (changes.length > 0) await eventLog.compact(state);
      await tail.readUpTo(state.head?.value.id ?? 0);
      return true;
    } finally {
      // After the streams have the events, since it reads the history; and whatever became of the rest.
      if (events.length > 0) await this.#logEvents(events, target);
    }
  }

  /**
   * Returns the state that this process knows if the target differs from it: if it is outdated, the commit fails. Only
   * a read makes certain that there is nothing to commit.
   */
  async #stateToChange(input: PlanInput): Promise<PublicState> {
    const { eventLog, tail } = this.#options;
    const known = eventLog.knownState(tail.head);
    const hasChanges = known !== undefined &&
      planChanges(known, input).changes.length > 0;
    return hasChanges ? known : await eventLog.state();
  }

  #logFailure(reason: string, level: "error" | "debug"): void {
    const { log, rollout } = this.#options;
    log[level]("rep.config.not_published", {
      ...rollout.configurations,
      detail: `${reason}; retrying`,
    });
  }

  /** Logs what was published. A store that fails now must not keep it from the log. */
  async #logEvents(
    events: readonly LogEvent[],
    target: Snapshot,
  ): Promise<void> {
    const { log, metrics, store, rollout } = this.#options;
    metrics.count("rep.events.published", events.length);
    const { rollback } = rollout;
    const sourceOf = await changeSources(store, {
      target,
      before: this.#lastSettled,
      isRollback: rollback !== undefined &&
        (rollback.isLeftOver || !rollback.active.isReload), // the source of a reload is known
    }).catch(() => () => ({}));
    for (const { name, value, id } of events) {
      const action = value === undefined ? "delete" : "update";
      const fields = { key: name, tier: "public", action, id };
      log.info("rep.config.changed", { ...fields, ...sourceOf(name) });
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
  readonly mayDiffer: ReadonlySet<string>;
}

/**
 * Returns the changes that make the state in the store equal to the target (endpoint specification, Stream events:
 * updates first, then deletions, sorted by name), and the id that their ids have to exceed. If clients may have a value
 * that is not in the store, or lack one, its variable gets an event even if its state is already that of the target.
 */
function planChanges(
  state: PublicState,
  { target, delivered, mayDiffer }: PlanInput,
): { changes: readonly Change[]; afterId: number } {
  const headId = state.head?.value.id ?? 0;
  const lost = delivered.filter(({ id }) => id > headId);
  const names = new Set([
    ...updatedNames(state, target),
    ...deletedNames(state, target),
    ...lost.map(({ name }) => name),
    ...[...mayDiffer].filter((name) =>
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
  return !leavesPublic && isInOtherTier(name, target);
}

function isInOtherTier(
  name: string,
  { sensitive, server }: PublicTarget,
): boolean {
  return sensitive.has(name) || server.has(name);
}

/**
 * Returns the event after which every client has the value of the target, and no process has another value in memory if
 * the variable is not PUBLIC.
 */
function changeTo(target: PublicTarget, name: string): Change {
  return {
    name,
    value: target.public.get(name),
    leavesPublic: isInOtherTier(name, target),
  };
}
