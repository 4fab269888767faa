import { type Log, logTaskError } from "../observe/log.ts";
import { retryConflicts, type RetryOptions } from "../store/commits.ts";
import {
  type Check,
  type Store,
  StoreUnavailableError,
} from "../store/store.ts";
import {
  type Conflict,
  type ConflictType,
  findConflicts,
  findStrangers,
  type Self,
} from "./conflicts.ts";
import type { Epochs } from "../keys/epochs.ts";
import { ActiveLog } from "./active_log.ts";
import type { Ranked } from "./election.ts";
import { tryHeartbeat, tryMarkLeft } from "./heartbeat.ts";
import { isLive, type Observation, stateOf } from "./observation.ts";

/** Options of {@linkcode Rollout}. */
export interface RolloutOptions extends RetryOptions {
  /** Shared by all processes. Its operations must fail within a bounded time. */
  store: Store;
  /** Gets errors of scheduled heartbeats. */
  log: Log;
  /** A unique ID. */
  processId: string;
  /**
   * Identifies the one process that can run in a place, such as a host and port, so that its successor notices its death
   * sooner.
   */
  instanceId: string | undefined;
  /** The maximum number of processes with an entry for each configuration. */
  maxRepresentatives: number;
  /** Has the fingerprint of the master key, once it is known. */
  epochs: Pick<Epochs, "fingerprint">;
}

/** Thrown instead of publishing over the values of another app. */
export class StandsApartError extends Error {
  /** The name of the class. */
  override name = "StandsApartError";
}

const APART =
  "a gateway on the same store has none of the same PUBLIC variables: until either leaves, each serves its own values, " +
  "and neither publishes";

/** What is logged when a conflict begins. */
const CONFLICT_EVENTS: Readonly<Record<ConflictType, string>> = {
  other_app: "rep.rollout.other_app",
  other_master_key: "rep.rollout.other_master_key",
  clock_skew: "rep.rollout.clock_skew",
};

/** The maximum interval between heartbeats. */
const MEMBER_HEARTBEAT_MS = 5_000;
/** Keeps processes that started together from sending heartbeats together. */
const JITTER = 0.2;

/**
 * Makes a process a member of the rollout: decides which of several configurations with living processes is active. The
 * rules and their reasons are in `docs/development/rollouts.md`.
 */
export class Rollout {
  /** Called when another configuration becomes active, and when this process begins or ends to stand apart. */
  onActiveChange: () => void = () => {};
  readonly #options: RolloutOptions;
  readonly #activeLog: ActiveLog;
  /** What the last heartbeat announced. */
  #announced: Ranked | undefined;
  #observations: ReadonlyMap<string, Observation> = new Map();
  #observedAt: number | undefined;
  #hash: string | undefined;
  #names: readonly number[] | undefined;
  #needsKey = false;
  /** What the heartbeat of {@linkcode join} has found, until {@linkcode fencingChecks} uses it. */
  #unusedFencing: Check | undefined;
  /** Why the last heartbeat failed that found the store unavailable. */
  #outage = new StoreUnavailableError("Cannot announce the configuration");
  /** The hash of the configuration with the highest rank. */
  #elected: string | undefined;
  #standsApart = false;
  /** Since when there have been entries of strangers, by the monotonic clock. */
  #strangersSince: number | undefined;
  #conflicts: readonly Conflict[] = [];
  #queue: Promise<void> = Promise.resolve();
  #cancelHeartbeat: (() => void) | undefined;
  #hasLeft = false;

  constructor(options: RolloutOptions) {
    this.#options = options;
    this.#activeLog = new ActiveLog(options.log);
  }

  /** The hash of this process's configuration; `undefined` before {@linkcode join}. */
  get hash(): string | undefined {
    return this.#hash;
  }

  /** The hash of the active configuration; `undefined` before {@linkcode join}. */
  get active(): string | undefined {
    return this.#standsApart ? this.#hash : this.#elected;
  }

  /** Whether this process's configuration is active. */
  get isActive(): boolean {
    return this.active !== undefined && this.active === this.#hash;
  }

  /**
   * Whether a living process has other PUBLIC variables only, as one of another app, or the last before a rollout that
   * renames them all. Until either leaves, this process's own configuration is its active one, and is not published:
   * nobody can tell whose values the pages of the other are to have.
   */
  get standsApart(): boolean {
    return this.#standsApart;
  }

