import {
  type Check,
  type Entry,
  getTuple,
  type Key,
  type Store,
  type Write,
} from "../store/store.ts";
import type { Clock } from "../values/clock.ts";
import {
  findConflicts,
  findOlderStranger,
  findStrangers,
  type OngoingConflict,
} from "./conflicts.ts";
import { elect, type ElectionResult, isApart, standApart } from "./election.ts";
import { addRollout, type History } from "./history.ts";
import {
  type Member,
  NEVER_OBSERVED,
  type Observation,
  observe,
  type Observed,
  type Self,
} from "./observation.ts";

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
  /** Whether the process has started with another configuration. */
  readonly isReload: boolean;
  /** The members. */
  readonly observed: Observed;
  /** The process that stands apart, if there is one. */
  readonly apart: Observed;
  readonly decision: ElectionResult;
  /** A member of an app that came first, so that this process stands apart. */
  readonly stranger: Observation | undefined;
  /** Since when there have been entries of strangers, by the monotonic clock: an app that restarts does not reset it. */
  readonly strangersSince: number | undefined;
  readonly conflicts: readonly OngoingConflict[];
  /** The highest rank that was ever assigned. */
  readonly highestRank: number;
  /** Fails once another rollout has begun. */
  readonly rankCheck: Check;
  readonly history: History;
}

/**
 * Observes the members, decides, and writes the process's own entry. It counts as an observation only if all three
 * succeed: while processes cannot write, a missed heartbeat does not mean that they are dead.
 *
 * @returns `undefined` if another process wrote in the meantime, so that the heartbeat has to be repeated.
 */
export async function tryHeartbeat(
  store: Store,
  { self, rankAtRead, previous, isScheduled, maxRepresentatives }:
    HeartbeatInput,
  clock: Clock,
): Promise<Heartbeat | undefined> {
  // They are read first: the check of the rank fails if a rollout begins between the two reads.
  const [highest, recorded, apartEntry] = await getTuple<
    [number, History, Member]
  >(store, [HIGHEST_RANK, HISTORY, APART]);
  const now = clock.now();
  const entries = await store.list<Member>(MEMBERS);
  const observeNow = (found: Entry<Member>[], before = NEVER_OBSERVED) =>
    observe(found, { previous: before, now, isScheduled });
  const observed = observeNow(entries, previous?.observed);
  const apart = observeNow(apartEntry ? [apartEntry] : [], previous?.apart);
  const members = [...observed.members.values()];
  const observations = [...members, ...apart.members.values()];
  const stranger = findOlderStranger(self, members);
  const keepsRank = previous?.decision.hash === self.hash; // a half rank has another hash
  const highestRank = highest?.value ?? 0;
  const decision = stranger !== undefined ? standApart(self) : elect({
    self,
    rank: keepsRank ? previous.decision.rank : 0,
    rankAtRead,
    observations: members,
    highestRank,
    maxRepresentatives,
  });
  const own = observed.members.get(self.id);
  const { checks, writes } = commitOf(self, decision, own, clock.now());
  const rankCheck = { key: HIGHEST_RANK, version: highest?.version ?? null };
  const isReload = previous !== undefined &&
    (previous.isReload || previous.self.hash !== self.hash);
  let history = recorded?.value ?? [];
  if (decision.isNew) {
    const { rank } = decision;
    history = addRollout(history, self, { rank, since: now, isReload });
    checks.push(rankCheck);
    checks.push({ key: HISTORY, version: recorded?.version ?? null });
    writes.push({ key: HIGHEST_RANK, value: rank });
    writes.push({ key: HISTORY, value: history });
  }
  const version = writes.length > 0 ? await store.commit(checks, writes) : null;
  if (version === undefined) return undefined;
  const strangers = findStrangers(self, observations);
  const strangersSince = strangers.length > 0
    ? previous?.strangersSince ?? clock.monotonic()
    : undefined;
  const conflicts = findConflicts(
    self,
    observations,
    strangers,
    clock.monotonic() - (strangersSince ?? Infinity),
  );
  const known = new Map(
    previous?.conflicts.map(({ type, since }) => [type, since]),
  );
  return {
    self,
    isReload,
    observed,
    apart,
    decision,
    stranger,
    strangersSince,
    conflicts: conflicts.map(({ type, detail }) => ({
      type,
      detail,
      since: known.get(type) ?? now,
    })),
    highestRank: decision.isNew ? decision.rank : highestRank,
    rankCheck: decision.isNew ? { key: HIGHEST_RANK, version } : rankCheck,
    history,
  };
}

/** @param own The process's own entry. */
function commitOf(
  self: Self,
  decision: ElectionResult,
  own: Observation | undefined,
  heartbeatAt: number,
): { checks: Check[]; writes: Write[] } {
  const { id, ...announced } = self;
  const { hash, rank, isRepresentative, rankSource } = decision;
  const { dead, removed } = decision;
  const unchanged = [...dead, ...removed];
  if (rankSource !== undefined) unchanged.push(rankSource);
  const checks = unchanged.map(checkOf);
  const writes: Write[] = [
    ...dead.map(markDead),
    ...removed.map(({ id }) => ({ key: keyOf(id) })),
  ];
  const member: Member = { ...announced, hash, rank, heartbeatAt };
  if (isRepresentative || own !== undefined) {
    const value = isRepresentative ? member : undefined;
    checks.push({ key: keyOf(id), version: own?.version ?? null });
    writes.push({ key: keyOf(id), value });
  }
  if (isApart(decision)) {
    const instanceId = self.instanceId ?? id; // its key has no ID
    writes.push({ key: APART, value: { ...member, instanceId } });
  }
  return { checks, writes };
}

/**
 * Marks the entry of a process as having left. The entry stays for a while, so that the process finds its rank when it
 * restarts. While a process stops, it needs an entry of its own, since those that represent it may be gone before it is.
 *
 * @param stopping Whether it still answers requests.
 */
export async function markLeft(
  store: Store,
  { self: { id, ...announced }, decision }: Heartbeat,
  { stopping, now }: { readonly stopping: boolean; readonly now: number },
): Promise<void> {
  const { hash, rank } = decision;
  const key = isApart(decision) ? APART : keyOf(id);
  const entry = await store.get<Member>(key);
  if (entry === undefined && (isApart(decision) || !stopping)) return;
  const member: Member = { ...announced, hash, rank, heartbeatAt: now };
  const value = { ...entry?.value ?? member, hasLeft: true, stopping };
  await store.commit([], [{ key, value }]);
}

function keyOf(id: string): Key {
  return [...MEMBERS, id];
}

function checkOf({ id, version }: Observation): Check {
  return { key: keyOf(id), version };
}

function markDead({ id, member }: Observation): Write {
  return {
    key: keyOf(id),
    value: { ...member, hasLeft: true, wasFoundDead: true },
  };
}
