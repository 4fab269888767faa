import type { Snapshot } from "../config/variables/snapshot.ts";
import type { Epochs } from "../keys/epochs.ts";
import { type Log, type LogFields, logTaskError } from "../observe/log.ts";
import { retryConflicts, type RetryOptions } from "../store/commits.ts";
import {
  type Check,
  type Store,
  StoreUnavailableError,
} from "../store/store.ts";
import { sleep, waitAtMost } from "../values/clock.ts";
import { SerialQueue } from "../values/serial_queue.ts";
import { Builds } from "./builds.ts";
import { Conflicts } from "./conflicts.ts";
import type { Role } from "./election.ts";
import {
  activeRevision,
  type Heartbeat,
  HIGHEST_RANK,
  markLeft,
  MEMBERS,
  rollbackOf,
  tryHeartbeat,
} from "./heartbeat.ts";
import { describeConfigurations, logChange } from "./heartbeat_log.ts";
import type { Rollback } from "./history.ts";
import {
  isLive,
  type Member,
  MEMBER_HEARTBEAT_MS,
  type Observation,
  observe,
  placeOf,
  type Self,
  stateOf,
} from "./observation.ts";
import { sampleNames } from "./strangers.ts";

/** Options of {@linkcode Rollout}. */
export interface RolloutOptions extends RetryOptions {
  /** Shared by all processes. Its operations must fail within a bounded time. */
  store: Store;
  /** Gets errors of scheduled heartbeats. */
  log: Log;
  /** A unique ID. */
  processId: string;
  /** Says where the process runs, such as a host and port. */
  instanceId: string | undefined;
  /** What the process was built from, such as a Git hash. */
  revision: string | undefined;
  /** The version of the gateway. */
  version: string;
  /** Returns the ID of the app's build that the process delivers; empty if it delivers none. */
  build: () => string;
  /** The maximum number of processes with an entry for each configuration and build. */
  maxRepresentatives: number;
  /** Knows the fingerprint of the master key, once it is loaded. */
  epochs: Pick<Epochs, "fingerprint">;
}

/**
 * What a process announces of a snapshot. Without PUBLIC names, it counts as the same app as every other process. With
 * SENSITIVE values, its pages need the master key, so all replicas must have the same one.
 */
export type Announcement = Pick<
  Snapshot,
  | "configurationHash"
  | "configurationNames"
  | "sensitive"
  | "newestWrite"
  | "rankAtRead"
>;

/** Keeps processes that started together from sending heartbeats together. */
const JITTER = 0.2;
/** How long the first page of a new build waits until the build is announced. */
const MAX_ANNOUNCEMENT_MS = 1_000;

/**
 * Makes a process a member of the rollout: decides which of several configurations with living processes is active. The
 * rules and their reasons are in `docs/development/rollouts.md`.
 */
export class Rollout {
  /**
   * Called when a heartbeat finds that another configuration has become active, or that this process begins or stops
   * standing apart. Callers of {@linkcode claimCommit} learn this from its result.
   */
  onActiveChange: () => void = () => {};
  /** Called after each scheduled heartbeat that has found out which members live. */
  onHeartbeat: () => void = () => {};
  /** Which builds the members deliver. */
  readonly builds: Builds;
  /** What is wrong between this process and others. */
  readonly conflicts: Conflicts;
  readonly #options: RolloutOptions;
  /** What the next heartbeat announces. */
  #own: Announcement | undefined;
  /** What the last heartbeat has announced and found. */
  #last: Heartbeat | undefined;
  readonly #queue = new SerialQueue();
  /** The next look at the members, until it begins. */
  #nextLook: Promise<void> | undefined;
  /** Whether this process has begun to stop. */
  #isStopping = false;
  /** Aborted when this process has left. */
  readonly #leaving = new AbortController();

  constructor(options: RolloutOptions) {
    this.#options = options;
    const { build: own, maxRepresentatives, clock, log } = options;
    this.builds = new Builds({ own, maxRepresentatives, clock });
    this.conflicts = new Conflicts({ clock, log });
  }

  /** The hash of the active configuration; `undefined` before the first heartbeat. */
  get active(): string | undefined {
    return this.#last?.decision.active;
  }

  /** The highest rank as of the last heartbeat; `undefined` before the first one. */
  get highestRank(): number | undefined {
    return this.#last?.highestRank;
  }