  /** What is wrong between this process and others. */
  get conflicts(): readonly Conflict[] {
    return this.#conflicts;
  }

  /** Whether a living replica has this master key, by its fingerprint. */
  hasMasterKey(fingerprint: string): boolean {
    const living = [...this.#observations.values()].filter(isLive);
    return living.some(({ member }) => member.keyFingerprint === fingerprint);
  }

  /** The members that this process knows, without a read of the store. */
  get members() {
    return [...this.#observations.values()].map((observation) => {
      const {
        id,
        member: { hash, rank, instanceId: place = id, heartbeatAt },
      } = observation;
      const state = id === this.#options.processId
        ? "this process"
        : stateOf(observation);
      return { hash, rank, place, state, heartbeatAt };
    });
  }

  /**
   * Announces the configuration of this process: at its start, and whenever it changes. Sends the first heartbeat and
   * schedules the others. If the store is unavailable, a later heartbeat announces it.
   *
   * @param hash Identifies the configuration, equal on all processes that have it.
   * @param names Identifies its PUBLIC variables ({@linkcode sampleNames}); without it, it is of the same app as any other.
   * @param needsKey Whether its pages need the master key, so that all replicas must have the same one.
   */
  join(
    hash: string,
    names?: readonly number[],
    needsKey = false,
  ): Promise<void> {
    return this.#enqueueUnlessLeft(async () => {
      const isAlone = this.#isAlone();
      this.#hash = hash;
      this.#names = names;
      this.#needsKey = needsKey;
      this.#cancelHeartbeat ??= this.#schedule();
      this.#unusedFencing = await this.#heartbeat({ isScheduled: false });
      if (this.#unusedFencing === undefined && isAlone) {
        this.#setActive(hash, this.#standsApart);
      }
    });
  }

  /**
   * Sends a heartbeat now.
   *
   * @returns Whether this process's configuration is active; if the store is unavailable, whether it was.
   */
  async refresh(): Promise<boolean> {
    await this.#enqueueUnlessLeft(async () =>
      void await this.#heartbeat({ isScheduled: false })
    );
    return this.isActive;
  }

  /**
   * Looks whether this process's configuration is still active, before a commit that only such a process may make: by a
   * heartbeat now, unless {@linkcode join} has just sent one.
   *
   * @returns The checks of that commit, which fail if a newer rollout has begun in the meantime; `undefined` if this
   * process's configuration is not active, or once it has left: it no longer sees newer rollouts.
   * @throws {StoreUnavailableError} If it could not be announced yet, so that nobody knows which one is to be active.
   * @throws {StandsApartError} While this process stands apart.
   */
  async fencingChecks(): Promise<readonly Check[] | undefined> {
    let fencing = this.#unusedFencing;
    this.#unusedFencing = undefined;
    await this.#enqueueUnlessLeft(async () => {
      fencing ??= await this.#heartbeat({ isScheduled: false });
    });
    if (this.#hasLeft) return undefined;
    if (fencing === undefined || this.#announced?.hash !== this.#hash) {
      throw this.#outage;
    }
    if (this.#standsApart) {
      throw new StandsApartError(
        "a gateway on the same store has none of the same PUBLIC variables",
      );
    }
    return this.isActive ? [fencing] : undefined;
  }

  /** Marks this process as having left, so that no other waits for it, and stops the heartbeats. */
  leave(): Promise<void> {
    this.#hasLeft = true;
    this.#cancelHeartbeat?.();
    if (this.#hash === undefined) return Promise.resolve(); // never joined
    return this.#enqueue(async () => {
      await this.#unlessUnavailable(() =>
        tryMarkLeft(this.#options.store, this.#options.processId)
      );
    });
  }

  /** Whether the active configuration is this process's alone; also true if it has not seen any other process. */
  #isAlone(): boolean {
    const others = [...this.#observations.values()].filter((member) =>
      member.id !== this.#options.processId && isLive(member)
    );
    return this.#elected === this.#hash &&
      others.every(({ member }) => member.hash !== this.#hash);
  }

  #schedule(): () => void {
    const { clock, random } = this.#options;
    return clock.after(
      MEMBER_HEARTBEAT_MS * (1 - JITTER * random()),
      () => void this.#scheduledHeartbeat(),
      true,
    );
  }

  async #scheduledHeartbeat(): Promise<void> {
    try {
      await this.#enqueueUnlessLeft(async () =>
        void await this.#heartbeat({ isScheduled: true })
      );
    } catch (error) {
      logTaskError(this.#options.log, "rollout")(error);
    } finally {
      if (!this.#hasLeft) this.#cancelHeartbeat = this.#schedule();
    }
  }

  #enqueueUnlessLeft(work: () => Promise<void>): Promise<void> {
    return this.#enqueue(async () => {
      if (!this.#hasLeft) await work();
    });
  }

  /** Runs one operation at a time. */
  #enqueue(work: () => Promise<void>): Promise<void> {
    const done = this.#queue.then(work);
    this.#queue = done.catch(() => {}); // the caller handles the rejection
    return done;
  }

  /** @returns `undefined` if the store is unavailable, and for a scheduled heartbeat, after which nothing is committed. */
  async #heartbeat(
    { isScheduled }: { isScheduled: boolean },
  ): Promise<Check | undefined> {
    const hash = this.#hash;
    if (hash === undefined) return undefined;
    const result = await this.#unlessUnavailable(() =>
      this.#tryHeartbeat(hash, isScheduled)
    );
    if (result === undefined) return undefined;
    this.#observations = result.observations;
    this.#observedAt = result.observedAt;
    this.#announced = { hash, rank: result.decision.rank };
    const self = this.#self;
    const strangers = findStrangers(self, this.#observations.values());
    this.#noteConflicts(self, strangers.length > 0);
    this.#setActive(result.decision.active, strangers.some(isLive));
    this.#activeLog.note(this);
    return result.fencing;
  }

  get #self(): Self {
    const { processId: id, epochs } = this.#options;
    const keyFingerprint = this.#needsKey ? epochs.fingerprint : undefined;
    return { id, names: this.#names, keyFingerprint };
  }

  /**
   * Logs each type of conflict when it begins. The time of strangers includes that of entries whose processes have ended:
   * an app that restarts does not start the clock again.
   */
  #noteConflicts(self: Self, hasStrangers: boolean): void {
    const { clock, log } = this.#options;
    const now = clock.monotonic();
    this.#strangersSince = hasStrangers
      ? this.#strangersSince ?? now
      : undefined;
    const strangersForMs = now - (this.#strangersSince ?? now);
    const observations = this.#observations.values();
    const conflicts = findConflicts(self, observations, strangersForMs);
    const known = new Set(this.#conflicts.map(({ type }) => type));
    this.#conflicts = conflicts;
    for (const { type, detail } of conflicts) {
      if (!known.delete(type)) log.error(CONFLICT_EVENTS[type], { detail });
    }
    for (const type of known) log.info("rep.rollout.conflict_ended", { type });
  }

  #tryHeartbeat(hash: string, isScheduled: boolean) {
    const { store, clock, instanceId, maxRepresentatives } = this.#options;
    const rank = this.#announced?.hash === hash
      ? this.#announced.rank
      : undefined;
    const sender = {
      ...this.#self,
      hash,
      rank,
      instanceId,
      previous: this.#observations,
      previousAt: this.#observedAt,
      isScheduled,
      maxRepresentatives,
    };
    return tryHeartbeat(store, sender, clock);
  }

  /** Retries conflicts. @returns `undefined` if the store is unavailable, which the circuit breaker reports. */
  async #unlessUnavailable<T>(
    work: () => Promise<T | undefined>,
  ): Promise<T | undefined> {
    try {
      return await retryConflicts(work, this.#options);
    } catch (error) {
      if (!(error instanceof StoreUnavailableError)) throw error;
      this.#outage = error;
      return undefined;
    }
  }

  #setActive(elected: string, standsApart: boolean): void {
    const { active } = this;
    const isSame = standsApart === this.#standsApart;
    this.#elected = elected;
    this.#standsApart = standsApart;
    if (standsApart && !isSame) {
      this.#options.log.info("rep.rollout.apart", { detail: APART });
    }
    if (!isSame || this.active !== active) {
      this.onActiveChange();
    }
  }
}
