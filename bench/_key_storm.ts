import { EventQueue } from "./_event_queue.ts";
import { ModelStore } from "./_model_store.ts";
import { quantile } from "./_report.ts";
import { type Finding, idleLoad, OPEN_MS, POLL_MS, type Random, RETRY_MS, TIMEOUT_MS, type World } from "./_world.ts";

/** Every stream is cut at once; the clients reconnect, and ask for a session key. */
export function keyStorm(world: World, random: Random): Finding[] {
  const { clients, processes, openUs, keyShare } = world;
  const requests = Float64Array.from(
    { length: Math.round(clients * keyShare) },
    () => reconnectMs(random) + random() * 1_000,
  );
  requests.sort();
  const storm = new KeyStorm(world, random);
  storm.run(requests);
  const opensPerSecond = clients / (RETRY_MS[1] - RETRY_MS[0]) * 1_000 / processes;
  return [
    ["opened, per process", "streams/s", opensPerSecond],
    ["a core's share for that", "%", opensPerSecond * openUs / 1e4],
    ["session keys requested", "keys/s", requests.length / 7],
    ["a key, p50", "ms", quantile(storm.latencies, 0.5)],
    ["a key, p99", "ms", quantile(storm.latencies, 0.99)],
    ["keys counted by the store before they are issued", "%", 100 - storm.inMemory / requests.length * 100],
    ["windows in a commit", "", storm.windowsPerCommit],
    ["all counts are in the store after", "s", storm.endMs / 1_000],
  ];
}

function reconnectMs(random: Random): number {
  return RETRY_MS[0] + random() * (RETRY_MS[1] - RETRY_MS[0]);
}

/** One in this many latencies is recorded. */
const SAMPLE = 100;
/** When a store counts as behind: `src/keys/client_windows.ts`. */
const MAX_WAITING = 32;
const MAX_WAIT_MS = 250;
/** How many batches a process has in flight: `src/keys/batch_queue.ts`. */
const MAX_RUNNING = 4;

/** What one process has to do with one of the stores. */
interface Shard {
  readonly store: ModelStore;
  /** When the requests were made that are not in a batch yet, the oldest first. */
  waiting: number[];
  /** The batches under way: when the first request of each was made, and how many it has. */
  readonly batches: Set<{ readonly since: number; readonly size: number }>;
  /** How many clients are counted in memory only. */
  unsaved: number;
  isSaving: boolean;
  /** Until when the circuit breaker is open. */
  openUntil: number;
}

/**
 * One commit for each batch of keys, through the circuit breakers of each process: every client is new, and not read
 * first.
 */
class KeyStorm {
  readonly latencies: number[] = [];
  inMemory = 0;
  endMs = 0;
  readonly #world: World;
  readonly #random: Random;
  readonly #queue = new EventQueue();
  readonly #shards: readonly Shard[];
  #issued = 0;
  #commits = 0;
  #windows = 0;

  constructor(world: World, random: Random) {
    this.#world = world;
    this.#random = random;
    // With stores of their own, windows do not share one with polls and heartbeats.
    const otherLoad = world.lanes === 1 ? Math.min(0.99, idleLoad(world)) : 0;
    const stores = Array.from({ length: world.lanes }, () => new ModelStore(world, otherLoad));
    this.#shards = Array.from({ length: world.processes }, () => stores.map(createShard)).flat();
  }

  get windowsPerCommit(): number {
    return this.#windows / this.#commits;
  }

  /** @param requests When each key is requested, in order. */
  run(requests: Float64Array): void {
    for (const at of requests) {
      this.#queue.runUntil(at);
      this.#request(this.#shards[Math.floor(this.#random() * this.#shards.length)]!, at);
    }
    this.#queue.run();
  }

