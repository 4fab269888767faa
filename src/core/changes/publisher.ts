import { VARIABLES_HEAD_KEY } from "../config/stored/stored_variables.ts";
import { EMPTY_SNAPSHOT, type Snapshot } from "../config/variables/snapshot.ts";
import { type Log, messageOf } from "../observe/log.ts";
import type { Metrics } from "../observe/metrics.ts";
import { type Rollout, StandsApartError } from "../rollout/rollout.ts";
import { batches, retryConflicts } from "../store/commits.ts";
import {
  type Check,
  type Store,
  StoreUnavailableError,
} from "../store/store.ts";
import type { Clock } from "../values/clock.ts";
import type { Change, EventLog, LogEvent, PublicState } from "./event_log.ts";
import type { Tail } from "./tail.ts";

/** Options of {@linkcode Publisher}. */
interface PublisherOptions {
  rollout: Pick<Rollout, "isActive" | "configurations" | "announce">;
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

/** The variables to publish, and the names in the other tiers. */
export type PublicTarget = Pick<Snapshot, "public" | "sensitive" | "server">;

/**
 * Why the target is not published yet: the store has failed, or variables in it were written after they had been read
 * for the target, and have to be read again.
 */
type Obstacle = "failure" | "outdated";

/**
 * How a publication ends unless it fails: with the id of the event up to which the log matches the target; because
 * another configuration is active; or because variables in the store were written after they had been read for it.
 */
type Outcome = number | "superseded" | "outdated";

const OUTDATED =
  "the variables in the store have been written since they were read; reading them again";

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
 * publication every few seconds, and when the store is available again.
 *
 * What has become of the target, the snapshot to be published:
 *
 * | its last publication                            | `#obstacle` | `#settled`  | pages have                        |
 * | ----------------------------------------------- | ----------- | ----------- | --------------------------------- |
 * | has committed it, or found nothing to commit    | none        | the target  | the published values, which match |
 * | found it superseded: another one is active      | none        | the target  | the published values              |
 * | was stopped by newer variables in the store     | `outdated`  | an earlier  | the published values, until       |
 * |                                                 |             | one         | a reload brings the next target   |
 * | failed with the store, or since it stands apart | `failure`   | an earlier  | its own values (`#isServed`),     |
 * |                                                 |             | one         | until a retry publishes them      |
 *
 * A target with the state of the settled one, as after a reload that has changed no PUBLIC value, waits for nothing. If
 * pages had the values of a target without an event, and it is replaced, the names that differ are `#unpublished`: they
 * get an event with the next publication even if the store has their values already.
 */
export class Publisher {
  readonly #options: PublisherOptions;
  #target = EMPTY_SNAPSHOT;
  /** The last target that was published or superseded. */
  #settled = EMPTY_SNAPSHOT;
  /** Why the last publication did not succeed. */
  #obstacle: Obstacle | undefined;
  /** Whether pages have had the target's values without an event, because the store failed. */
  #isServed = false;
  /**
   * The names whose values pages may have without an event: they were served, and replaced before they were published.
   */
  #unpublished: ReadonlySet<string> = new Set();
  #cursor = 0;
  #queue: Promise<void> = Promise.resolve();
  #isClosed = false;

  constructor(options: PublisherOptions) {
    this.#options = options;
  }

  /**
   * The id of the newest event that the snapshot contains, from which its pages follow the log. It may lag behind the
   * snapshot: a page then receives events that it already contains, but misses none.
   */
  get cursor(): number {
    return this.#cursor;
  }

  /** Whether the target was built from variables in the store that have changed since: they have to be read again. */
  get isOutdated(): boolean {
    return this.#obstacle === "outdated";
  }

  /** Whether the values of a snapshot have not been published because the store failed. */
  isWaiting(snapshot: Snapshot): boolean {
    return this.#obstacle === "failure" &&
      snapshot.state !== this.#settled.state;
  }

  /**
   * Publishes a snapshot. It returns even if the store fails: pages then have the new values, and streams get them with
   * the next {@linkcode retry}.
   *
   * @returns Whether no value waits for the next retry. None does while another configuration is active: a failure is
   * then no error, since nobody misses a change.
   */
  async publish(target: Snapshot): Promise<boolean> {
    const isNew = target.deployment !== this.#target.deployment ||
      target.state !== this.#target.state;
    this.#replaceTarget(target);
    await this.#enqueue(isNew ? "error" : "debug");
    return this.#obstacle === undefined ||
      target.state === this.#settled.state;
  }

