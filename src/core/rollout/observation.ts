import type { Entry } from "../store/store.ts";

/** The entry of a process in the store. */
export interface Member {
  /** The hash of its configuration. */
  readonly hash: string;
  /** The rank of its configuration: the newest rollout has the highest. */
  readonly rank: number;
  /** What it was built from, such as a Git hash, if that is known. */
  readonly revision?: string | undefined;
  /** The version of the gateway. Versions until ebbde15d wrote none. */
  readonly version?: string | undefined;
  /** The ID of the app's build that it delivers; empty if it delivers none. Versions until ebbde15d had no such field. */
  readonly build?: string | undefined;
  /** The time of its last heartbeat by its own clock, in milliseconds since the Unix epoch. */
  readonly heartbeatAt: number;
  /** Says where it runs, such as a host and port. */
  readonly instanceId?: string | undefined;
  /** Identifies its PUBLIC variables (`sampleNames()`); earlier versions had none. */
  readonly names?: readonly number[] | undefined;
  /** The fingerprint of its master key, if it has SENSITIVE variables and has loaded the key. */
  readonly keyFingerprint?: string | undefined;
  /** The id of the newest write to a variable in the store that its values contain. */
  readonly newestWrite?: number;
  /** It has left, or another process has found it dead and marked its entry. It counts as dead in both cases. */
  readonly hasLeft?: boolean;
  /** It has left the election, but answers requests until its port is closed. Until then, it renews its entry. */
  readonly stopping?: boolean;
  /** Another process has marked its entry, since its heartbeats were missing. */
  readonly wasFoundDead?: boolean;
}

/**
 * A process, as it announces itself: what it writes into its entry with each heartbeat, apart from its rank and the time.
 */
export interface Self extends
  Omit<
    Member,
    "rank" | "heartbeatAt" | "hasLeft" | "stopping" | "wasFoundDead"
  > {
  /** The process ID. */
  readonly id: string;
}

/** A member as one process has observed it over time. */
export interface Observation {
  /** The process ID of the member. */
  readonly id: string;
  readonly member: Member;
  /** The version of the entry, for checks. */
  readonly version: string;
  /**
   * For how many whole periods the entry has not changed. It begins at 0 if a scheduled observation finds the entry
   * changed, and at -1 if one in between does: the rest of its period is not a whole one.
   */
  readonly unchangedPeriods: number;
  /** The entry was old when it was first observed and has not changed since. */
  readonly isOld: boolean;
  /** How far its clock is at least ahead of this process's (positive) or behind it (negative); 0 if it may be right. */
  readonly clockSkewMs: number;
}

/** What a process has observed. */
export interface Observed {
  readonly members: readonly Observation[];
  /** When it was observed, in milliseconds since the Unix epoch. */
  readonly at: number;
}

/** Options of {@linkcode observe}. */
interface ObserveOptions {
  /** Milliseconds since the Unix epoch. */
  readonly now: number;
  /** Whether this is the scheduled observation of a period. Others may take place at any time in between. */
  readonly isScheduled: boolean;
}

/** A period: the maximum interval between heartbeats. */
export const MEMBER_HEARTBEAT_MS = 5_000;
/** A member whose heartbeats have been missing for so many periods is late: another one becomes a representative. */
const LATE_AFTER_PERIODS = 2;
/** After so many, it is dead. */
const DEAD_AFTER_PERIODS = 4;
/** Restarts are over by then: the backoff of a container that keeps crashing is 10, 20, then 40 s. */
const FORGOTTEN_AFTER_PERIODS = 15;
/** Much longer than the skew of clocks, and than most outages of a store, during which there are no heartbeats. */
const OLD_MS = 600_000;

/**
 * Compares the members with the previous observations, if there are any, and returns the new ones.
 *
 * Whether a member lives does not depend on clocks but on whether its entry changes from observation to observation.
 * Clocks matter only for the first observation, and only by minutes: a process that starts alone must not wait for
 * members that died long ago.
 */
export function observe(
  entries: readonly Entry<Member>[],
  previous: Observed | undefined,
  options: ObserveOptions,
): Observed {
  const members = entries.map((it) => observeOne(it, previous, options));
  return { members, at: options.now };
}

function observeOne(
  { key, value: member, version }: Entry<Member>,
  previous: Observed | undefined,
  { now, isScheduled }: ObserveOptions,
): Observation {
  const id = String(key.at(-1));
  const before = previous?.members.find((other) => other.id === id);
  if (before?.version === version) {
    const unchangedPeriods = before.unchangedPeriods + (isScheduled ? 1 : 0);
    return { ...before, unchangedPeriods };
  }
  const isOld = before === undefined && member.heartbeatAt < now - OLD_MS;
  const unchangedPeriods = isScheduled ? 0 : -1;
  const clockSkewMs = measureSkew(member, previous?.at ?? 0, now);
  return { id, member, version, unchangedPeriods, isOld, clockSkewMs };
}

/**
 * Bounds the skew of a member's clock. If its entry is new or has changed, it was written between this process's previous
 * observation and now, whatever the network does:
 *
 * | its heartbeat time is           | so its clock is                                         |
 * | ------------------------------- | ------------------------------------------------------- |
 * | before the previous observation | behind by at least the difference, which is negative    |
 * | between the two                 | right, as far as anybody can tell                       |
 * | after now                       | ahead by at least the difference                        |
 */
function measureSkew(
  { heartbeatAt, hasLeft = false }: Member,
  previousAt: number,
  now: number,
): number {
  if (hasLeft) return 0; // its last heartbeat may be older
  if (heartbeatAt > now) return heartbeatAt - now;
  return Math.min(0, heartbeatAt - previousAt);
}

/** What a process is, as far as another one can tell. */
export type MemberState = "living" | "late" | "stopping" | "left" | "dead";

/** Returns the state of a member, from which it follows who counts, and for what. */
export function stateOf(
  { member, unchangedPeriods, isOld }: Observation,
): MemberState {
  const { hasLeft, stopping, wasFoundDead } = member;
  const isSilent = isOld || unchangedPeriods >= DEAD_AFTER_PERIODS;
  if (wasFoundDead) return "dead";
  if (hasLeft) return stopping && !isSilent ? "stopping" : "left";
  if (isSilent) return "dead";
  return unchangedPeriods < LATE_AFTER_PERIODS ? "living" : "late";
}

/** Returns whether the member takes part in the election. */
export function isLive(observation: Observation): boolean {
  return ["living", "late"].includes(stateOf(observation));
}

/** Returns whether the entry has not changed for so long that its process does not need it for a restart any more. */
export function isForgotten({ unchangedPeriods }: Observation): boolean {
  return unchangedPeriods >= FORGOTTEN_AFTER_PERIODS;
}

/** Names the place of a member, for operators. */
export function placeOf({ id, member }: Observation): string {
  return member.instanceId ?? id;
}
