import { silentLog } from "../../../src/core/observe/log.ts";
import { HIGHEST_RANK } from "../../../src/core/rollout/heartbeat.ts";
import type { Member } from "../../../src/core/rollout/observation.ts";
import {
  type Announcement,
  Rollout,
} from "../../../src/core/rollout/rollout.ts";
import { noMetrics } from "../../../src/core/observe/metrics.ts";
import { retryConflicts } from "../../../src/core/store/commits.ts";
import { CircuitBreaker } from "../../../src/core/store/circuit_breaker.ts";
import {
  type Entry,
  type Store,
  StoreUnavailableError,
} from "../../../src/core/store/store.ts";
import type { Clock } from "../../../src/core/values/clock.ts";
import type { Simulation } from "./_simulation.ts";

/** Returns what a process announces of a configuration that has a hash; its sources count as up to date by default. */
export function announcementOf(
  hash: string,
  rankAtRead = Infinity,
  names: readonly string[] = [],
): Announcement {
  return {
    configurationHash: hash,
    configurationNames: new Set(names),
    sensitive: new Map(),
    newestWrite: 0,
    rankAtRead,
  };
}

/** A member as a process last read it, and the age of its heartbeat then. */
interface ObservedMember extends Member {
  id: string;
  ageMs: number;
}

const POLL_MS = 1_000;
const START = 1_700_000_000_000;
/** The least time after which a member is dead: four periods of four seconds, by a fast clock. */
const DEAD_MS = 15_000;
/** Shorter than the time after which an entry is removed: fifteen periods of four seconds. */
const LONG_OUTAGE_MS = 35_000;

/** Options of {@linkcode Process}. */
interface ProcessOptions {
  hash: string;
  maxRepresentatives: number;
  /** The names of its PUBLIC variables. @default {none} */
  names?: readonly string[];
}

/** A process with its own clock. */
export class Process {
  readonly name: string;
  readonly rollout: Rollout;
  /** Which configuration was active for it, in order. */
  readonly activations: { readonly at: number; readonly hash: string }[] = [];
  hash: string;
  /** All configurations it has had. */
  readonly #hashes: Set<string>;
  isAlive = true;
  isDisconnected = false;
  #observed: readonly ObservedMember[] = [];
  /** Its last heartbeat failed, since it could not write. */
  #hasWriteFailed = false;
  /** Requests that are held until the store is reachable. */
  #held: (() => void)[] = [];
  readonly clock: Clock;
  readonly #store: Store;
  readonly #simulation: Simulation;
  readonly #drift: number;
  readonly #names: readonly string[];
  #offset: number;
  /** Callbacks that are due while the process is stalled; `undefined` while it runs. */
  #stalled: (() => void)[] | undefined;

