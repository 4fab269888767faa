/** The simulated world, and what things cost in it. */
export const WORLD = {
  clients: 1_000_000,
  processes: 1_000,
  seed: 1,
  rounds: 3,
  /** PUBLIC variables: publishing reads them all. */
  variables: 50,
  /** From a process to the store and back. */
  rttMs: 1,
  /** The store's time for a read, and for each further key. */
  getUs: 50,
  keyUs: 12,
  /** … for a list, and for each entry. */
  listUs: 55,
  entryUs: 1,
  /** … for a commit, and for each further write. */
  commitUs: 47,
  writeUs: 4.2,
  /** How long a commit waits for the disk, together with others. */
  flushMs: 10,
  /** How many windows are counted in one commit: 10 on a `denokv` server, 50 on PostgreSQL, 100 elsewhere. */
  batch: 10,
  /** A process's own time to deliver an event to a stream, and to open a stream: `deno task bench streams`. */
  deliveryUs: 12.4,
  openUs: 163,
  /** What a stream takes, and a process without any: as in the formula of docs/scale.md. */
  streamKiB: 62,
  idleMiB: 70,
  /** The memory of a process; Deno Deploy's default. */
  memoryMiB: 768,
  /** How often an idle client asks for a session key. */
  keyEveryS: 600,
  /** The share of clients that ask for a key after a reconnect. */
  keyShare: 1,
  /** The number of processes that sweep; 0 is all of them. */
  sweepers: 1,
};

/** The parameters of a simulation. */
export type World = typeof WORLD;
/** Returns numbers in [0, 1). */
export type Random = () => number;
/** One result of a simulated scenario. */
export type Finding = readonly [name: string, unit: string, value: number];

/** How often a process polls for events and stored variables: `src/core/background_tasks.ts`. */
export const POLL_MS = 1_000;
/** The mean period of heartbeats, and how many representatives a configuration has: `src/core/rollout/`. */
export const HEARTBEAT_MS = 4_500;
export const MAX_REPRESENTATIVES = 8;
/** Rate limit windows and their sweep: `src/core/keys/rate_limit.ts`. */
export const WINDOW_S = 60;
export const SWEEP_S = 60;
export const SWEEP_PAGE = 500;
/** When clients reconnect: `src/core/changes/hub.ts`. */
export const RETRY_MS = [2_000, 8_000] as const;
/** Commits that meet a conflict: `src/core/store/commits.ts`. */
export const MAX_TRIES = 40;
export const MAX_PAUSE_MS = 100;
/** The circuit breaker: `src/core/store/circuit_breaker.ts`. */
export const TIMEOUT_MS = 5_000;
export const OPEN_MS = 1_000;

/** Returns the share of the store's time that idle processes take: polls, heartbeats, and the lease of the sweep. */
export function idleLoad(
  { processes, getUs, keyUs, listUs, entryUs, commitUs }: World,
): number {
  const representatives = Math.min(MAX_REPRESENTATIVES, processes);
  const heartbeats = processes * (listUs + representatives * entryUs) +
    representatives * commitUs;
  const polls = processes * (getUs + keyUs); // the newest event's id, and the newest write of a stored variable
  const usPerS = polls * 1_000 / POLL_MS + heartbeats * 1_000 / HEARTBEAT_MS +
    processes * getUs / SWEEP_S;
  return usPerS / 1e6;
}
