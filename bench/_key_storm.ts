import { EventQueue } from "./_event_queue.ts";
import { ModelStore } from "./_model_store.ts";
import { quantile } from "./_report.ts";
import {
  type Finding,
  idleLoad,
  OPEN_MS,
  type Random,
  RETRY_MS,
  TIMEOUT_MS,
  type World,
} from "./_world.ts";

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
  const opensPerSecond = clients / (RETRY_MS[1] - RETRY_MS[0]) * 1_000 /
    processes;
  return [
    ["opened, per process", "streams/s", opensPerSecond],
    ["a core's share for that", "%", opensPerSecond * openUs / 1e4],
    ["session keys requested", "keys/s", requests.length / 7],
    ["a key, p50", "ms", quantile(storm.latencies, 0.5)],
    ["a key, p99", "ms", quantile(storm.latencies, 0.99)],
    [
      "keys counted by the store before they are issued",
      "%",
      100 - storm.inMemory / requests.length * 100,
    ],
    ["windows in a commit", "", storm.windowsPerCommit],
  ];
}

function reconnectMs(random: Random): number {
  return RETRY_MS[0] + random() * (RETRY_MS[1] - RETRY_MS[0]);
}

/** One in this many latencies is recorded. */
const SAMPLE = 100;
/** How long a request waits for the store, and when the store is behind: `src/core/keys/rate_limit.ts`. */
const MAX_WAIT_MS = 1_000;
const MAX_LAG_MS = 500;

/** What one process has to do with the store. */
interface Process {
  /** When the requests were made that are not in a batch yet, the oldest first. */
  waiting: number[];
  /** When the oldest request of the batch under way was made. */
  batchSince: number | undefined;
  /** Until when the circuit breaker is open. */
  openUntil: number;
}

/** A read and a commit for each batch of keys, one batch at a time, through the circuit breaker of each process. */
class KeyStorm {
  readonly latencies: number[] = [];
  inMemory = 0;
  readonly #world: World;
  readonly #random: Random;
  readonly #queue = new EventQueue();
  readonly #store: ModelStore;
  readonly #processes: readonly Process[];
  #issued = 0;
  #commits = 0;
  #windows = 0;

  constructor(world: World, random: Random) {
    this.#world = world;
    this.#random = random;
    this.#store = new ModelStore(world, Math.min(0.99, idleLoad(world)));
    this.#processes = Array.from({ length: world.processes }, createProcess);
  }

  get windowsPerCommit(): number {
    return this.#windows / this.#commits;
  }

  /** @param requests When each key is requested, in order. */
  run(requests: Float64Array): void {
    for (const at of requests) {
      this.#queue.runUntil(at);
      this.#request(
        this.#processes[Math.floor(this.#random() * this.#processes.length)]!,
        at,
      );
    }
    this.#queue.run();
  }

  #request(process: Process, at: number): void {
    if (at < process.openUntil || isBehind(process, at)) {
      return this.#issueFromMemory(at, at);
    }
    process.waiting.push(at);
    this.#startBatch(process, at);
  }

  #startBatch(process: Process, at: number): void {
    if (process.batchSince !== undefined) return;
    this.#giveUpWaiting(process, at);
    const requests = process.waiting.splice(0, this.#world.batch);
    if (requests.length === 0) return;
    process.batchSince = requests[0];
    this.#readAndCommit(requests.length, at, (done, isInTime) => {
      process.batchSince = undefined;
      for (const since of requests) {
        if (!isInTime) this.#issueFromMemory(since, done);
        else if (done - since > MAX_WAIT_MS) this.#issueLate();
        else this.#issueFromStore(since, done);
      }
      if (!isInTime) this.#open(process, done);
      this.#startBatch(process, done);
    });
  }

  /** Counts the requests in memory that have waited for too long. */
  #giveUpWaiting(process: Process, at: number): void {
    while (at - (process.waiting[0] ?? at) >= MAX_WAIT_MS) {
      const since = process.waiting.shift() ?? at;
      this.#issueFromMemory(since, since + MAX_WAIT_MS);
    }
  }

  /** @param then Called when the process knows the outcome: when the response comes, or the timeout. */
  #readAndCommit(
    size: number,
    at: number,
    then: (at: number, isInTime: boolean) => void,
  ): void {
    const { rttMs } = this.#world;
    this.#queue.add(at + rttMs / 2, (arrival) => {
      const read = this.#store.get(arrival, size) + rttMs / 2;
      this.#queue.add(Math.min(read, at + TIMEOUT_MS), (next) => {
        if (next < read) then(next, false);
        else this.#commit(size, next, then);
      });
    });
  }

  /** @param then Called when the process knows the outcome: when the response comes, or the timeout. */
  #commit(
    size: number,
    at: number,
    then: (at: number, isInTime: boolean) => void,
  ): void {
    const { rttMs, flushMs } = this.#world;
    this.#commits++;
    this.#windows += size;
    this.#queue.add(at + rttMs / 2, (arrival) => {
      const done = this.#store.commit(arrival, size) + flushMs + rttMs / 2;
      const isInTime = done - at <= TIMEOUT_MS;
      this.#queue.add(
        isInTime ? done : at + TIMEOUT_MS,
        (end) => then(end, isInTime),
      );
    });
  }

  /** The requests that wait are counted in memory at once, as their operations fail immediately. */
  #open(process: Process, at: number): void {
    process.openUntil = at + OPEN_MS;
    for (const since of process.waiting.splice(0)) {
      this.#issueFromMemory(since, at);
    }
  }

  /** Counted in memory after the wait, and nevertheless by the store. */
  #issueLate(): void {
    this.inMemory++;
    this.#issue(MAX_WAIT_MS);
  }

  #issueFromStore(since: number, at: number): void {
    this.#issue(at - since);
  }

  #issueFromMemory(since: number, at: number): void {
    this.inMemory++;
    this.#issue(at - since);
  }

  #issue(latency: number): void {
    if (this.#issued++ % SAMPLE === 0) this.latencies.push(latency);
  }
}

function createProcess(): Process {
  return {
    waiting: [],
    batchSince: undefined,
    openUntil: 0,
  };
}

function isBehind({ batchSince, waiting }: Process, at: number): boolean {
  return at - (batchSince ?? waiting[0] ?? at) >= MAX_LAG_MS;
}
