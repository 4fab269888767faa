import type { Entry } from "../store/store.ts";
import { MAX_CLOCK_SKEW_MS } from "../values/clock.ts";

/** The entry of a process in the store. */
export interface Member {
  /** The hash of its configuration. */
  readonly hash: string;
  /** The rank of its configuration: the newest rollout has the highest. */
  readonly rank: number;
  /** What it was built from, such as a Git hash, if it says so. */
  readonly revision?: string | undefined;
  /** The time of its last heartbeat by its own clock, in milliseconds since the Unix epoch. */
  readonly heartbeatAt: number;
  /** Identifies the one process that can run in its place, such as a host and port. */
  readonly instanceId?: string | undefined;
  /** Identifies its PUBLIC variables (`sampleNames()`); earlier versions had none. */
  readonly names?: readonly number[] | undefined;
  /** The fingerprint of its master key, if it has SENSITIVE variables and has loaded the key. */
  readonly keyFingerprint?: string | undefined;
  /** The id of the newest write to a variable in the store that its values contain. */
  readonly newestWrite?: number;
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

/** What a process has observed. */
export interface Observed {
  /** By process ID. */
  readonly members: ReadonlyMap<string, Observation>;
  /** When it was observed, in milliseconds since the Unix epoch. */
  readonly at: number;
}

/** Nothing. */
export const NEVER_OBSERVED: Observed = { members: new Map(), at: 0 };

/** Options of {@linkcode observe}. */
interface ObserveOptions {
  readonly previous: Observed;
  /** Milliseconds since the Unix epoch. */
  readonly now: number;
  /** Whether this is the scheduled observation of a period. Others may take place at any time in between. */
  readonly isScheduled: boolean;
}

/** A member whose heartbeats have been missing for so many periods is late: others get ready to act in its place. */
const LATE_AFTER_PERIODS = 2;
/** After so many, it is dead. */
const DEAD_AFTER_PERIODS = 4;
/** Restarts are over by then: the backoff of a container that keeps crashing is 10, 20, then 40 s. */
const REMOVED_AFTER_PERIODS = 15;
/** Much longer than the skew of clocks, and than most outages of a store, during which there are no heartbeats. */
export const OLD_MS = 600_000;

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
): Observed {
  const members = new Map<string, Observation>();
  for (const entry of entries) {
    const id = String(entry.key.at(-1));
    members.set(id, observeOne(id, entry, options));
  }
  return { members, at: options.now };
}

function observeOne(
  id: string,
  { value: member, version }: Entry<Member>,
  { previous, now, isScheduled }: ObserveOptions,
): Observation {
  const before = previous.members.get(id);
  if (before?.version === version) {
    const unchangedPeriods = before.unchangedPeriods + (isScheduled ? 1 : 0);
    return { ...before, unchangedPeriods };
  }
  const isOld = before === undefined && member.heartbeatAt < now - OLD_MS;
  const unchangedPeriods = isScheduled ? 0 : -1;
  const clockSkewMs = measureSkew(member, previous.at, now);
  return { id, member, version, unchangedPeriods, isOld, clockSkewMs };
}

