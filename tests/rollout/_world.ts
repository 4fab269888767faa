import type { Clock } from "../../src/clock.ts";
import { createRollout, type Rollout } from "../../src/rollout/rollout.ts";
import type { Member } from "../../src/rollout/observation.ts";
import { withCircuitBreaker } from "../../src/store/circuit_breaker.ts";
import { memoryStore } from "../../src/store/memory.ts";
import type { Entry, Store, Write } from "../../src/store/store.ts";
import { seededRandom } from "../../tools/seeded_random.ts";

/** What the network and the store do. */
export interface Weather {
  /** How long a question travels at the most, and as long again its answer. */
  latencyMs: number;
  /** How often a commit meets with another writer where there is none, as in a SQLite file. */
  conflicts: number;
  /** `silent`: nothing answers, and what was asked is done when that is over; `full`: nothing can be written. */
  store: "up" | "silent" | "full";
}

/** A member as a process last saw it, and how long that member had been silent then. */
interface Seen extends Member {
  readonly id: string;
  readonly ageMs: number;
}

interface Event {
  readonly at: number;
  readonly order: number;
  readonly callback: () => void;
  isOff: boolean;
}

const START = 1_700_000_000_000;
/** Less than it takes to be forgotten: fifteen looks of four seconds. */
const LONG_MS = 35_000;

/** Virtual time, one store and all processes on it. The same seed gives the same world. */
export class World {
  now = 0;
  readonly random: () => number;
  readonly weather: Weather = { latencyMs: 0, conflicts: 0, store: "up" };
  readonly processes: Process[] = [];
  readonly #shared = memoryStore();
  readonly #queue: Event[] = [];
  readonly #writtenAt = new Map<string, number>();
  /** The rank that every configuration had last. */
  readonly #ranks = new Map<string, number>();
  /** Configurations of which somebody was away for so long that the others may have forgotten them. */
  readonly #excused = new Set<string>();
  #events = 0;
  #failure: Error | undefined;

  constructor(seed: number) {
    this.random = seededRandom(seed);
  }

  /** A whole number from `from` to `to`. */
  between(from: number, to: number): number {
    return from + Math.floor(this.random() * (to - from + 1));
  }

  isHappening(probability: number): boolean {
    return this.random() < probability;
  }

  pick<T>(items: readonly T[]): T {
    return items[Math.floor(this.random() * items.length)] as T;
  }

  get living(): Process[] {
    return this.processes.filter(({ isAlive }) => isAlive);
  }

  /** A heap, since ten thousand worlds have to go by in half a minute. */
  after(ms: number, callback: () => void): () => void {
    const event = { at: this.now + ms, order: this.#events++, callback, isOff: false };
    const queue = this.#queue;
    let place = queue.push(event) - 1;
    for (let parent = (place - 1) >> 1; place > 0 && isBefore(event, queue[parent]); parent = (place - 1) >> 1) {
      queue[place] = queue[parent] as Event;
      place = parent;
    }
    queue[place] = event;
    return () => void (event.isOff = true);
  }

  #next(end: number): Event | undefined {
    const queue = this.#queue;
    const [first] = queue;
    if (first === undefined || first.at > end) return undefined;
    const last = queue.pop() as Event;
    if (queue.length > 0) this.#sink(last);
    return first;
  }