  /** Whether the last heartbeat has announced this process's configuration. */
  get isAnnounced(): boolean {
    const hash = this.#own?.configurationHash;
    return hash !== undefined && this.#last?.self.hash === hash;
  }

  /** What became of the configuration that the last heartbeat has announced; `undefined` before the first one. */
  get role(): Role | undefined {
    return this.#last?.decision.role;
  }

  /** Whether this process's configuration is active, at least for itself. */
  get isActive(): boolean {
    return this.isAnnounced && this.role !== "superseded";
  }

  /** The revision of the active configuration, if it is known. */
  get activeRevision(): string | undefined {
    return this.#last && activeRevision(this.#last);
  }

  /** What is known about the rollback, if the active configuration was active before. */
  get rollback(): Rollback | undefined {
    return this.#last && rollbackOf(this.#last);
  }

  /** This process's configuration and the active one, for the log; nothing before {@linkcode claimCommit}. */
  get configurations(): LogFields {
    if (this.#own === undefined || this.#last === undefined) return {};
    return describeConfigurations(this.#own.configurationHash, this.#last);
  }

  /** Whether a living replica uses this master key, by its fingerprint. */
  hasMasterKey(fingerprint: string): boolean {
    return this.#observations.some((it) =>
      isLive(it) && it.member.keyFingerprint === fingerprint
    );
  }

  /** The members that this process knows, without a read of the store. */
  get members() {
    return this.#observations.map((observation) => ({
      ...observation.member,
      place: placeOf(observation),
      state: observation.id === this.#options.processId
        ? "this process"
        : stateOf(observation),
    }));
  }

  /**
   * Reads the rank of the newest rollout, for whoever is about to read the sources of a configuration; `undefined` if the
   * store is unavailable.
   */
  async readHighestRank(): Promise<number | undefined> {
    try {
      const entry = await this.#options.store.get<number>(HIGHEST_RANK);
      return entry?.value ?? 0;
    } catch (error) {
      if (error instanceof StoreUnavailableError) return undefined;
      throw error;
    }
  }

  /**
   * Claims the right to make a commit that only a process with the active configuration may make: it announces the
   * configuration of this process by a heartbeat, from which follows which one is active. The first call schedules further
   * heartbeats, which announce it if the store is unavailable now.
   *
   * @returns The checks of that commit, which fail if a newer rollout has begun in the meantime; `superseded` if its
   * configuration is not active for all, also while it stands apart, and once it stops: it no longer sees newer rollouts;
   * `undefined` if another process wrote in the meantime, so that the caller has to repeat this, together with its commit.
   * @throws {StoreUnavailableError} If it cannot be announced, so nobody knows which one should be active.
   */
  async claimCommit(
    own: Announcement,
  ): Promise<readonly Check[] | "superseded" | undefined> {
    return await this.#queue.run(async () => {
      if (this.#isStopping) return "superseded";
      if (this.#own === undefined) void this.#sendHeartbeats();
      this.#own = own;
      const result = await this.#announce(own, false);
      if (result === undefined) return undefined;
      const mayCommit = this.role === "active" && !this.#isStopping;
      return mayCommit ? [result.rankCheck] : "superseded";
    });
  }

  /**
   * Follows a rollout that another process has begun: if the highest rank is not the known one, the members are read at
   * once instead of with the next scheduled heartbeat.
   *
   * @param highestRank The highest rank in the store.
   * @throws {StoreUnavailableError} If the members cannot be read; the next call repeats it.
   */
  async follow(highestRank: number): Promise<void> {
    if (highestRank === this.highestRank) return;
    await this.#heartbeat(false);
  }

  /** Whether no other process was living, and on time, when this one last observed the members. */
  get isAlone(): boolean {
    return !this.#others.some((other) => stateOf(other) === "living");
  }

  /** Announces the build that this process delivers, if it is another one, so that no page of it is told to be outdated. */
  async announceBuild(): Promise<void> {
    const { build, clock } = this.#options;
    const { self } = this.#last ?? {};
    if (self === undefined || self.build === build()) return;
    // In an outage, a later heartbeat announces it.
    await waitAtMost(MAX_ANNOUNCEMENT_MS, this.#heartbeat(false), clock);
  }

  /**
   * Looks at the members between two heartbeats. Calls share a look that has not begun.
   *
   * @throws {StoreUnavailableError} If the store is unavailable.
   */
  look(): Promise<void> {
    return this.#nextLook ??= this.#queue.run(async () => {
      this.#nextLook = undefined;
      await this.#observe();
    });
  }

  /**
   * Leaves the election, so that no other process waits for this one. Its entry says until {@linkcode leave} that it still
   * answers requests.
   */
  async stop(): Promise<void> {
    this.#isStopping = true;
    await this.#markLeft().catch(ignoreOutage);
  }

  /** Marks this process as one that answers no requests any more, and ends the heartbeats. */
  async leave(): Promise<void> {
    this.#isStopping = true;
    this.#leaving.abort();
    await this.#markLeft().catch(ignoreOutage);
  }

  async #markLeft(): Promise<void> {
    const { store, clock } = this.#options;
    await this.#queue.run(async () => {
      if (this.#last === undefined) return;
      const stopping = !this.#leaving.signal.aborted;
      await markLeft(store, this.#last, { stopping, now: clock.now() });
      await this.#observe();
    });
  }

  async #observe(): Promise<void> {
    const { store, clock } = this.#options;
    if (this.#last === undefined) return; // never joined
    const entries = await store.list<Member>(MEMBERS);
    const observed = observe(entries, this.#last.observed, {
      now: clock.now(),
      isScheduled: false,
    });
    this.#keep({ ...this.#last, observed });
  }

  async #sendHeartbeats(): Promise<void> {
    const { clock, random, log } = this.#options;
    const { signal } = this.#leaving;
    while (true) {
      const ms = MEMBER_HEARTBEAT_MS * (1 - JITTER * random());
      await sleep(ms, clock, { signal, isBackground: true });
      if (signal.aborted) return;
      try {
        if (this.#isStopping) await this.#markLeft();
        else await this.#heartbeat(true);
        this.onHeartbeat();
      } catch (error) {
        this.builds.noteOutage();
        if (error instanceof StoreUnavailableError) continue; // the circuit breaker reports it
        logTaskError(log, "rollout")(error);
      }
    }
  }

  async #heartbeat(isScheduled: boolean): Promise<void> {
    const hasChanged = await this.#queue.run(async () => {
      const own = this.#own;
      if (this.#isStopping || own === undefined) return false;
      const { active, role } = this;
      const attempt = () => this.#announce(own, isScheduled);
      await retryConflicts(attempt, this.#options);
      return this.active !== active || this.role !== role;
    });
    if (hasChanged) this.onActiveChange();
  }

  /** @returns `undefined` if another process wrote in the meantime, so that this has to be repeated. */
  async #announce(
    own: Announcement,
    isScheduled: boolean,
  ): Promise<Heartbeat | undefined> {
    const { store, clock, log, maxRepresentatives } = this.#options;
    const before = this.#last;
    const result = await tryHeartbeat(store, {
      self: this.#describe(own),
      rankAtRead: own.rankAtRead,
      previous: before,
      isScheduled,
      maxRepresentatives,
    }, clock);
    if (result === undefined) return undefined;
    this.#keep(result);
    const { self, observed, apart } = result;
    this.conflicts.follow(self, [...observed.members, ...apart.members]);
    logChange(log, result, before);
    return result;
  }

  #keep(heartbeat: Heartbeat): void {
    this.#last = heartbeat;
    this.builds.follow(this.role === "apart" ? undefined : this.#others);
  }

  #describe(own: Announcement): Self {
    const { processId: id, instanceId, revision, version, build, epochs } =
      this.#options;
    const needsKey = own.sensitive.size > 0;
    return {
      id,
      hash: own.configurationHash,
      revision,
      version,
      build: build(),
      instanceId,
      names: sampleNames(own.configurationNames),
      keyFingerprint: needsKey ? epochs.fingerprint : undefined,
      newestWrite: own.newestWrite,
    };
  }

  /** The other members. */
  get #others(): readonly Observation[] {
    const { processId } = this.#options;
    return this.#observations.filter(({ id }) => id !== processId);
  }

  get #observations(): readonly Observation[] {
    return this.#last?.observed.members ?? [];
  }
}

/** In an outage, the others notice the missing heartbeats instead. */
function ignoreOutage(error: unknown): void {
  if (!(error instanceof StoreUnavailableError)) throw error;
}
