/**
 * A million clients on a thousand processes over one store, in virtual time: no sockets, no waiting.
 *
 *     deno task bench simulation --clients 1000000 --processes 1000 --seed 1
 *     deno task bench simulation --sweepers 1 --lanes 16 --rttMs 10
 *
 * The processes do what the source does: each looks for new events once a second and at a hint, publishes by comparing and
 * committing with a check, counts session keys with a read and a checked commit, gives a store up for a second that has not
 * answered for five, and sweeps old windows once a minute. Costs are parameters; their defaults are what the other programs
 * here measured on a SQLite file. Not modelled: the clients' own networks, lost packets, and stores that do several things
 * at once, other than by `--lanes`.
 *
 * Each figure is the median of `--rounds` runs with seeds that follow each other, with the least and the most.
 */
import { seededRandom } from "../tests/_random.ts";
import { Agenda } from "./_agenda.ts";
import { ModelStore } from "./_model_store.ts";
import { type Figure, figure, quantile, type Report } from "./_report.ts";

/** The world, and what things cost in it. */
export const WORLD = {
  clients: 1_000_000,
  processes: 1_000,
  seed: 1,
  rounds: 3,
  /** PUBLIC variables: publishing reads them all. */
  variables: 50,
  /** From a process to the store and back. */
  rttMs: 1,
  getUs: 40,
  listUs: 70,
  entryUs: 5,
  commitUs: 250,
  /** Stores between which the load could be spread evenly. */
  lanes: 1,
  /** A process's own time for an event on a stream, and for a stream that is opened. */
  deliveryUs: 8,
  openUs: 140,
  streamKiB: 65,
  /** What a process may take; Deno Deploy's default. */
  memoryMiB: 768,
  /** How often a client asks for a session key while nothing happens. */
  keyEveryS: 600,
  /** Which share of clients asks for one when it has come back. */
  keyShare: 1,
  /** How many processes sweep; 0 is all of them. */
  sweepers: 0,
};

/** As in `src/`: gateway.ts, events/hub.ts, store/retry.ts, store/guard.ts, rate_limit.ts. */
const POLL_MS = 1_000;
const SWEEP_S = 60;
const SWEEP_PAGE = 500;
const WINDOW_S = 60;
const RETRY_MS = [2_000, 8_000] as const;
const MAX_TRIES = 40;
const MAX_PAUSE_MS = 100;
const TIMEOUT_MS = 5_000;
const GUARD_PAUSE_MS = 1_000;

type World = typeof WORLD;
type Random = () => number;

/** Runs the simulation. */
export function simulate(world: World = WORLD): Report {
  const { clients, processes, seed, rounds } = world;
  const scenes = Array.from({ length: rounds }, (_, round) => {
    const random = seededRandom(seed + round);
    return [
      ...prefixed("a change, the store watches", change(world, random, true)),
      ...prefixed("a change, polls only", change(world, random, false)),
      ...prefixed("all publish it at once", race(world, random, 0)),
      ...prefixed("all publish it within 60 s", race(world, random, 60_000)),
      ...prefixed("all clients come back", storm(world, random)),
    ];
  });
  const [first = []] = scenes;
  return {
    title: `simulation: ${clients} clients, ${processes} processes, seeds ${seed} to ${seed + rounds - 1}`,
    figures: [
      ...first.map(([name, unit], at) => figure(name, unit, scenes.map((scene) => scene[at]?.[2] ?? NaN))),
      ...limits(world),
    ],
  };
}

type Finding = readonly [name: string, unit: string, value: number];

function prefixed(prefix: string, findings: readonly Finding[]): Finding[] {
  return findings.map(([name, unit, value]) => [`${prefix}: ${name}`, unit, value]);
}

/** The share of the store's time that goes into looking, once a second and process. */
function pollLoad({ processes, listUs, lanes }: World): number {
  return processes * listUs * 1_000 / POLL_MS / 1e6 / lanes;
}

/** From the commit of one process to all streams of all processes. */
function change(world: World, random: Random, isWatched: boolean): Finding[] {
  const { clients, processes, rttMs, deliveryUs } = world;
  const store = new ModelStore(world, Math.min(0.99, pollLoad(world)));
  const looks = Array.from({ length: processes }, () => isWatched ? rttMs : random() * POLL_MS).sort((a, b) => a - b);
  const each = clients / processes;
  const latencies = looks.flatMap((at) => {
    const read = store.list(at, 1) + rttMs;
    return DECILES.map((part) => read + part * each * deliveryUs / 1_000);
  });
  return [
    ["delivered, p50", "ms", quantile(latencies, 0.5)],
    ["delivered, p99", "ms", quantile(latencies, 0.99)],
    ["delivered, last", "ms", Math.max(...latencies)],
    ["reads", "", store.operations],
  ];
}

