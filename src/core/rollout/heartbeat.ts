import type { Check, Entry, Key, Store, Write } from "../store/store.ts";
import type { Clock } from "../values/clock.ts";
import {
  activate,
  type Activations,
  type Active,
  rejoin,
} from "./activations.ts";
import { findStrangers } from "./conflicts.ts";
import { elect, type ElectionResult, lowestRanked } from "./election.ts";
import {
  isLive,
  type Member,
  type Observation,
  observe,
  type Observed,
  placeOf,
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
  /** What the process has observed so far. */
  readonly previous: Observed;
  /** The configurations that were active, as far as the process knows. */
  readonly activations: Activations;
  /** Whether this is the scheduled heartbeat of a period. */
  readonly isScheduled: boolean;
  readonly maxRepresentatives: number;
}

/** The result of a heartbeat. */
interface Heartbeat {
  readonly observed: Observed;
  readonly decision: ElectionResult;
  /** The highest rank that was ever assigned; `undefined` if it was not read. */
  readonly highestRank: number | undefined;
  /** Fails once another rollout has begun; empty for a scheduled heartbeat, after which nothing is committed. */
  readonly fencing: readonly Check[];
  /** The configurations that were active. The last one still is, unless this process stands apart. */
  readonly activations: Activations;
  /** Whether this process has recorded that another one is active now. */
  readonly hasRecorded: boolean;
}

/**
 * Observes the members, decides, and writes the process's own entry. It counts as an observation only if all three
 * succeed: while processes cannot write, a missed heartbeat does not mean that they are dead.
 *
 * @returns `undefined` if another process wrote in the meantime, so that the heartbeat has to be repeated.
 */
export async function tryHeartbeat(
  store: Store,
  input: HeartbeatInput,
  clock: Clock,
): Promise<Heartbeat | undefined> {
  const { self, rank, previous, isScheduled, maxRepresentatives } = input;
  const isRead = rank === undefined || !isScheduled;
  // They are read first: the check of the rank fails if a rollout begins between the two reads.
  const [highest, recorded] = isRead ? await readRollout(store) : [];
  const highestRank = isRead ? highest?.value ?? 0 : undefined;
  const now = clock.now();
  const entries = await store.list<Member>(MEMBERS);
  const observed = observe(entries, { previous, now, isScheduled });
  const decision = elect({
    self,
    rank,
    observations: [...observed.members.values()],
    highestRank: highestRank ?? 0,
    maxRepresentatives,
  });
  const record = await recordActive(store, {
    heartbeat: input,
    decision,
    observed,
    recorded,
    isRead,
  });
  const own = observed.members.get(self.id);
  const rankCheck = { key: HIGHEST_RANK, version: highest?.version ?? null };
  const { checks, writes } = commitOf(self, decision, own, clock.now());
  let fencing = isScheduled ? [] : [rankCheck];
  if (decision.isNew) {
    checks.push(rankCheck);
    writes.push({ key: HIGHEST_RANK, value: decision.rank });
  }
  if (record.check !== undefined) {
    checks.push(record.check);
    writes.push({ key: ACTIVATIONS, value: record.activations });
  }
  if (writes.length > 0) {
    const version = await store.commit(checks, writes);
    if (version === undefined) return undefined;
    if (decision.isNew) fencing = [{ key: HIGHEST_RANK, version }];
  }
  return {
    observed,
    decision,
    highestRank: decision.isNew ? decision.rank : highestRank,
    fencing,
    activations: record.activations,
    hasRecorded: record.check !== undefined,
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

/** What {@linkcode recordActive} is based on. */
interface RecordInput {
  readonly heartbeat: HeartbeatInput;
  readonly decision: ElectionResult;
  readonly observed: Observed;
  readonly recorded: Entry<Activations> | undefined;
  /** Whether `recorded` has been read. */
  readonly isRead: boolean;
}

/** The configurations that were active, and the check if they have to be written. */
interface ActivationRecord {
  readonly activations: Activations;
  readonly check?: Check;
}

/**
 * Returns the configurations that were active, followed by the active one. A process that joins the active
 * configuration writes them. The first living process writes any other change, which it looks for in every period: two
 * processes may disagree for some seconds whether a third is dead, and would record outdated changes.
 */
async function recordActive(
  store: Store,
  { heartbeat, decision, observed, recorded, isRead }: RecordInput,
): Promise<ActivationRecord> {
  const { self, rank, activations } = heartbeat;
  const { active: hash, isFirst } = decision;
  const isApart = findStrangers(self, observed.members.values()).some(isLive);
  if (isApart) return { activations }; // no configuration is active for all
  const isKnown = activations.at(-1)?.hash === hash;
  if (isKnown && !isRead && !isFirst) return { activations };
  const entry = isRead ? recorded : await store.get<Activations>(ACTIVATIONS);
  const before = entry?.value ?? [];
  const active = describeActive(heartbeat, decision, observed);
  let after = activate(before, active, observed.at);
  const isJoining = rank === undefined && hash === self.hash;
  if (isJoining) after = rejoin(after, active);
  const mayRecord = isJoining || isFirst;
  if (after === before || !mayRecord) return { activations: after };
  const check = { key: ACTIVATIONS, version: entry?.version ?? null };
  return { activations: after, check };
}

/** Returns the active configuration as this process's own, or as that of a living member. */
function describeActive(
  { self, isReload }: HeartbeatInput,
  { active, rank, isNew }: ElectionResult,
  { members }: Observed,
): Active {
  if (active === self.hash) {
    const { revision, instanceId: place = self.id } = self;
    return { hash: active, revision, rank, place, isReload: isReload && isNew };
  }
  const living = members.values().filter((other) =>
    isLive(other) && other.member.hash === active
  );
  const first = lowestRanked([...living]);
  return {
    hash: active,
    revision: first?.member.revision,
    rank: first?.member.rank ?? rank,
    place: first && placeOf(first),
    isReload: false,
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
 * Marks the entry of a process as having left. The entry stays for a while, so that the process finds its rank when it
 * restarts.
 *
 * @returns `undefined` if the entry changed in the meantime, so that this has to be repeated.
 */
export async function tryMarkLeft(
  store: Store,
  id: string,
): Promise<true | undefined> {
  const entry = await store.get<Member>(keyOf(id));
  if (entry === undefined) return true; // others represent it
  const { key, version } = entry;
  const value: Member = { ...entry.value, hasLeft: true };
  return await store.commit([{ key, version }], [{ key, value }]) === undefined
    ? undefined
    : true;
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
