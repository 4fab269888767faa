import { ModelStore } from "./_model_store.ts";
import { quantile } from "./_report.ts";
import { type Finding, idleLoad, OPEN_MS, type Random, RETRY_MS, TIMEOUT_MS, type World } from "./_world.ts";

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
    ["keys counted in one process's memory only", "%", storm.inMemory / requests.length * 100],
    ["store operations", "", storm.operations],
    ["the store is done after", "s", storm.endMs / 1_000],
  ];
}

function reconnectMs(random: Random): number {
  return RETRY_MS[0] + random() * (RETRY_MS[1] - RETRY_MS[0]);
}

/** One in this many latencies is recorded. */
const SAMPLE = 100;

interface KeyCommit {
  readonly at: number;
  readonly requestedAt: number;
  readonly process: number;
}

/** One read and one checked commit for each key, through the circuit breakers of each process. */
class KeyStorm {
  readonly latencies: number[] = [];
  inMemory = 0;
  readonly #world: World;
  readonly #random: Random;
  readonly #store: ModelStore;
  readonly #breakers: { read: CircuitBreakers; write: CircuitBreakers };
  readonly #commits: KeyCommit[] = [];
  #issued = 0;

  constructor(world: World, random: Random) {
    this.#world = world;
    this.#random = random;
    this.#store = new ModelStore(world, Math.min(0.99, idleLoad(world)));
    this.#breakers = { read: new CircuitBreakers(world.processes), write: new CircuitBreakers(world.processes) };
  }

  get operations(): number {
    return this.#store.operations;
  }

  get endMs(): number {
    return this.#store.freeAt;
  }

  /** @param requests When each key is requested, in order. */
  run(requests: Float64Array): void {
    let next = 0;
    for (const requestedAt of requests) {
      for (let due; (due = this.#commits[next]) !== undefined && due.at <= requestedAt; next++) this.#write(due);
      this.#read(requestedAt);
    }
    for (let due; (due = this.#commits[next]) !== undefined; next++) this.#write(due);
  }

  #read(requestedAt: number): void {
    const process = Math.floor(this.#random() * this.#world.processes);
    const request = { at: requestedAt, requestedAt, process };
    const done = this.#operate(request, this.#breakers.read, (at) => this.#store.get(at));
    if (done !== undefined) this.#commits.push({ at: done, requestedAt, process });
  }

  #write(commit: KeyCommit): void {
    const done = this.#operate(commit, this.#breakers.write, (at) => this.#store.commit(at));
    if (done !== undefined) this.#issue(done - commit.requestedAt);
  }

  /** @returns When it was done; `undefined` if the store failed, and then the key is counted in memory. */
  #operate({ at, requestedAt, process }: KeyCommit, breakers: CircuitBreakers, run: (at: number) => number) {
    const { rttMs } = this.#world;
    if (!breakers.allow(process, at)) return this.#fallBack(at - requestedAt);
    const done = run(at + rttMs / 2) + rttMs / 2;
    return breakers.record(process, at, done) ? done : this.#fallBack(at + TIMEOUT_MS - requestedAt);
  }

  #fallBack(latency: number): undefined {
    this.inMemory++;
    this.#issue(latency);
  }

  #issue(latency: number): void {
    if (this.#issued++ % SAMPLE === 0) this.latencies.push(latency);
  }
}

/** The circuit breaker of each process: `src/store/circuit_breaker.ts`. */
class CircuitBreakers {
  /** When a failure is noticed; until then, operations are still sent. */
  readonly #failsAt: Float64Array;
  readonly #openUntil: Float64Array;

  constructor(processes: number) {
    this.#failsAt = new Float64Array(processes).fill(Infinity);
    this.#openUntil = new Float64Array(processes);
  }

  allow(process: number, at: number): boolean {
    if (at < (this.#failsAt[process] ?? Infinity)) return true;
    if (at < (this.#openUntil[process] ?? 0)) return false;
    this.#openUntil[process] = at + TIMEOUT_MS + OPEN_MS; // this operation is the probe
    return true;
  }

  /** @returns Whether the response came in time. */
  record(process: number, at: number, done: number): boolean {
    const isInTime = done - at <= TIMEOUT_MS;
    const hasFailed = at >= (this.#failsAt[process] ?? Infinity);
    if (isInTime && hasFailed) this.#failsAt[process] = Infinity;
    if (!isInTime && !hasFailed && this.#failsAt[process] === Infinity) {
      this.#failsAt[process] = at + TIMEOUT_MS;
      this.#openUntil[process] = at + TIMEOUT_MS + OPEN_MS;
    }
    return isInTime;
  }
}