/** Where in its process's loop a stream stands: all streams of a decile count as the last of them. */
const DECILES = Array.from({ length: 10 }, (_, index) => (index + 1) / 10);

/** Processes that all see the same change, within some time, and all try to publish it. */
function race(world: World, random: Random, withinMs: number): Finding[] {
  const { processes, rttMs, variables } = world;
  const store = new ModelStore(world, Math.min(0.99, pollLoad(world)));
  const agenda = new Agenda();
  let version = 0;
  let commits = 0;
  let conflicts = 0;
  let mostTries = 0;
  let timeouts = 0;
  let gaveUp = 0;
  let end = 0;

  /** The state is read, and compared; the entry that the commit checks is read first. */
  function attempt(arrival: number, tries: number): void {
    mostTries = Math.max(mostTries, tries);
    const seen = version;
    agenda.add(store.get(arrival) + rttMs, (at) => {
      const listed = store.list(at, variables);
      if (listed - arrival > TIMEOUT_MS) timeouts++;
      agenda.add(listed + rttMs, (next) => seen > 0 ? finish(next) : commit(next, seen, tries));
    });
  }

  function commit(arrival: number, seen: number, tries: number): void {
    commits++;
    const isFirst = seen === version;
    if (isFirst) version++;
    else conflicts++;
    const done = store.commit(arrival) + rttMs;
    if (done - arrival > TIMEOUT_MS) timeouts++;
    if (isFirst) return agenda.add(done, finish);
    if (tries === MAX_TRIES) return void gaveUp++;
    agenda.add(done + random() * Math.min(MAX_PAUSE_MS, 2 ** (tries - 1)), (at) => attempt(at, tries + 1));
  }

  function finish(at: number): void {
    end = Math.max(end, store.list(at, 1));
  }

  for (let process = 0; process < processes; process++) agenda.add(random() * withinMs, (at) => attempt(at, 1));
  agenda.run();
  return [
    ["store operations", "", store.operations],
    ["commits", "", commits],
    ["conflicts", "", conflicts],
    ["most tries of one process", "", mostTries],
    ["operations that took over 5 s", "", timeouts],
    ["processes that gave up", "", gaveUp],
    ["all done after", "s", end / 1_000],
  ];
}

/** All streams are cut at once; their clients come back, and ask for a session key. */
function storm(world: World, random: Random): Finding[] {
  const { clients, processes, openUs, keyShare } = world;
  const asks = Float64Array.from(
    { length: Math.round(clients * keyShare) },
    () => comingBack(random) + random() * 1_000,
  );
  asks.sort();
  const outcome = issueKeys(asks, world, random);
  const opensPerSecond = clients / (RETRY_MS[1] - RETRY_MS[0]) * 1_000 / processes;
  return [
    ["opened, per process", "streams/s", opensPerSecond],
    ["a core's share for that", "%", opensPerSecond * openUs / 1e4],
    ["session keys asked for", "keys/s", asks.length / 7],
    ["a key, p50", "ms", quantile(outcome.latencies, 0.5)],
    ["a key, p99", "ms", quantile(outcome.latencies, 0.99)],
    ["keys counted in one process's memory only", "%", outcome.inMemory / asks.length * 100],
    ["store operations", "", outcome.operations],
    ["the store has done it all after", "s", outcome.behindUntilMs / 1_000],
  ];
}

function comingBack(random: Random): number {
  return RETRY_MS[0] + random() * (RETRY_MS[1] - RETRY_MS[0]);
}

/** Every so many-th key's latency is kept. */
const SAMPLE = 100;

