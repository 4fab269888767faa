import type { Entry } from "../store/store.ts";

/** What a process says of itself in the store. */
export interface Member {
  /** Which configuration it has. */
  readonly hash: string;
  /** Its configuration's place in the order of rollouts: the newest has the highest. */
  readonly rank: number;
  /** When it said so, by its own clock: milliseconds since the Unix epoch. */
  readonly heartbeatAt: number;
  /** Where it runs, if that is a place for one process at a time. */
  readonly instanceId?: string;
  /** It has said goodbye, or somebody has found it dead. */
  readonly hasLeft?: boolean;
}

/** A member, as one process has seen it over time. */
export interface Observation {
  /** The process. */
  readonly id: string;
  readonly member: Member;
  /** For a check. */
  readonly version: string;
  /** For how many whole periods it has not changed; -1 if it has in this one. */
  readonly unchanged: number;
  /** It was old when it was first seen, and has not changed since. */
  readonly isStale: boolean;
}

/** How {@linkcode observe} looks. */
export interface ObserveOptions {
  /** What this process saw before. */
  before: ReadonlyMap<string, Observation>;
  /** Milliseconds since the Unix epoch. */
  now: number;
  /** Whether a period has gone by since the last look that was counted; one may look more often than that. */
  isCounted: boolean;
}

/** A member that lives renews its entry once a period. Three periods late is slow, four is dead. */
const DEAD_AFTER_PERIODS = 4;
/** One that is late, but not dead yet: others have to be ready to speak in its place. */
const LATE_AFTER_PERIODS = 2;
/** Restarts are done by then: a container that crashes again and again waits 10, 20, then 40 s. */
const FORGOTTEN_AFTER_PERIODS = 15;
/** Far more than clocks differ, and than most failures of a store last, in which nobody can renew anything. */
const STALE_MS = 600_000;

/**
 * Compares the members with how they were seen before.
 *
 * No clock is asked whether somebody lives, but whether the entry changes from look to look. Clocks matter at the first
 * sight only, and there only by minutes: a process that is started alone must not wait for those who died long ago.
 */
export function observe(entries: readonly Entry<Member>[], options: ObserveOptions): Map<string, Observation> {
  return new Map(entries.map((entry) => {
    const id = String(entry.key.at(-1));
    return [id, sightOne(id, entry, options)];
  }));
}

function sightOne(id: string, { value: member, version }: Entry<Member>, options: ObserveOptions): Observation {
  const before = options.before.get(id);
  if (before?.version === version) return { ...before, unchanged: before.unchanged + (options.isCounted ? 1 : 0) };
  const isStale = before === undefined && member.heartbeatAt < options.now - STALE_MS;
  return { id, member, version, unchanged: options.isCounted ? 0 : -1, isStale };
}

/** Whether the process lives, as far as one can see. */
export function isLive(observation: Observation): boolean {
  return !observation.member.hasLeft && !observation.isStale && !isSilent(observation);
}

/** Whether the process has been silent before our eyes for too long. */
export function isSilent({ unchanged }: Observation): boolean {
  return unchanged >= DEAD_AFTER_PERIODS;
}

/** Whether the process lives and is in time. */
export function isPunctual(observation: Observation): boolean {
  return isLive(observation) && observation.unchanged < LATE_AFTER_PERIODS;
}

/** Whether the process has been gone for so long that it does not come back as what it was. */
export function isForgotten({ member, unchanged }: Observation): boolean {
  return member.hasLeft === true && unchanged >= FORGOTTEN_AFTER_PERIODS;
}
