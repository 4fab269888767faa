import type { Clock } from "../clock.ts";
import { retryConflicts } from "../store/retry.ts";
import { type Check, type Entry, type Store, StoreUnavailableError, type Write } from "../store/store.ts";
import { elect, type ElectionResult, type Ranked } from "./election.ts";
import { isLive, type Member, type Observation, observe } from "./observation.ts";

/** Settings of {@linkcode createRollout}. */
export interface RolloutOptions {
  /** Shared by all processes; one that fails in time. */
  store: Store;
  clock: Clock;
  /** From 0 to below 1. */
  random: () => number;
  /** What nobody else is called. @default {crypto.randomUUID()} */
  processId?: string;
  /**
   * Where this process runs, if only one can at a time, such as a host and a port: a process that starts there knows that its
   * predecessor is dead, and waits for nobody. Without it, that takes up to four periods to be seen.
   */
  instanceId?: string;
  /** How often the process looks and renews its entry, at the least; up to a fifth more often. @default {5000} */
  heartbeatMs?: number;
  /** How many processes of one configuration have an entry. @default {8} */
  maxRepresentatives?: number;
  /** Told the configuration that is in force from now on. */
  onChange?: (hash: string) => void;
}

/** Which of several configurations with living processes is in force. */
export interface Rollout {
  /**
   * Says which configuration this process has: at its start, and whenever that changes. It has looked round when it returns,
   * and looks again and again from then on. If the store does not answer, it goes on trying.
   *
   * @param hash The same for the same configuration, wherever.
   */
  join(hash: string): Promise<void>;
  /**
   * Looks now, such as before something is done that only the configuration in force may do.
   *
   * @returns Whether this process's configuration is in force; if the store does not answer, whether it was.
   */
  refresh(): Promise<boolean>;
  /**
   * Looks now, before something that only the configuration in force may do.
   *
   * @returns What a commit of it has to check, so that no newer rollout comes between; nothing if it may not be done.
   */
  fencingChecks(): Promise<readonly Check[] | undefined>;
  /** The configuration in force; nothing before the first one was told. */
  readonly active: string | undefined;
  /** Whether it is the one of this process. */
  readonly isActive: boolean;
  /** Says goodbye, so that nobody waits for this process, and ends. */
  leave(): Promise<void>;
}

const KEY_PREFIX = "member";
/** Keeps the highest rank that was ever given: so one that comes back after a long time does not find its rank taken. */
const HIGHEST = ["rollout"];
/** Processes that were started at once do not look at once for ever. */
const JITTER = 0.2;

/** Makes a process a member of the rollout; what is decided and why is in `docs/rollouts.md`. */
export function createRollout(options: RolloutOptions): Rollout {
  return new Membership(options);
}

class Membership implements Rollout {
  readonly #options: RolloutOptions;
  readonly #id: string;
  /** What this process has. */
  #hash: string | undefined;
  /** What it has told the others. */
  #announced: Ranked | undefined;
  #observations: ReadonlyMap<string, Observation> = new Map();
  #active: string | undefined;
  #running: Promise<void> = Promise.resolve();
  #cancel: (() => void) | undefined;
  #hasLeft = false;

  constructor(options: RolloutOptions) {
    this.#options = options;
    this.#id = options.processId ?? crypto.randomUUID();
  }

  get active(): string | undefined {
    return this.#active;
  }

  get isActive(): boolean {
    return this.#active !== undefined && this.#active === this.#hash;
  }

