import {
  type Check,
  type Entry,
  getTuple,
  type Key,
  type Store,
  type Write,
} from "../store/store.ts";
import type { Clock } from "../values/clock.ts";
import { elect, type ElectionResult, standApart } from "./election.ts";
import {
  addRollout,
  findRollback,
  type History,
  type Rollback,
} from "./history.ts";
import {
  isForgotten,
  isLive,
  type Member,
  type Observation,
  observe,
  type Observed,
  type Self,
} from "./observation.ts";
import { findOlderStranger } from "./strangers.ts";

/** The prefix of the members' entries, by process ID. */
export const MEMBERS: Key = ["member"];
/** Holds the highest rank ever assigned, so that a rank is not assigned again after its members are removed. */
export const HIGHEST_RANK: Key = ["rollout"];
/** Holds the history of rollouts. It has the name that versions until ebbde15d read. */
const HISTORY: Key = ["activations"];
/** Holds the entry of a process that stands apart: it is no member, but the app that came first has to learn of it. */
export const APART: Key = ["apart"];

/** What a heartbeat depends on. */
interface HeartbeatInput {
  readonly self: Self;
  /** The highest rank when the process began to read its sources; `undefined` if the store failed. */
  readonly rankAtRead: number | undefined;
  /** The last heartbeat; `undefined` before the first one. */
  readonly previous: Heartbeat | undefined;
  /** Whether this is the scheduled heartbeat of a period. */
  readonly isScheduled: boolean;
  readonly maxRepresentatives: number;
}

/** What a process has announced with a heartbeat, and what it has found. */
export interface Heartbeat {
  readonly self: Self;
  /** Whether the configuration has changed since the process started, so that it came with a reload. */
  readonly isReload: boolean;
  /** The members. */
  readonly observed: Observed;
  /** The process that stands apart, if there is one. */
  readonly apart: Observed;
  readonly decision: ElectionResult;
  /** The highest rank that was ever assigned. */
  readonly highestRank: number;
  /** Fails once another rollout has begun. */
  readonly rankCheck: Check;
  readonly history: History;
}

/**
 * Reads and observes the members, decides, and writes the process's own entry. It counts as an observation only if all of
 * that succeeds: while processes cannot write, a missed heartbeat does not mean that they are dead.
 *
 * @returns `undefined` if another process wrote in the meantime, so that the heartbeat has to be repeated.
 */
export async function tryHeartbeat(
  store: Store,
  input: HeartbeatInput,
  clock: Clock,
): Promise<Heartbeat | undefined> {
  const { self, previous, isScheduled } = input;
  const found = await read(store);
  const now = clock.now();
  const observing = { now, isScheduled };
  const observed = observe(found.members, previous?.observed, observing);
  const apart = observe(found.apart, previous?.apart, observing);
  const decision = decide(input, observed, found.highestRank);
  const { rank, isNew } = decision;
  const isReload = hasReloaded(self, previous);
  const { checks, writes } = commitOf(self, decision, observed, clock.now());
  let { highestRank, rankCheck, history } = found;
  if (isNew) {
    history = addRollout(history, self, { rank, since: now, isReload });
    checks.push(rankCheck);
    writes.push({ key: HIGHEST_RANK, value: rank });
    writes.push({ key: HISTORY, value: history });
  }
  const version = writes.length > 0 ? await store.commit(checks, writes) : null;
  if (version === undefined) return undefined;
  if (isNew) {
    highestRank = rank;
    rankCheck = { key: HIGHEST_RANK, version };
  }
  return {
    self,
    isReload,
    observed,
    apart,
    decision,
    highestRank,
    rankCheck,
    history,
  };
}

/** What a heartbeat reads. */
interface Found
  extends Pick<Heartbeat, "highestRank" | "rankCheck" | "history"> {
  readonly members: readonly Entry<Member>[];
  readonly apart: readonly Entry<Member>[];
}