  #sink(event: Event): void {
    const queue = this.#queue;
    let place = 0;
    for (let child = 1; child < queue.length; child = 2 * place + 1) {
      if (isBefore(queue[child + 1], queue[child])) child++;
      if (!isBefore(queue[child], event)) break;
      queue[place] = queue[child] as Event;
      place = child;
    }
    queue[place] = event;
  }

  /** Lets time go by. */
  async pass(ms: number): Promise<void> {
    await settle(); // what was done just now
    const end = this.now + ms;
    for (let event = this.#next(end); event !== undefined; event = this.#next(end)) {
      if (event.isOff) continue;
      this.now = event.at;
      event.callback();
      await settle();
      this.check();
    }
    this.now = end;
  }

  /** @throws {Error} If anything has happened that may not happen. */
  check(): void {
    if (this.#failure) throw this.#failure;
  }

  /** Notes a fault; whoever finds one is often called back by what is tested, and must not throw there. */
  fail(reason: string): void {
    this.#failure ??= new Error(`At ${this.now} ms: ${reason}`);
  }

  excuse(hash: string): void {
    this.#excused.add(hash);
  }

  /** What a process has of the store: it may be slow, cut off, or down. */
  storeOf(process: Process): Store {
    const shared = this.#shared;
    return {
      get: (key) => this.#ask(process, () => shared.get(key)),
      list: (prefix) => this.#ask(process, () => shared.list(prefix)),
      commit: (checks, writes) => this.#ask(process, () => this.#commit(process, checks, writes)),
      watch: () => () => {},
      close: () => {},
    };
  }

  /** For how long a member has been silent. */
  ageOf({ version }: Entry): number {
    return this.now - (this.#writtenAt.get(version) ?? -Infinity);
  }

  #ask<T>(process: Process, work: () => Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const arrive = () => {
        if (process.isCut || this.weather.store === "silent") return process.waitFor(arrive);
        const answer = (deliver: () => void) => this.#travel(() => process.wake(deliver));
        work().then((result) => answer(() => resolve(result)), (error) => answer(() => reject(error)));
      };
      this.#travel(arrive);
    });
  }

  #travel(arrive: () => void): void {
    const { latencyMs } = this.weather;
    if (latencyMs === 0) arrive();
    else this.after(this.random() * latencyMs, arrive);
  }

  async #commit(process: Process, checks: Parameters<Store["commit"]>[0], writes: readonly Write[]) {
    if (this.weather.store === "full") throw new TypeError("database or disk is full");
    if (this.weather.conflicts > 0 && this.isHappening(this.weather.conflicts)) return undefined;
    const version = await this.#shared.commit(checks, writes);
    for (const write of version === undefined ? [] : writes) await this.#note(process, write, version ?? "");
    return version;
  }

  /** Watches over the ranks: a configuration keeps its own for as long as anybody in the folder remembers it. */
  async #note(process: Process, { key, value }: Write, version: string): Promise<void> {
    const { hash, rank, hasLeft } = (value ?? {}) as Partial<Member>;
    if (key[0] !== "member" || hash === undefined || rank === undefined || hasLeft) return;
    this.#writtenAt.set(version, this.now);
    const members = await this.#shared.list<Member>(["member"]);
    const other = members.find((it) => it.key[1] !== key[1] && it.value.hash === hash && it.value.rank !== rank);
    if (other && !this.#excused.has(hash)) process.fail(`took rank ${rank} for ${hash} beside ${other.value.rank}`);
    const highest = Math.max(0, ...this.#ranks.values());
    if (!this.#ranks.has(hash) && rank <= highest) {
      process.fail(`took rank ${rank} for the new ${hash}, below ${highest}`);
    }
    this.#ranks.set(hash, rank);
  }

  /** The store and all connections work again. */
  heal(): void {
    Object.assign(this.weather, { latencyMs: Math.min(this.weather.latencyMs, 100), store: "up" });
    for (const process of this.processes) {
      process.wakeUp();
      process.flush();
    }
  }

  /** The store is down for a while; what was asked in the meantime is done then. */
  fell(store: Weather["store"], ms: number): void {
    this.weather.store = store;
    this.after(ms, () => {
      this.weather.store = "up";
      for (const process of this.processes) process.flush();
    });
  }

  /** The configuration with the highest rank of those that the living have, as the store knows it. */
  async newest(): Promise<string | undefined> {
    const hashes = new Set(this.living.map(({ hash }) => hash));
    const members = await this.#shared.list<Member>(["member"]);
    const ranked = members.map(({ value }) => value).filter(({ hash }) => hashes.has(hash));
    return ranked.sort((a, b) => b.rank - a.rank)[0]?.hash;
  }

  /** The whole folder, to be told with a failure. */
  async folder(): Promise<string> {
    const members = await this.#shared.list<Member>(["member"]);
    return members.map(({ key, value }) => `${key[1]} ${JSON.stringify(value)}`).join("\n");
  }
}

/** How a process starts. */
export interface ProcessOptions {
  hash: string;
  instanceId?: string;
  maxRepresentatives: number;
}

/** One process with a clock of its own. */
export class Process {
  readonly name: string;
  readonly rollout: Rollout;
  /** What it said was in force, in order. */
  readonly opinions: { readonly at: number; readonly hash: string }[] = [];
  hash: string;
  readonly #had: Set<string>;
  isAlive = true;
  isCut = false;
  #seen: readonly Seen[] = [];
  /** Its last look was none, since it could not write. */
  #isRefused = false;
  #waiting: (() => void)[] = [];
  readonly clock: Clock;
  readonly #world: World;
  readonly #drift: number;
  #offset: number;
  /** What waits for the process to go on, while it stands still. */
  #asleep: (() => void)[] | undefined;