  /** Repeats the last publication if it has failed. What it has committed until then is published already. */
  async retry(): Promise<void> {
    if (this.#obstacle !== undefined) await this.#enqueue("debug");
  }

  /** Called when another configuration becomes active. If it is this process's own, it is published again. */
  followRollout(): void {
    if (this.#options.rollout.isActive) void this.#enqueue("error");
  }

  /** Waits for a publication that is under way. No other begins. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#queue;
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

  /** Publishes the target, one publication at a time: of two at once, the older could be written last. */
  #enqueue(level: "error" | "debug"): Promise<void> {
    this.#queue = this.#queue.then(() => this.#publishTarget(level));
    return this.#queue;
  }

  /**
   * Commits what differs from the target, if its configuration is active. It never rejects.
   *
   * @param level At which a failure is logged.
   */
  async #publishTarget(level: "error" | "debug"): Promise<void> {
    if (this.#isClosed) return;
    const target = this.#target;
    const unpublished = this.#unpublished;
    try {
      const outcome = await retryConflicts(
        () => this.#tryToCommit(target, unpublished),
        this.#options,
      );
      if (outcome === "outdated") {
        this.#obstacle = outcome;
        this.#logFailure(OUTDATED, "debug");
        return;
      }
      await this.#options.tail.readNew();
      this.#obstacle = undefined;
      this.#settled = target;
      this.#isServed = false;
      if (outcome === "superseded") return;
      this.#unpublished = this.#unpublished.difference(unpublished);
      this.#cursor = outcome;
    } catch (error) {
      this.#obstacle = "failure";
      this.#isServed ||= this.isWaiting(this.#target);
      const isReported = error instanceof StandsApartError; // by the rollout, if it is a fault
      this.#logFailure(messageOf(error), isReported ? "debug" : level);
    }
  }

  /** @returns `undefined` if another process has written in the meantime, so that this has to be repeated. */
  async #tryToCommit(
    target: Snapshot,
    unpublished: ReadonlySet<string>,
  ): Promise<Outcome | undefined> {
    const { storedVersion } = target;
    if (storedVersion === undefined) {
      throw new StoreUnavailableError(
        "Cannot publish: the variables in the store have not been read yet",
      );
    }
    const fencing = await this.#options.rollout.announce(target);
    if (fencing === undefined || fencing === "superseded") return fencing;
    const variables = { key: VARIABLES_HEAD_KEY, version: storedVersion };
    const checks = [...fencing, variables];
    const head = await this.#commitChanges(target, checks, unpublished);
    if (head !== undefined) return head;
    // If the variables in the store have been written, further attempts cannot resolve the conflict.
    const stored = await this.#options.store.get(VARIABLES_HEAD_KEY);
    const isOutdated = (stored?.version ?? null) !== storedVersion;
    return isOutdated ? "outdated" : undefined;
  }

  /** @returns The id up to which the log matches the target; otherwise as {@linkcode #tryToCommit}. */
  async #commitChanges(
    target: Snapshot,
    checks: readonly Check[],
    unpublished: ReadonlySet<string>,
  ): Promise<number | undefined> {
    const { eventLog, tail } = this.#options;
    const input = { target, delivered: tail.state, unpublished };
    let state = await this.#stateToChange(input);
    const { changes, afterId } = planChanges(state, input);
    const leaving = changes.filter(({ leavesPublic }) => leavesPublic);
    const names = new Set(leaving.map(({ name }) => name));
    // This comes first: if the process ends before the rest, the next attempt repeats it. After a change of the log,
    // the target is compared again, and nothing is left to delete.
    if (await eventLog.deleteValues(names, state)) {
      return await this.#commitChanges(target, checks, unpublished);
    }
    for (const batch of batches(changes)) {
      const appended = await eventLog.append(batch, state, { checks, afterId });
      if (appended === undefined) return undefined;
      this.#logEvents(appended.events);
      state = appended.state;
    }
    if (changes.length > 0) await eventLog.compact(state);
    return state.head?.value.id ?? 0;
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
    const { configurations } = this.#options.rollout;
    const isActive = configurations.configuration === configurations.active;
    const effect = isActive
      ? ""
      : "the previous configuration stays active until this succeeds; ";
    const detail = `${effect}${reason}; retrying`;
    this.#options.log[level]("rep.config.not_published", {
      ...configurations,
      detail,
    });
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

/** What {@linkcode planChanges} compares with the state in the store. */
interface PlanInput {
  readonly target: PublicTarget;
  /**
   * The newest event of each variable that this process has delivered, in order. Clients may have them although the
   * store has lost them, for example in a failover to a replica that lagged behind, or may have any other lost event of
   * the same variable.
   */
  readonly delivered: readonly Pick<LogEvent, "id" | "name">[];
  /** Names whose values pages may have although no event ever had them. */
  readonly unpublished: ReadonlySet<string>;
}

/**
 * Returns the changes that make the state in the store equal to the target (endpoint specification, Stream events:
 * updates first, then deletions, sorted by name), and the id that their ids have to exceed. If clients may have a value
 * that is not in the store, its variable gets an event even if its state is already that of the target.
 */
function planChanges(
  state: PublicState,
  { target, delivered, unpublished }: PlanInput,
): { changes: readonly Change[]; afterId: number } {
  const headId = state.head?.value.id ?? 0;
  const lost = delivered.filter(({ id }) => id > headId);
  const names = new Set([
    ...updatedNames(state, target),
    ...deletedNames(state, target),
    ...lost.map(({ name }) => name),
    ...unpublished,
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