/** One read and one checked commit a key, through each process's guard. */
function issueKeys(asks: Float64Array, world: World, random: Random) {
  const { processes, rttMs } = world;
  const store = new ModelStore(world, Math.min(0.99, pollLoad(world)));
  const guards = { read: new Guards(processes), write: new Guards(processes) };
  const commits: { at: number; asked: number; process: number }[] = [];
  const latencies: number[] = [];
  let inMemory = 0;
  let issued = 0;

  function issue(latency: number): void {
    if (issued++ % SAMPLE === 0) latencies.push(latency);
  }

  /** @returns When it was done; nothing if it was not, and then its key is counted in memory. */
  function operate(at: number, asked: number, guard: Guards, process: number, run: (at: number) => number) {
    if (!guard.mayAsk(process, at)) return fallBack(at - asked);
    const done = run(at + rttMs / 2) + rttMs / 2;
    return guard.answered(process, at, done) ? done : fallBack(at + TIMEOUT_MS - asked);
  }

  function fallBack(latency: number): undefined {
    inMemory++;
    issue(latency);
  }

  function read(asked: number): void {
    const process = Math.floor(random() * processes);
    const done = operate(asked, asked, guards.read, process, (at) => store.get(at));
    if (done !== undefined) commits.push({ at: done, asked, process });
  }

  function write({ at, asked, process }: (typeof commits)[number]): void {
    const done = operate(at, asked, guards.write, process, (time) => store.commit(time));
    if (done !== undefined) issue(done - asked);
  }

  let next = 0;
  for (const asked of asks) {
    for (let due; (due = commits[next]) !== undefined && due.at <= asked; next++) write(due);
    read(asked);
  }
  for (; next < commits.length; next++) write(commits[next] as (typeof commits)[number]);
  return { latencies, inMemory, operations: store.operations, behindUntilMs: store.freeAt };
}

/** For each process, whether the store has just failed it: `src/store/guard.ts`. */
class Guards {
  /** When a failure is noticed; until then, operations go on being sent. */
  readonly #failsAt: Float64Array;
  readonly #retryAt: Float64Array;

  constructor(processes: number) {
    this.#failsAt = new Float64Array(processes).fill(Infinity);
    this.#retryAt = new Float64Array(processes);
  }

  mayAsk(process: number, at: number): boolean {
    if (at < (this.#failsAt[process] ?? Infinity)) return true;
    if (at < (this.#retryAt[process] ?? 0)) return false;
    this.#retryAt[process] = at + TIMEOUT_MS + GUARD_PAUSE_MS; // this one goes and sees
    return true;
  }

  /** @returns Whether the answer came in time. */
  answered(process: number, at: number, done: number): boolean {
    const isInTime = done - at <= TIMEOUT_MS;
    const hasFailed = at >= (this.#failsAt[process] ?? Infinity);
    if (isInTime && hasFailed) this.#failsAt[process] = Infinity;
    if (!isInTime && !hasFailed && this.#failsAt[process] === Infinity) {
      this.#failsAt[process] = at + TIMEOUT_MS;
      this.#retryAt[process] = at + TIMEOUT_MS + GUARD_PAUSE_MS;
    }
    return isInTime;
  }
}

/** Something that has an end: how much of it is taken, and how much there may be of what takes it. */
interface Limit {
  readonly name: string;
  /** 1 is all there is. */
  readonly taken: number;
  readonly of: string;
  /** How many of these there are now. */
  readonly now: number;
}

/** What is full first, at rest and at a change a second; derived from the costs, not simulated. */
function limits(world: World): Figure[] {
  const { clients, processes, lanes, listUs, entryUs, getUs, commitUs, deliveryUs, streamKiB, memoryMiB } = world;
  const sweepers = world.sweepers || processes;
  const keys = clients / world.keyEveryS;
  const windows = keys * (WINDOW_S + SWEEP_S / 2 / sweepers); // one that is dead waits for the next sweep
  const sweepUs = windows * (entryUs + listUs / SWEEP_PAGE);
  const streams = clients / processes;
  const all: Limit[] = [
    {
      name: "store, sweeps",
      taken: sweepers * sweepUs / SWEEP_S / 1e6 / lanes,
      of: "clients with a window",
      now: windows,
    },
    { name: "store, keys", taken: keys * (getUs + 2 * commitUs) / 1e6 / lanes, of: "keys/s", now: keys },
    { name: "store, polls", taken: pollLoad(world), of: "processes", now: processes },
    {
      name: "process, memory",
      taken: streams * streamKiB / 1_024 / memoryMiB,
      of: "streams a process",
      now: streams,
    },
    {
      name: "process, a change a second",
      taken: streams * deliveryUs / 1e6,
      of: "streams a process",
      now: streams,
    },
  ];
  return all.sort((a, b) => b.taken - a.taken).flatMap(({ name, taken, of, now }, place) => [
    figure(`${place + 1}. ${name}: taken`, "%", [taken * 100]),
    figure(`${place + 1}. ${name}: full at`, of, [now / taken]),
  ]);
}