/** The rank is read first: its check fails if a rollout begins before the members are read. */
async function read(store: Store): Promise<Found> {
  const [highest, history, apart] = await getTuple<[number, History, Member]>(
    store,
    [HIGHEST_RANK, HISTORY, APART],
  );
  return {
    highestRank: highest?.value ?? 0,
    rankCheck: { key: HIGHEST_RANK, version: highest?.version ?? null },
    history: history?.value ?? [],
    apart: apart === undefined ? [] : [apart],
    members: await store.list<Member>(MEMBERS),
  };
}

function decide(
  { self, rankAtRead, previous, maxRepresentatives }: HeartbeatInput,
  observed: Observed,
  highestRank: number,
): ElectionResult {
  const stranger = findOlderStranger(self, observed.members);
  if (stranger !== undefined) return standApart(self);
  const keepsRank = previous?.decision.hash === self.hash; // a half rank has another hash
  const rank = keepsRank ? previous.decision.rank : 0;
  return elect({
    self,
    rank,
    rankAtRead,
    observations: observed.members,
    highestRank,
    maxRepresentatives,
  });
}

function hasReloaded({ hash }: Self, previous: Heartbeat | undefined): boolean {
  if (previous === undefined) return false;
  return previous.isReload || previous.self.hash !== hash;
}

/** Returns the revision of the active configuration, if it is known. */
export function activeRevision(
  { self, decision, observed }: Heartbeat,
): string | undefined {
  if (decision.role !== "superseded") return self.revision;
  const active = observed.members.find((other) =>
    isLive(other) && other.member.hash === decision.active
  );
  return active?.member.revision;
}

/** Returns what is known about the rollback, if the active configuration was active before. */
export function rollbackOf(
  { decision, history }: Heartbeat,
): Rollback | undefined {
  if (decision.role === "apart") return undefined;
  return findRollback(history, decision.active);
}

/** What a heartbeat writes, unless somebody has changed any of it in the meantime. */
function commitOf(
  self: Self,
  decision: ElectionResult,
  { members }: Observed,
  heartbeatAt: number,
): { checks: Check[]; writes: Write[] } {
  const { role, isRepresentative, rankSource, ended } = decision;
  const checks = ended.map(checkOf);
  const writes = ended.map(markOrDelete);
  if (rankSource !== undefined) checks.push(checkOf(rankSource));
  const entry = entryOf(self, decision, heartbeatAt);
  const key = keyOf(self.id);
  const own = members.find(({ id }) => id === self.id);
  if (isRepresentative || own !== undefined) {
    const value = isRepresentative ? entry.value : undefined;
    checks.push({ key, version: own?.version ?? null });
    writes.push({ key, value });
  }
  if (role === "apart") writes.push(entry);
  return { checks, writes };
}

/**
 * Marks a process as having left. The entry stays for a while, so that the process finds its rank when it restarts. While
 * a process stops, it needs an entry of its own, since those that represent it may be gone before it is.
 *
 * @param stopping Whether it still answers requests.
 */
export async function markLeft(
  store: Store,
  { self, decision }: Heartbeat,
  { stopping, now }: { readonly stopping: boolean; readonly now: number },
): Promise<void> {
  const { key, value } = entryOf(self, decision, now);
  const left: Member = { ...value, hasLeft: true, stopping };
  await store.commit([], [{ key, value: left }]);
}

/** The entry with which a process announces itself. */
function entryOf(
  { id, ...announced }: Self,
  { role, hash, rank }: ElectionResult,
  heartbeatAt: number,
): { key: Key; value: Member } {
  const value = { ...announced, hash, rank, heartbeatAt };
  if (role !== "apart") return { key: keyOf(id), value };
  const instanceId = announced.instanceId ?? id; // its key has no ID
  return { key: APART, value: { ...value, instanceId } };
}

function keyOf(id: string): Key {
  return [...MEMBERS, id];
}

function checkOf({ id, version }: Observation): Check {
  return { key: keyOf(id), version };
}

function markOrDelete(observation: Observation): Write {
  const { id, member } = observation;
  const marked = { ...member, hasLeft: true, wasFoundDead: true };
  return {
    key: keyOf(id),
    value: isForgotten(observation) ? undefined : marked,
  };
}
