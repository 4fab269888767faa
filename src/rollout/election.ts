import {
  isDead,
  isLive,
  isOnTime,
  isRemovable,
  type Member,
  type Observation,
} from "./observation.ts";

/** A configuration and its rank. */
export type Ranked = Pick<Member, "hash" | "rank">;

/** What a process bases its decision on. */
export interface ElectionInput {
  /** The process ID. */
  readonly id: string;
  /** The hash of its configuration. */
  readonly hash: string;
  /** The rank of that configuration, once the process has announced it. */
  readonly rank: number | undefined;
  /** The instance ID: any other member with it that is late is a dead predecessor. */
  readonly instanceId: string | undefined;
  /** All members, including the process itself if it is one. */
  readonly observations: readonly Observation[];
  /** The highest rank that was ever assigned. */
  readonly highestRank: number;
}

/** The decision of a process. */
export interface ElectionResult {
  /** The rank of the process's configuration. */
  readonly rank: number;
  /** Whether the rank is new, so that a rollout begins. */
  readonly isNew: boolean;
  /** The member whose rank the process takes over; its entry must not change before the commit. */
  readonly rankSource: Observation | undefined;
  /** Whether the process needs an entry of its own. If many have one configuration, some represent all. */
  readonly isRepresentative: boolean;
  /** The hash of the active configuration. */
  readonly active: string;
  /** Dead members to mark as having left, so that a process that starts now does not presume them alive. */
  readonly dead: readonly Observation[];
  /** Members whose entries are to be deleted. */
  readonly removed: readonly Observation[];
}

/**
 * How many processes have an entry for each configuration: enough that they do not all stop at once while other
 * processes with the same configuration live on.
 */
export const MAX_REPRESENTATIVES = 8;
/** A `denokv` server accepts ten checks per commit; the process's own entry and its rank need two. */
const MAX_CLEAN_UPS = 8;

/** Decides which configuration is active, and what this process has to write; see `docs/development/rollouts.md`. */
export function elect(
  input: ElectionInput,
  maxRepresentatives: number,
): ElectionResult {
  const { id, hash, observations } = input;
  const others = observations.filter((other) => other.id !== id);
  const predecessors = others.filter((other) =>
    isDeadPredecessor(other, input)
  );
  const live = others.filter((other) =>
    isLive(other) && !predecessors.includes(other)
  );
  const peers = live.filter(({ member }) => member.hash === hash);
  const rankSource = input.rank === undefined
    ? findRankSource(peers, input)
    : undefined;
  const rank = resolveRank(input, rankSource ?? lowestRanked(peers));
  const isNew = input.rank === undefined && rankSource === undefined;
  return {
    rank,
    isNew,
    rankSource,
    isRepresentative: isNew ||
      peers.filter((peer) => peer.id < id && isOnTime(peer)).length <
        maxRepresentatives,
    active: activeHash([{ hash, rank }, ...live.map(({ member }) => member)]),
    ...cleanUp(
      live.every((other) => other.id > id) ? others : [],
      predecessors,
    ),
  };
}

/**
 * A process with an instance ID should be the only one with it. Its predecessors are dead once they are late, and not
 * at once: if two living processes have the same instance ID by mistake, an older configuration would win.
 */
function isDeadPredecessor(
  other: Observation,
  { instanceId }: ElectionInput,
): boolean {
  const { member } = other;
  return instanceId !== undefined && member.instanceId === instanceId &&
    !member.hasLeft && !isOnTime(other);
}

/**
 * Returns the member from which a starting process takes the rank of its configuration: a living one, or else a dead
 * one. A restart is not a rollout, even if no other process has the configuration: the last of the old replicas may
 * restart while the new ones start.
 */
function findRankSource(
  peers: readonly Observation[],
  { observations, hash }: ElectionInput,
): Observation | undefined {
  return lowestRanked(peers) ??
    lowestRanked(observations.filter(({ member }) => member.hash === hash));
}

/** The lowest rank counts, so that a process that assigned a new one because it saw no other returns to the old one. */
function lowestRanked(
  members: readonly Observation[],
): Observation | undefined {
  return [...members].sort((a, b) => a.member.rank - b.member.rank)[0];
}

function resolveRank(
  { rank, observations, highestRank }: ElectionInput,
  peer: Observation | undefined,
): number {
  if (peer !== undefined) return Math.min(peer.member.rank, rank ?? Infinity);
  return rank ??
    Math.max(highestRank, ...observations.map(({ member }) => member.rank)) + 1;
}

/** Returns the configuration with the highest rank among those with a living process. */
function activeHash(live: readonly Ranked[]): string {
  const ranks = new Map<string, number>();
  for (const { hash, rank } of live) {
    ranks.set(hash, Math.min(rank, ranks.get(hash) ?? rank));
  }
  return [...ranks].reduce((best, ranked) =>
    isAbove(ranked, best) ? ranked : best
  )[0];
}

/** Ranks are equal only if the store has lost the highest one. Then the hash decides, so that all processes agree. */
function isAbove(
  [hash, rank]: readonly [string, number],
  [other, otherRank]: readonly [string, number],
): boolean {
  return rank === otherRank ? hash > other : rank > otherRank;
}

/** Marks members that died without leaving, and deletes those that left long ago. */
function cleanUp(
  others: readonly Observation[],
  predecessors: readonly Observation[],
): Pick<ElectionResult, "dead" | "removed"> {
  const found = others.filter((other) =>
    isDead(other) && !other.member.hasLeft
  );
  const dead = [...new Set([...predecessors, ...found])].slice(
    0,
    MAX_CLEAN_UPS,
  );
  return {
    dead,
    removed: others.filter(isRemovable).slice(0, MAX_CLEAN_UPS - dead.length),
  };
}