  constructor(world: World, { hash, instanceId, maxRepresentatives }: ProcessOptions) {
    this.#world = world;
    this.hash = hash;
    this.#had = new Set([hash]);
    this.#drift = 0.99 + 0.02 * world.random();
    this.#offset = world.between(-30_000, 30_000);
    // Random letters first, for the order of ids decides who isRepresentative.
    this.name = `${world.between(100, 999)}-${world.processes.push(this)}`;
    this.clock = {
      now: () => START + Math.floor(world.now * this.#drift) + this.#offset,
      after: (ms, callback) => world.after(ms / this.#drift, () => this.wake(callback)),
    };
    this.rollout = createRollout({
      store: this.#observed(
        withCircuitBreaker(world.storeOf(this), { clock: { ...this.clock, now: () => world.now } }),
      ),
      clock: this.clock,
      random: world.random,
      processId: this.name,
      maxRepresentatives,
      ...instanceId === undefined ? {} : { instanceId },
      onChange: (inForce) => this.#changed(inForce),
    });
    void this.rollout.join(hash);
  }

  /** Does what is due, unless the process is dead or stands still. */
  wake(callback: () => void): void {
    if (!this.isAlive) return;
    if (this.#asleep) this.#asleep.push(callback);
    else callback();
  }

  /** Its event loop does not get a turn, or it was stopped. */
  stall(ms: number): void {
    this.#asleep ??= [];
    this.#world.after(ms, () => this.wakeUp());
    if (ms >= LONG_MS) this.#world.excuse(this.hash);
  }

  /** It alone does not reach the store. */
  cut(ms: number): void {
    this.isCut = true;
    if (ms >= LONG_MS) this.#world.excuse(this.hash);
    this.#world.after(ms, () => this.flush());
  }

  /** Somebody sets its clock. */
  jump(ms: number): void {
    this.#offset = ms;
  }

  reload(hash: string): void {
    this.hash = hash;
    this.#had.add(hash);
    void this.rollout.join(hash);
  }

  kill(): void {
    this.isAlive = false;
    this.#waiting = [];
  }

  /** Says goodbye, and is killed if that takes too long. */
  async stop(): Promise<void> {
    void this.rollout.leave();
    await this.#world.pass(this.#world.between(0, 3_000));
    this.kill();
  }

  wakeUp(): void {
    const asleep = this.#asleep ?? [];
    this.#asleep = undefined;
    for (const callback of asleep) this.wake(callback);
  }

  /** It reaches the store again, and asks what it wanted to ask. */
  flush(): void {
    this.isCut = false;
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const arrive of waiting) arrive();
  }

  /** What it took for being in force from then on, in order. */
  since(time: number): string[] {
    const first = this.opinions.findLastIndex(({ at }) => at <= time);
    return this.opinions.slice(Math.max(0, first)).map(({ hash }) => hash);
  }

  fail(reason: string): void {
    this.#world.fail(`${this.name} with ${this.hash} ${reason}`);
  }

  /** Keeps a question until it can be asked; those of the dead are gone with them. */
  waitFor(arrive: () => void): void {
    if (this.isAlive) this.#waiting.push(arrive);
  }

  /** Notes what the process learns, and when. */
  #observed(store: Store): Store {
    return {
      ...store,
      list: async <T>(prefix: Entry["key"]) => {
        const entries = await store.list<Member>(prefix);
        this.#seen = entries.map((it) => ({ ...it.value, id: String(it.key[1]), ageMs: this.#world.ageOf(it) }));
        this.#isRefused = false;
        return entries as Entry<T>[];
      },
      commit: async (checks, writes) => {
        this.#isRefused = true;
        const version = await store.commit(checks, writes);
        this.#isRefused = version === undefined;
        return version;
      },
    };
  }

  /** Nobody may turn from a configuration that lives to an older one. */
  #changed(inForce: string): void {
    const before = this.opinions.at(-1)?.hash;
    this.opinions.push({ at: this.#world.now, hash: inForce });
    if (before === undefined) return;
    if (this.#isRefused) return this.#had.has(inForce) ? undefined : this.fail(`turned to ${inForce} without looking`);
    const others = this.#seen.filter(({ id }) => id !== this.name);
    const living = others.filter(({ hash, hasLeft, ageMs }) => hash === before && !hasLeft && ageMs < 15_000);
    const isOlder = ({ rank }: Member) => others.some((it) => it.hash === inForce && it.rank < rank);
    if (living.some(isOlder)) this.fail(`turned from ${before}, which lives, to the older ${inForce}`);
  }
}

function isBefore(a: Event | undefined, b: Event | undefined): boolean {
  if (a === undefined || b === undefined) return false;
  return a.at === b.at ? a.order < b.order : a.at < b.at;
}

/** Enough for all that one event sets off; a turn of the event loop would take a hundred times as long. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 100; turn++) await undefined;
}