  join(hash: string): Promise<void> {
    return this.#inTurn(async () => {
      const isAlone = this.#isAlone();
      this.#hash = hash;
      this.#cancel ??= this.#schedule();
      if (!await this.#heartbeat({ isCounted: false }) && isAlone) this.#setActive(hash);
    });
  }

  async refresh(): Promise<boolean> {
    await this.#inTurn(async () => void await this.#heartbeat({ isCounted: false }));
    return this.isActive;
  }

  async fencingChecks(): Promise<readonly Check[] | undefined> {
    const highest = await this.#options.store.get<number>(HIGHEST); // first: whoever comes after that is found out
    return await this.refresh() ? [{ key: HIGHEST, version: highest?.version ?? null }] : undefined;
  }

  leave(): Promise<void> {
    this.#hasLeft = true;
    this.#cancel?.();
    if (this.#hash === undefined) return Promise.resolve(); // nobody knows of it
    return this.#queue(async () => void await this.#attempt(() => this.#markLeft()));
  }

  /** Whether what is in force is in force by this process alone; so it is for one that has never seen anybody. */
  #isAlone(): boolean {
    const others = [...this.#observations.values()].filter((it) => it.id !== this.#id && isLive(it));
    return this.#active === this.#hash && others.every(({ member }) => member.hash !== this.#hash);
  }

  #schedule(): () => void {
    const { clock, random, heartbeatMs = 5_000 } = this.#options;
    return clock.after(heartbeatMs * (1 - JITTER * random()), () => void this.#tick(), true);
  }

  async #tick(): Promise<void> {
    await this.#inTurn(async () => void await this.#heartbeat({ isCounted: true }));
    if (!this.#hasLeft) this.#cancel = this.#schedule();
  }

  /** Looks and writes one after the other, and no more after the goodbye. */
  #inTurn(work: () => Promise<void>): Promise<void> {
    return this.#queue(async () => {
      if (!this.#hasLeft) await work();
    });
  }

  #queue(work: () => Promise<void>): Promise<void> {
    const done = this.#running.then(work);
    this.#running = done.catch(() => {}); // whoever asked for it is told
    return done;
  }

  /** @returns Whether the store answered. */
  async #heartbeat({ isCounted }: { isCounted: boolean }): Promise<boolean> {
    const hash = this.#hash;
    if (hash === undefined) return false;
    const found = await this.#attempt(() => this.#tryHeartbeat(hash, isCounted));
    if (found === undefined) return false;
    this.#observations = found.observations;
    this.#announced = { hash, rank: found.decision.rank };
    this.#setActive(found.decision.active);
    return true;
  }

  /**
   * Looks and renews the process's own entry. Only both together are a look: while nobody can write, nobody is dead for being
   * silent.
   */
  async #tryHeartbeat(hash: string, isCounted: boolean) {
    const { store, clock } = this.#options;
    const rank = this.#announced?.hash === hash ? this.#announced.rank : undefined;
    const highest = rank === undefined ? await store.get<number>(HIGHEST) : undefined; // first: who comes between is found out
    const now = clock.now();
    const entries = await store.list<Member>([KEY_PREFIX]);
    const observations = observe(entries, { before: this.#observations, now, isCounted });
    const decision = this.#decide({ hash, rank }, observations, highest?.value);
    const { checks, writes } = this.#commitOf({ hash, rank: decision.rank }, decision, { observations, highest });
    if (writes.length > 0 && await store.commit(checks, writes) === undefined) return undefined;
    return { observations, decision };
  }

  #decide(
    own: { hash: string; rank: number | undefined },
    observations: ReadonlyMap<string, Observation>,
    highest = 0,
  ): ElectionResult {
    const instanceId = this.#announced === undefined ? this.#options.instanceId : undefined;
    const situation = { ...own, id: this.#id, instanceId, observations: [...observations.values()], highest };
    return elect(situation, this.#options.maxRepresentatives);
  }

  #commitOf(
    own: Ranked,
    { isRepresentative, isNew, rankSource, dead, removed }: ElectionResult,
    { observations, highest }: Found,
  ) {
    const read = [...dead, ...removed, ...rankSource === undefined ? [] : [rankSource]];
    const checks: Check[] = read.map(({ id, version }) => ({ key: [KEY_PREFIX, id], version }));
    const writes: Write[] = [
      ...dead.map(({ id, member }) => ({ key: [KEY_PREFIX, id], value: { ...member, hasLeft: true } })),
      ...removed.map(({ id }) => ({ key: [KEY_PREFIX, id] })),
    ];
    const listed = observations.get(this.#id);
    if (isRepresentative || listed !== undefined) {
      checks.push({ key: [KEY_PREFIX, this.#id], version: listed?.version ?? null });
      writes.push({ key: [KEY_PREFIX, this.#id], value: isRepresentative ? this.#member(own) : undefined });
    }
    if (isNew) {
      checks.push({ key: HIGHEST, version: highest?.version ?? null });
      writes.push({ key: HIGHEST, value: own.rank });
    }
    return { checks, writes };
  }

  #member({ hash, rank }: Ranked): Member {
    const { clock, instanceId } = this.#options;
    return { hash, rank, heartbeatAt: clock.now(), ...instanceId === undefined ? {} : { instanceId } };
  }

  /** The entry stays a while, so that whoever comes back finds its rank. */
  async #markLeft(): Promise<true | undefined> {
    const { store } = this.#options;
    const key = [KEY_PREFIX, this.#id];
    const entry = await store.get<Member>(key);
    if (entry === undefined) return true; // others speak for it
    const value: Member = { ...entry.value, hasLeft: true };
    return await store.commit([{ key, version: entry.version }], [{ key, value }]) === undefined ? undefined : true;
  }

  /** @returns Nothing if the store does not answer, as its guard has told; the opinion stays, and the next look is soon. */
  async #attempt<T>(work: () => Promise<T | undefined>): Promise<T | undefined> {
    try {
      return await retryConflicts(work, this.#options);
    } catch (error) {
      if (error instanceof StoreUnavailableError) return undefined;
      throw error;
    }
  }

  #setActive(hash: string): void {
    if (hash === this.#active) return;
    this.#active = hash;
    this.#options.onChange?.(hash);
  }
}

/** What a look has found. */
interface Found {
  observations: ReadonlyMap<string, Observation>;
  highest: Entry<number> | undefined;
}