/** The entry of a member that has not left was written since the previous observation. */
function measureSkew(
  { heartbeatAt, hasLeft = false }: Member,
  previousAt: number,
  now: number,
): number {
  if (hasLeft) return 0; // its last heartbeat may be older
  if (heartbeatAt > now) return heartbeatAt - now;
  return Math.min(0, heartbeatAt - previousAt);
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

/**
 * What is wrong between this process and others on its store:
 * - `other_app`: they are of another app. The two overwrite each other's pages if they publish.
 * - `other_master_key`: they cannot issue the keys of this process's pages, nor this process those of theirs.
 * - `clock_skew`: one of the clocks is off, so that keys of pages are rejected as not begun yet.
 */
export type ConflictType = "other_app" | "other_master_key" | "clock_skew";

/** A conflict, and what to do. */
export interface Conflict {
  readonly type: ConflictType;
  readonly detail: string;
}

/** A process, as it announces itself. */
export interface Self {
  /** The process ID. */
  readonly id: string;
  /** The hash of its configuration. */
  readonly hash: string;
  readonly revision: Member["revision"];
  /** Any other member with it that is late is a dead predecessor. */
  readonly instanceId: Member["instanceId"];
  readonly names: Member["names"];
  readonly keyFingerprint: Member["keyFingerprint"];
  readonly newestWrite: number;
}

/**
 * For how long two deployments without a common PUBLIC variable may be the old and the new one of a rollout. Kubernetes
 * gives one up that makes no progress for as long.
 */
const LONGEST_ROLLOUT_MS = 600_000;

/** Of how many PUBLIC variables a member's entry has the hashes: they take at most 1.1 KiB. */
const MAX_NAMES = 100;

/**
 * Returns the hashes of the PUBLIC variables' names, for a member's entry. Of more than 100, it is those with the
 * smallest hashes: the same ones on both sides, as far as both have them.
 */
export function sampleNames(names: Iterable<string>): number[] {
  const hashes = Array.from(names, hashName).sort((a, b) => a - b);
  return hashes.slice(0, MAX_NAMES);
}

/** 32-bit FNV-1a: it need not be secure, and is not asynchronous. */
function hashName(name: string): number {
  let hash = 0x811c9dc5;
  for (const byte of encoder.encode(name)) {
    hash = Math.imul(hash ^ byte, 0x01000193);
  }
  return hash >>> 0;
}

const encoder = new TextEncoder();

/**
 * Returns the members with PUBLIC variables of which this process, which has some as well, has none: of another app, or
 * of this one before or after a rollout that renames all.
 */
export function findStrangers(
  { id, names = [] }: Self,
  observations: Iterable<Observation>,
): Observation[] {
  const own = new Set(names);
  return [...observations].filter((other) => {
    const others = other.member.names ?? [];
    const isComparable = other.id !== id && !other.isOld &&
      own.size > 0 && others.length > 0;
    return isComparable && !others.some((name) => own.has(name));
  });
}

/**
 * Returns the conflicts of this process with the living ones.
 *
 * @param strangersForMs For how long there have been strangers, in milliseconds.
 */
export function findConflicts(
  self: Self,
  observations: Iterable<Observation>,
  strangersForMs: number,
): Conflict[] {
  const living = [...observations].filter((other) =>
    other.id !== self.id && isLive(other)
  );
  const strangers = findStrangers(self, living);
  const replicas = living.filter((other) => !strangers.includes(other));
  const others = strangersForMs > LONGEST_ROLLOUT_MS ? strangers : [];
  return [
    ...others.slice(0, 1).map(otherApp),
    ...replicas.filter((other) => hasOtherKey(self, other)).slice(0, 1)
      .map(otherMasterKey),
    ...replicas.filter(isClockOff).slice(0, 1).map(clockSkew),
  ];
}

function hasOtherKey(
  { keyFingerprint }: Self,
  { member }: Observation,
): boolean {
  return keyFingerprint !== undefined && member.keyFingerprint !== undefined &&
    member.keyFingerprint !== keyFingerprint;
}

function isClockOff({ clockSkewMs }: Observation): boolean {
  return Math.abs(clockSkewMs) > MAX_CLOCK_SKEW_MS;
}

function otherApp(other: Observation): Conflict {
  const place = placeOf(other);
  const detail =
    `the gateway at ${place} has the same store and no PUBLIC variable in common with this one: nothing is ` +
    "published until either leaves; give each app a name (--app; in the module, app), or a store of its own";
  return { type: "other_app", detail };
}

function otherMasterKey(other: Observation): Conflict {
  const place = placeOf(other);
  const detail =
    `the gateway at ${place} has another master key, and neither can issue keys for the other's pages: ` +
    "expected the same master key for all replicas, or none for any";
  return { type: "other_master_key", detail };
}

function clockSkew(other: Observation): Conflict {
  const place = placeOf(other);
  const seconds = Math.floor(Math.abs(other.clockSkewMs) / 1_000);
  const direction = other.clockSkewMs > 0 ? "ahead of" : "behind";
  const bound = MAX_CLOCK_SKEW_MS / 1_000;
  const detail =
    `the clock of the gateway at ${place} is at least ${seconds} s ${direction} this one's: ` +
    `expected at most ${bound} s; synchronize the clocks of both machines (NTP)`;
  return { type: "clock_skew", detail };
}

/** Names the place of a member, for operators. */
export function placeOf(
  { id, member }: Pick<Observation, "id" | "member">,
): string {
  return member.instanceId ?? id;
}
