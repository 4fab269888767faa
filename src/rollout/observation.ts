import type { Entry } from "../store/store.ts";

/** The entry of a process in the store. */
export interface Member {
  /** The hash of its configuration. */
  readonly hash: string;
  /** The rank of its configuration: the newest rollout has the highest. */
  readonly rank: number;
  /** The time of its last heartbeat by its own clock, in milliseconds since the Unix epoch. */
  readonly heartbeatAt: number;
  /** Identifies the one process that can run in its place, such as a host and port. */
  readonly instanceId?: string;
  /** Identifies its PUBLIC variables (`sampleNames()`); earlier versions had none. */
  readonly names?: readonly number[];
  /** The fingerprint of its master key, if it has SENSITIVE variables and has loaded the key. */
  readonly keyFingerprint?: string;
  /** It has left, or another process has found it dead and marked its entry: it counts as dead in either case. */
  readonly hasLeft?: boolean;
  /** Another process has marked its entry, since its heartbeats were missing. */
  readonly wasFoundDead?: boolean;
}

/** A member as one process has observed it over time. */
export interface Observation {
  /** The process ID of the member. */
  readonly id: string;
  readonly member: Member;
  /** The version of the entry, for checks. */
  readonly version: string;
  /** For how many whole periods the entry has not changed; -1 if it has changed in the current one. */
  readonly unchangedPeriods: number;
  /** The entry was old when it was first observed and has not changed since. */
  readonly isOld: boolean;
  /**
   * By how much its clock is ahead of this process's at least, in milliseconds; negative if it is behind, 0 if it may be
   * right.
   */
  readonly clockSkewMs: number;
}

/** Options of {@linkcode observe}. */
interface ObserveOptions {
  /** The previous observations of this process. */
  previous: ReadonlyMap<string, Observation>;
  /** When they were made, in milliseconds since the Unix epoch; `undefined` if there were none. */
  previousAt: number | undefined;
  /** Milliseconds since the Unix epoch. */
  now: number;
  /** Whether this is the scheduled observation of a period. Others may take place at any time in between. */
  isScheduled: boolean;
}

/** A member whose heartbeats have been missing for so many periods is late: others get ready to act in its place. */
const LATE_AFTER_PERIODS = 2;
/** After so many, it is dead. */
const DEAD_AFTER_PERIODS = 4;
/** Restarts are over by then: the backoff of a container that keeps crashing is 10, 20, then 40 s. */
const REMOVED_AFTER_PERIODS = 15;
/** Much longer than the skew of clocks, and than most outages of a store, during which there are no heartbeats. */
const OLD_MS = 600_000;

/**
 * Compares the members with the previous observations and returns the new ones by process ID.
 *
 * Whether a member lives does not depend on clocks but on whether its entry changes from observation to observation.
 * Clocks matter only for the first observation, and only by minutes: a process that starts alone must not wait for
 * members that died long ago.
 */
export function observe(
  entries: readonly Entry<Member>[],
  options: ObserveOptions,
): Map<string, Observation> {
  return new Map(entries.map((entry) => {
    const id = String(entry.key.at(-1));
    return [id, observeOne(id, entry, options)];
  }));
}

function observeOne(
  id: string,
  { value: member, version }: Entry<Member>,
  options: ObserveOptions,
): Observation {
  const { isScheduled, now } = options;
  const previous = options.previous.get(id);
  if (previous?.version === version) {
    return {
      ...previous,
      unchangedPeriods: previous.unchangedPeriods + (isScheduled ? 1 : 0),
    };
  }
  const isOld = previous === undefined && member.heartbeatAt < now - OLD_MS;
  const unchangedPeriods = isScheduled ? 0 : -1;
  const clockSkewMs = measureSkew(member, options);
  return { id, member, version, unchangedPeriods, isOld, clockSkewMs };
}

/** The entry of a member that has not left was written since the previous observation. */
function measureSkew(
  { heartbeatAt, hasLeft = false }: Member,
  { previousAt, now }: ObserveOptions,
): number {
  if (hasLeft) return 0; // its last heartbeat may be older
  if (heartbeatAt > now) return heartbeatAt - now;
  return Math.min(0, heartbeatAt - (previousAt ?? 0));
}

/** Returns whether the member is presumed alive. */
export function isLive(observation: Observation): boolean {
  return !observation.member.hasLeft && !observation.isOld &&
    !isDead(observation);
}

/** Returns whether the member has been without a heartbeat for so long that it is dead. */
export function isDead({ unchangedPeriods }: Observation): boolean {
  return unchangedPeriods >= DEAD_AFTER_PERIODS;
}

/** Returns whether the member is presumed alive and its heartbeats are on time. */
export function isOnTime(observation: Observation): boolean {
  return isLive(observation) &&
    observation.unchangedPeriods < LATE_AFTER_PERIODS;
}

/** Names the state of a member, for operators. */
export function stateOf(observation: Observation): string {
  const { hasLeft, wasFoundDead } = observation.member;
  if (hasLeft && !wasFoundDead) return "left";
  if (!isLive(observation)) return "dead";
  return isOnTime(observation) ? "living" : "late";
}

/** Returns whether the member left so long ago that it does not need its rank for a restart any more. */
export function isRemovable(
  { member, unchangedPeriods }: Observation,
): boolean {
  return member.hasLeft === true && unchangedPeriods >= REMOVED_AFTER_PERIODS;
}
