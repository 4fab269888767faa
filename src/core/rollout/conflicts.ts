import type { Log } from "../observe/log.ts";
import { type Clock, MAX_CLOCK_SKEW_MS } from "../values/clock.ts";
import { isLive, type Observation, placeOf, type Self } from "./observation.ts";
import { findStrangers } from "./strangers.ts";

/**
 * What is wrong between this process and others on its store:
 * - `other_app`: they are of another app. Only the app that came first publishes.
 * - `other_master_key`: they cannot issue the keys of this process's pages, nor this process those of theirs.
 * - `clock_skew`: one of the clocks is wrong, so keys of pages are rejected as not yet valid.
 */
export type ConflictType = "other_app" | "other_master_key" | "clock_skew";

/** A conflict, and what to do. */
interface Conflict {
  readonly type: ConflictType;
  readonly detail: string;
}

/** A conflict that this process has. */
interface OngoingConflict extends Conflict {
  /** Since when, in milliseconds since the Unix epoch. */
  readonly since: number;
}

/** What is logged when a conflict begins. */
const CONFLICT_EVENTS: Readonly<Record<ConflictType, string>> = {
  other_app: "rep.rollout.other_app",
  other_master_key: "rep.rollout.other_master_key",
  clock_skew: "rep.rollout.clock_skew",
};

/**
 * For how long two deployments without a common PUBLIC variable may be the old and the new one of a rollout. Kubernetes
 * gives up a rollout that makes no progress for the same time.
 */
const LONGEST_ROLLOUT_MS = 600_000;

interface ConflictsOptions {
  readonly clock: Pick<Clock, "now" | "monotonic">;
  readonly log: Log;
}

/** The conflicts of this process with living ones, of each type at most one. */
export class Conflicts {
  readonly #options: ConflictsOptions;
  #ongoing: readonly OngoingConflict[] = [];
  /** Since when there have been entries of strangers, by the monotonic clock: an app that restarts does not reset it. */
  #strangersSince: number | undefined;

  constructor(options: ConflictsOptions) {
    this.#options = options;
  }

  /** Those of the last heartbeat. */
  get ongoing(): readonly OngoingConflict[] {
    return this.#ongoing;
  }

  /** Called after each heartbeat; logs which ones begin and end. */
  follow(self: Self, observations: readonly Observation[]): void {
    const { clock, log } = this.#options;
    const before = new Map(this.#ongoing.map((it) => [it.type, it]));
    const found = this.#find(self, observations);
    this.#ongoing = found.map(({ type, detail }) => {
      const since = before.get(type)?.since ?? clock.now();
      if (!before.delete(type)) log.error(CONFLICT_EVENTS[type], { detail });
      return { type, detail, since };
    });
    for (const type of before.keys()) {
      log.info("rep.rollout.conflict_ended", { type });
    }
  }

  #find(self: Self, observations: readonly Observation[]): Conflict[] {
    const now = this.#options.clock.monotonic();
    const strangers = findStrangers(self, observations);
    if (strangers.length === 0) this.#strangersSince = undefined;
    else this.#strangersSince ??= now;
    const strangersForMs = now - (this.#strangersSince ?? now);
    const isOtherApp = strangersForMs > LONGEST_ROLLOUT_MS;
    const replicas = observations.filter((other) =>
      other.id !== self.id && isLive(other) && !strangers.includes(other)
    );
    return [
      ...(isOtherApp ? strangers : []).filter(isLive).slice(0, 1).map(otherApp),
      ...replicas.filter((other) => hasOtherKey(self, other)).slice(0, 1)
        .map(otherMasterKey),
      ...replicas.filter(isClockOff).slice(0, 1).map(clockSkew),
    ];
  }
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
    `the gateway at ${place} has the same store and no PUBLIC variable in common with this one: only the app that ` +
    "came first publishes; give each app a name (--app; in the module, app), or a store of its own";
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
