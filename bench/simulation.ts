/**
 * A million clients on a thousand processes over one store, in virtual time: no sockets, no waiting.
 *
 *     deno task bench simulation --clients 1000000 --processes 1000 --seed 1
 *     deno task bench simulation --lanes 16 --rttMs 10
 *
 * The processes do what the source does: each looks for new events and for stored variables once a second and at a hint, and
 * for the members of the rollout every 4.5 s; publishes by joining, asking for a permit, comparing and committing with a
 * check; counts session keys with a read and a checked commit; gives a store up for a second that has not answered for five;
 * one of them sweeps old windows once a minute. Costs are parameters; their defaults are what the other programs here
 * measured on a SQLite file. Not modelled: the clients' own networks, lost packets, stores that do several things at once,
 * other than by `--lanes`, and speakers of the rollout that give way to others.
 *
 * Each figure is the median of `--rounds` runs with seeds that follow each other, with the least and the most.
 */
import { seededRandom } from "../tools/seeded_random.ts";
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
  sweepers: 1,
};

/** As in `src/`: gateway.ts, events/hub.ts, store/retry.ts, store/guard.ts, rate_limit.ts, rollout/. */
const POLL_MS = 1_000;
const LOOK_MS = 4_500;
const SPEAKERS = 8;
const SWEEP_S = 60;
const SWEEP_PAGE = 500;
const SWEEP_BATCH = 10;
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
      ...prefixed("all publish it within 500 ms, as after a hint", race(world, random, 500)),
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

/** The share of the store's time that goes into looking: for events and stored variables, for members, for who sweeps. */
function restLoad({ processes, getUs, listUs, entryUs, commitUs, lanes }: World): number {
  const speakers = Math.min(SPEAKERS, processes);
  const looks = processes * (listUs + speakers * entryUs) + speakers * commitUs;
  const usPerS = processes * 2 * getUs * 1_000 / POLL_MS + looks * 1_000 / LOOK_MS + processes * getUs / SWEEP_S;
  return usPerS / 1e6 / lanes;
}

/** From the commit of one process to all streams of all processes. */
function change(world: World, random: Random, isWatched: boolean): Finding[] {
  const { clients, processes, rttMs, deliveryUs } = world;
  const store = new ModelStore(world, Math.min(0.99, restLoad(world)));
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

interface Publisher {
  tries: number;
  /** Whether it has an entry among the members. */
  isRepresentative: boolean;
  /** Whether the rollout began with it: others have their rank from its entry. */
  isFirst?: boolean;
}

/** Processes that all see the same change, within some time, make it their configuration, and all try to publish it. */
function race(world: World, random: Random, withinMs: number): Finding[] {
  const { processes, rttMs, variables } = world;
  const store = new ModelStore(world, Math.min(0.99, restLoad(world)));
  const agenda = new Agenda();
  let version = 0;
  let members = 0;
  let renewals = 0;
  let joins = 0;
  let refusedJoins = 0;
  let commits = 0;
  let conflicts = 0;
  let mostTries = 0;
  let timeouts = 0;
  let gaveUp = 0;
  let end = 0;

  /**
   * The highest rank and the members are read. Whoever sees none of its kind begins the rollout; few more are needed, and each
   * checks that the entry from which it has the rank is still what it was.
   */
  function join(arrival: number, tries: number): void {
    mostTries = Math.max(mostTries, tries);
    look(arrival, (at, seen) => {
      if (seen.members >= SPEAKERS) return permit(at, { tries: 1, isRepresentative: false });
      joins++;
      const isFirst = members === 0;
      const isDone = isFirst || seen.members > 0 && seen.renewals === renewals;
      const done = store.commit(at) + rttMs;
      if (!isDone) {
        refusedJoins++;
        return agenda.add(done + pause(tries), (next) => join(next, tries + 1));
      }
      members++;
      agenda.add(done, (next) => permit(next, { tries: 1, isRepresentative: true, isFirst }));
    });
  }

  function look(arrival: number, then: (at: number, seen: { members: number; renewals: number }) => void): void {
    agenda.add(store.get(arrival) + rttMs, (at) => {
      const seen = { members, renewals };
      const listed = store.list(at, SPEAKERS + members); // those of the configuration before are there still
      if (listed - at > TIMEOUT_MS) timeouts++;
      agenda.add(listed + rttMs, (next) => then(next, seen));
    });
  }

  /** Looks once more; who isRepresentative for the configuration renews its entry. */
  function permit(arrival: number, publisher: Publisher): void {
    look(arrival, (at) => {
      if (!publisher.isRepresentative) return attempt(at, publisher);
      joins++;
      if (publisher.isFirst) renewals++;
      agenda.add(store.commit(at) + rttMs, (next) => attempt(next, publisher));
    });
  }

  /** The state is read, and compared; the entry that the commit checks is read first. */
  function attempt(arrival: number, publisher: Publisher): void {
    mostTries = Math.max(mostTries, publisher.tries);
    const seen = version;
    agenda.add(store.get(arrival) + rttMs, (at) => {
      const listed = store.list(at, variables);
      if (listed - at > TIMEOUT_MS) timeouts++;
      agenda.add(listed + rttMs, (next) => seen > 0 ? finish(next) : commit(next, seen, publisher));
    });
  }

  function commit(arrival: number, seen: number, publisher: Publisher): void {
    const { tries } = publisher;
    commits++;
    const isFirst = seen === version;
    if (isFirst) version++;
    else conflicts++;
    const done = store.commit(arrival) + rttMs;
    if (done - arrival > TIMEOUT_MS) timeouts++;
    if (isFirst) return agenda.add(done, finish);
    if (tries === MAX_TRIES) return void gaveUp++;
    agenda.add(done + pause(tries), (at) => permit(at, { ...publisher, tries: tries + 1 }));
  }

  function pause(tries: number): number {
    return random() * Math.min(MAX_PAUSE_MS, 2 ** (tries - 1));
  }

  function finish(at: number): void {
    end = Math.max(end, store.list(at, 1));
  }

  for (let process = 0; process < processes; process++) agenda.add(random() * withinMs, (at) => join(at, 1));
  agenda.run();
  return [
    ["store operations", "", store.operations],
    ["commits of members", "", joins],
    ["refused commits of members", "", refusedJoins],
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
  const store = new ModelStore(world, Math.min(0.99, restLoad(world)));
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
    {
      name: "store, keys",
      taken: keys * (getUs + commitUs * (1 + 1 / SWEEP_BATCH)) / 1e6 / lanes,
      of: "keys/s",
      now: keys,
    },
    { name: "store, looking", taken: restLoad(world), of: "processes", now: processes },
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