  constructor(
    simulation: Simulation,
    { hash, maxRepresentatives, names = [] }: ProcessOptions,
  ) {
    this.#simulation = simulation;
    this.#names = names;
    this.hash = hash;
    this.#hashes = new Set([hash]);
    this.#drift = 0.99 + 0.02 * simulation.random();
    this.#offset = simulation.between(-30_000, 30_000);
    // Random digits first, since the order of the ids determines the representatives.
    this.name = `${simulation.between(100, 999)}-${
      simulation.processes.push(this)
    }`;
    this.clock = {
      now: () =>
        START + Math.floor(simulation.now * this.#drift) + this.#offset,
      monotonic: () => simulation.now,
      after: (ms, callback) =>
        simulation.after(ms / this.#drift, () => this.run(callback)),
    };
    this.#store = this.#recording(
      new CircuitBreaker(simulation.storeOf(this), {
        clock: this.clock,
        metrics: noMetrics,
      }),
    );
    this.rollout = new Rollout({
      store: this.#store,
      clock: this.clock,
      random: simulation.random,
      processId: this.name,
      maxRepresentatives,
      instanceId: undefined,
      version: "0.1.0",
      revision: undefined,
      build: () => "",
      log: silentLog,
      epochs: { fingerprint: undefined },
    });
    this.rollout.onActiveChange = () => this.#noteActive();
    void this.#claimCommit();
    void this.#poll();
  }

  /** Runs a callback that is due, unless the process is dead or stalled. */
  run(callback: () => void): void {
    if (!this.isAlive) return;
    if (this.#stalled) this.#stalled.push(callback);
    else callback();
  }

  /** Blocks its event loop for a while. */
  stall(ms: number): void {
    this.#stalled ??= [];
    this.#simulation.after(ms, () => this.resume());
    if (ms >= LONG_OUTAGE_MS) this.#simulation.excuse(this.hash);
  }

  /** Disconnects this process from the store for a while. */
  disconnect(ms: number): void {
    this.isDisconnected = true;
    if (ms >= LONG_OUTAGE_MS) this.#simulation.excuse(this.hash);
    this.#simulation.after(ms, () => this.flush());
  }

  /** Sets its clock. */
  setClock(ms: number): void {
    this.#offset = ms;
  }

  reload(hash: string): void {
    this.hash = hash;
    this.#hashes.add(hash);
    void this.#claimCommit();
  }

  kill(): void {
    this.isAlive = false;
    this.#held = [];
  }

  /** Leaves the rollout, and is killed if that takes too long. */
  async stop(): Promise<void> {
    void this.rollout.leave();
    await this.#simulation.advance(this.#simulation.between(0, 3_000));
    this.kill();
  }

  resume(): void {
    const stalled = this.#stalled ?? [];
    this.#stalled = undefined;
    for (const callback of stalled) this.run(callback);
  }

  /** Reconnects to the store and sends the held requests. */
  flush(): void {
    this.isDisconnected = false;
    const held = this.#held;
    this.#held = [];
    for (const arrive of held) arrive();
  }

  /** Returns which configurations were active for it from a time on, in order. */
  since(time: number): string[] {
    const first = this.activations.findLastIndex(({ at }) => at <= time);
    return this.activations.slice(Math.max(0, first)).map(({ hash }) => hash);
  }

  fail(reason: string): void {
    this.#simulation.fail(`${this.name} with ${this.hash} ${reason}`);
  }

  /** Holds a request until the store is reachable, unless the process is dead. */
  hold(arrive: () => void): void {
    if (this.isAlive) this.#held.push(arrive);
  }

  /** Records what the process reads, and whether its last write failed. */
  #recording(store: Store): Store {
    return {
      maxChecks: store.maxChecks,
      get: (key) => store.get(key),
      getMany: (keys) => store.getMany(keys),
      watch: (key, hint) => store.watch(key, hint),
      close: () => store.close(),
      list: async <T>(prefix: Entry["key"]) => {
        const entries = await store.list<Member>(prefix);
        this.#observed = entries.map((it) => ({
          ...it.value,
          id: String(it.key[1]),
          ageMs: this.#simulation.ageOf(it),
        }));
        this.#hasWriteFailed = false;
        return entries as Entry<T>[];
      },
      commit: async (checks, writes) => {
        this.#hasWriteFailed = true;
        const version = await store.commit(checks, writes);
        this.#hasWriteFailed = version === undefined;
        return version;
      },
    };
  }

  /** Without the store, a later heartbeat announces it. */
  async #claimCommit(): Promise<void> {
    const own = () => announcementOf(this.hash, undefined, this.#names);
    try {
      await retryConflicts(
        () => this.rollout.claimCommit(own()),
        { clock: this.clock, random: this.#simulation.random },
      );
    } catch (error) {
      if (!(error instanceof StoreUnavailableError)) throw error;
    }
    this.#noteActive();
  }

  /** Looks for new rollouts every second, as `Changes` does. */
  async #poll(): Promise<void> {
    try {
      const [rank] = await this.#store.getMany<number>([HIGHEST_RANK]);
      await this.rollout.follow(rank?.value ?? 0);
    } catch (error) {
      if (!(error instanceof StoreUnavailableError)) throw error;
    }
    this.clock.after(POLL_MS, () => void this.#poll());
  }

  #noteActive(): void {
    const { active = "" } = this.rollout;
    if (active !== this.activations.at(-1)?.hash) this.#checkChange(active);
  }

  /** No process may switch from a configuration with a living process to an older one. */
  #checkChange(active: string): void {
    const previous = this.activations.at(-1)?.hash;
    this.activations.push({ at: this.#simulation.now, hash: active });
    if (previous === undefined) return;
    if (this.#hasWriteFailed) {
      return this.#hashes.has(active)
        ? undefined
        : this.fail(`switched to ${active} without a heartbeat`);
    }
    const others = this.#observed.filter(({ id }) => id !== this.name);
    const isAlive = ({ hasLeft, ageMs }: ObservedMember) =>
      !hasLeft && ageMs < DEAD_MS;
    const living = others.filter((member) =>
      member.hash === previous && isAlive(member)
    );
    const isOlder = ({ rank }: Member) =>
      others.some((it) => it.hash === active && it.rank < rank);
    if (living.some(isOlder)) {
      this.fail(
        `switched from ${previous}, which lives, to the older ${active}`,
      );
    }
  }
}
