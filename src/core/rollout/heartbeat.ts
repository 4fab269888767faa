import type { Check, Entry, Key, Store, Write } from "../store/store.ts";
import type { Clock } from "../values/clock.ts";
import { type Activations, followElection } from "./activations.ts";
import { findStrangers } from "./conflicts.ts";
import { elect, type ElectionResult } from "./election.ts";
import {
  isLive,
  type Member,
  type Observation,
  observe,
  type Observed,
  type Self,
} from "./observation.ts";

/** The prefix of the members' entries, by process ID. */
export const MEMBERS: Key = ["member"];
/** Holds the highest rank ever assigned, so that a rank is not assigned again after its members are removed. */
export const HIGHEST_RANK: Key = ["rollout"];
/** Holds the configurations that were active, so that a rollback is not mistaken for a new one. */
const ACTIVATIONS = ["activations"];

/** What a heartbeat depends on. */
interface HeartbeatInput {
  readonly self: Self;
  /** The rank of its configuration, once the process has announced it. */
  readonly rank: number | undefined;
  /** Whether the process had another configuration before. */
  readonly isReload: boolean;
  /** The highest rank that the process knew when it began to read its sources; `undefined` if it knew none. */
  readonly rankAtRead: number | undefined;
  /** What the process has observed so far. */
  readonly previous: Observed;
  /** Whether this is the scheduled heartbeat of a period. */
  readonly isScheduled: boolean;
  readonly maxRepresentatives: number;
}

/** The result of a heartbeat. */
interface Heartbeat {
  readonly observed: Observed;
  readonly decision: ElectionResult;
  /** Members without a common PUBLIC variable, also dead ones. */
  readonly strangers: readonly Observation[];
  /** The highest rank that was ever assigned. */
  readonly highestRank: number;
  /** Fails once another rollout has begun. */
  readonly rankCheck: Check;
  /** The configurations that were active. The last one still is, unless this process stands apart. */
  readonly activations: Activations;
  /** Whether this process has recorded that another one is active now. */
  readonly hasRecorded: boolean;
}

/** What is found instead if the sources may have been read before those of a newer rollout. */
interface Outdated {
  /** The rank of that rollout. */
  readonly outdatedBy: number;
}

/**
 * Observes the members, decides, and writes the process's own entry. It counts as an observation only if all three
 * succeed: while processes cannot write, a missed heartbeat does not mean that they are dead.
 *
 * A process begins no rollout if another has begun since its sources were read: of two edits of a file that all replicas
 * read, the replica that read the first one would publish it over the second one.
 *
 * @returns `undefined` if another process wrote in the meantime, so that the heartbeat has to be repeated.
 */
export async function tryHeartbeat(
  store: Store,
  input: HeartbeatInput,
  clock: Clock,
): Promise<Heartbeat | Outdated | undefined> {
  const { self, rank, rankAtRead, previous, isScheduled } = input;
  // They are read first: the check of the rank fails if a rollout begins between the two reads.
  const [highest, recorded] = await readRollout(store);
  const highestRank = highest?.value ?? 0;
  const now = clock.now();
  const entries = await store.list<Member>(MEMBERS);
  const observed = observe(entries, { previous, now, isScheduled });
  const observations = [...observed.members.values()];
  const strangers = findStrangers(self, observations);
  const decision = elect({
    self,
    rank,
    observations,
    highestRank,
    maxRepresentatives: input.maxRepresentatives,
  });
  if (decision.isNew && highestRank > (rankAtRead ?? Infinity)) {
    return { outdatedBy: highestRank };
  }
  const own = observed.members.get(self.id);
  const { checks, writes } = commitOf(self, decision, own, clock.now());
  let rankCheck = { key: HIGHEST_RANK, version: highest?.version ?? null };
  if (decision.isNew) {
    checks.push(rankCheck);
    writes.push({ key: HIGHEST_RANK, value: decision.rank });
  }
  const before = recorded?.value ?? [];
  const isApart = strangers.some(isLive); // no configuration is active for all
  const { activations, isRecorder } = isApart
    ? { activations: before, isRecorder: false }
    : followElection(before, input, decision, observed);
  const hasRecorded = activations !== before && isRecorder;
  if (hasRecorded) {
    checks.push({ key: ACTIVATIONS, version: recorded?.version ?? null });
    writes.push({ key: ACTIVATIONS, value: activations });
  }
  if (writes.length > 0) {
    const version = await store.commit(checks, writes);
    if (version === undefined) return undefined;
    if (decision.isNew) rankCheck = { key: HIGHEST_RANK, version };
  }
  return {
    observed,
    decision,
    strangers,
    highestRank: decision.isNew ? decision.rank : highestRank,
    rankCheck,
    activations,
    hasRecorded,
  };
}

/** Reads the highest rank, and the configurations that were active. */
async function readRollout(store: Store) {
  const entries: unknown[] = await store.getMany([HIGHEST_RANK, ACTIVATIONS]);
  return entries as [
    Entry<number> | undefined,
    Entry<Activations> | undefined,
  ];
}

/** @param own The process's own entry. */
function commitOf(
  self: Self,
  decision: ElectionResult,
  own: Observation | undefined,
  heartbeatAt: number,
): { checks: Check[]; writes: Write[] } {
  const { id, ...announced } = self;
  const { rank, isRepresentative, rankSource, dead, removed } = decision;
  const unchanged = [...dead, ...removed];
  if (rankSource !== undefined) unchanged.push(rankSource);
  const checks = unchanged.map(checkOf);
  const writes: Write[] = [
    ...dead.map(markDead),
    ...removed.map(({ id }) => ({ key: keyOf(id) })),
  ];
  if (isRepresentative || own !== undefined) {
    const member: Member = { ...announced, rank, heartbeatAt };
    const value = isRepresentative ? member : undefined;
    checks.push({ key: keyOf(id), version: own?.version ?? null });
    writes.push({ key: keyOf(id), value });
  }
  return { checks, writes };
}

/**
 * Marks the entry of a process as having left, if it has one. The entry stays for a while, so that the process finds its
 * rank when it restarts.
 */
export async function markLeft(store: Store, id: string): Promise<void> {
  const key = keyOf(id);
  const entry = await store.get<Member>(key);
  if (entry === undefined) return; // others represent it
  await store.commit([], [{ key, value: { ...entry.value, hasLeft: true } }]);
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
