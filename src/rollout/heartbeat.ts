import type { Check, Entry, Store, Write } from "../store/store.ts";
import type { Clock } from "../values/clock.ts";
import { elect, type ElectionInput, type ElectionResult } from "./election.ts";
import { type Member, type Observation, observe } from "./observation.ts";

/** The prefix of the members' entries, by process ID. */
const MEMBERS = ["member"];
/** Holds the highest rank ever assigned, so that a rank is not assigned again after its members are removed. */
const HIGHEST_RANK = ["rollout"];

/** The process that sends a heartbeat. */
interface HeartbeatSender
  extends Pick<ElectionInput, "id" | "hash" | "rank" | "instanceId"> {
  /** What others compare with their own (`conflicts.ts`). */
  readonly names: Member["names"];
  readonly keyFingerprint: Member["keyFingerprint"];
  /** The previous observations of the process, and when it made them. */
  readonly previous: ReadonlyMap<string, Observation>;
  readonly previousAt: number | undefined;
  /** Whether this is the scheduled heartbeat of a period. */
  readonly isScheduled: boolean;
  readonly maxRepresentatives: number;
}

/** The result of a heartbeat. */
interface Heartbeat {
  readonly observations: ReadonlyMap<string, Observation>;
  /** When the observations were made, in milliseconds since the Unix epoch. */
  readonly observedAt: number;
  readonly decision: ElectionResult;
  /** Fails once another rollout has begun; `undefined` for a scheduled heartbeat, which does not look. */
  readonly fencing: Check | undefined;
}

/** What was read from the store. */
interface Reading {
  readonly observations: ReadonlyMap<string, Observation>;
  readonly observedAt: number;
  /** `undefined` if there is none; not read by a scheduled heartbeat of a process with a rank. */
  readonly highestRank: Entry<number> | undefined;
}

/**
 * Observes the members, decides, and writes the process's own entry. It counts as an observation only if all three
 * succeed: while processes cannot write, a missed heartbeat does not mean that they are dead.
 *
 * @returns `undefined` if another process wrote in the meantime, so that the heartbeat has to be repeated.
 */
export async function tryHeartbeat(
  store: Store,
  sender: HeartbeatSender,
  clock: Clock,
): Promise<Heartbeat | undefined> {
  const reading = await read(store, sender, clock);
  const observations = [...reading.observations.values()];
  const highestRank = reading.highestRank?.value ?? 0;
  const decision = elect(
    { ...sender, observations, highestRank },
    sender.maxRepresentatives,
  );
  const { checks, writes } = commitOf(sender, decision, reading, clock.now());
  let fencing = sender.isScheduled ? undefined : rankCheck(reading.highestRank);
  if (writes.length > 0) {
    const version = await store.commit(checks, writes);
    if (version === undefined) return undefined;
    if (decision.isNew) fencing = { key: HIGHEST_RANK, version };
  }
  const { observations: observed, observedAt } = reading;
  return { observations: observed, observedAt, decision, fencing };
}

/** The highest rank is read first: the check of it fails if a rollout begins between the two reads. */
async function read(
  store: Store,
  { rank, previous, previousAt, isScheduled }: HeartbeatSender,
  clock: Clock,
): Promise<Reading> {
  const isNeeded = rank === undefined || !isScheduled;
  const highestRank = isNeeded
    ? await store.get<number>(HIGHEST_RANK)
    : undefined;
  const now = clock.now();
  const observations = observe(await store.list<Member>(MEMBERS), {
    previous,
    previousAt,
    now,
    isScheduled,
  });
  return { observations, observedAt: now, highestRank };
}

function commitOf(
  sender: HeartbeatSender,
  decision: ElectionResult,
  reading: Reading,
  heartbeatAt: number,
) {
  const { id, hash, instanceId, names, keyFingerprint } = sender;
  const { rank, isRepresentative, isNew, rankSource, dead, removed } = decision;
  const checks = [
    ...dead,
    ...removed,
    ...rankSource === undefined ? [] : [rankSource],
  ].map(checkOf);
  const writes: Write[] = [
    ...dead.map(markDead),
    ...removed.map(({ id }) => ({ key: keyOf(id) })),
  ];
  const own = reading.observations.get(id);
  if (isRepresentative || own !== undefined) {
    const member: Member = {
      hash,
      rank,
      heartbeatAt,
      ...instanceId === undefined ? {} : { instanceId },
      ...names === undefined ? {} : { names },
      ...keyFingerprint === undefined ? {} : { keyFingerprint },
    };
    checks.push({ key: keyOf(id), version: own?.version ?? null });
    writes.push({
      key: keyOf(id),
      value: isRepresentative ? member : undefined,
    });
  }
  if (isNew) {
    checks.push(rankCheck(reading.highestRank));
    writes.push({ key: HIGHEST_RANK, value: rank });
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

function keyOf(id: string): string[] {
  return [...MEMBERS, id];
}

function checkOf({ id, version }: Observation): Check {
  return { key: keyOf(id), version };
}

function rankCheck(highestRank: Entry<number> | undefined): Check {
  return { key: HIGHEST_RANK, version: highestRank?.version ?? null };
}

function markDead({ id, member }: Observation): Write {
  return {
    key: keyOf(id),
    value: { ...member, hasLeft: true, wasFoundDead: true },
  };
}