  #request(shard: Shard, at: number): void {
    if (at < shard.openUntil || isBehind(shard, at)) return this.#issueFromMemory(shard, at, at);
    shard.waiting.push(at);
    this.#startBatches(shard, at);
  }

  #startBatches(shard: Shard, at: number): void {
    const { batch } = this.#world;
    while (shard.waiting.length > 0 && shard.batches.size < MAX_RUNNING) {
      if (shard.batches.size > 0 && shard.waiting.length < batch) return;
      this.#startBatch(shard, at);
    }
  }

  #startBatch(shard: Shard, at: number): void {
    const requests = shard.waiting.splice(0, this.#world.batch);
    const batch = { since: requests[0] ?? at, size: requests.length };
    shard.batches.add(batch);
    this.#commit(shard, requests.length, at, (done, isInTime) => {
      shard.batches.delete(batch);
      for (const since of requests) {
        if (isInTime) this.#issueFromStore(since, done);
        else this.#issueFromMemory(shard, since, done);
      }
      if (!isInTime) this.#open(shard, done);
      this.#startBatches(shard, done);
    });
  }

  /** @param then Called when the process knows the outcome: when the response comes, or the timeout. */
  #commit(shard: Shard, size: number, at: number, then: (at: number, isInTime: boolean) => void): void {
    const { rttMs, flushMs } = this.#world;
    this.#commits++;
    this.#windows += size;
    this.#queue.add(at + rttMs / 2, (arrival) => {
      const done = shard.store.commit(arrival, size) + flushMs + rttMs / 2;
      const isInTime = done - at <= TIMEOUT_MS;
      this.#queue.add(isInTime ? done : at + TIMEOUT_MS, (end) => then(end, isInTime));
    });
  }

  /** The requests that wait are counted in memory at once, as their operations fail immediately. */
  #open(shard: Shard, at: number): void {
    shard.openUntil = at + OPEN_MS;
    for (const since of shard.waiting.splice(0)) this.#issueFromMemory(shard, since, at);
  }

  #issueFromStore(since: number, at: number): void {
    this.endMs = Math.max(this.endMs, at);
    this.#issue(at - since);
  }

  #issueFromMemory(shard: Shard, since: number, at: number): void {
    this.inMemory++;
    shard.unsaved++;
    this.#issue(at - since);
    if (shard.isSaving) return;
    shard.isSaving = true;
    this.#queue.add(at + this.#random() * POLL_MS, (next) => this.#save(shard, next));
  }

  /** Stores what was counted in memory, one batch after the other: a read and a commit each. */
  #save(shard: Shard, at: number): void {
    const size = Math.min(shard.unsaved, this.#world.batch);
    if (size === 0) return void (shard.isSaving = false);
    const again = (next: number) => this.#queue.add(next, (then) => this.#save(shard, then));
    if (at < shard.openUntil) return again(at + POLL_MS);
    this.#queue.add(at + this.#world.rttMs / 2, (arrival) => {
      const read = shard.store.get(arrival, size) + this.#world.rttMs / 2;
      this.#queue.add(Math.min(read, at + TIMEOUT_MS), (next) => {
        if (next < read) return this.#failSave(shard, next, again);
        this.#commit(shard, size, next, (done, isInTime) => {
          if (!isInTime) return this.#failSave(shard, done, again);
          shard.unsaved -= size;
          this.endMs = Math.max(this.endMs, done);
          again(done);
        });
      });
    });
  }

  #failSave(shard: Shard, at: number, again: (at: number) => void): void {
    this.#open(shard, at);
    again(at + POLL_MS);
  }

  #issue(latency: number): void {
    if (this.#issued++ % SAMPLE === 0) this.latencies.push(latency);
  }
}

function createShard(store: ModelStore): Shard {
  return { store, waiting: [], batches: new Set(), unsaved: 0, isSaving: false, openUntil: 0 };
}

function isBehind({ waiting, batches }: Shard, at: number): boolean {
  let count = waiting.length;
  let oldest = waiting[0] ?? at;
  for (const { since, size } of batches) {
    count += size;
    oldest = Math.min(oldest, since);
  }
  return count >= MAX_WAITING && at - oldest >= MAX_WAIT_MS;
}
