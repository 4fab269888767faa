import {
  isForgotten,
  isLive,
  type Member,
  type Observation,
  type Self,
  stateOf,
} from "./observation.ts";

/** A configuration and its rank. */
type Ranked = Pick<Member, "hash" | "rank">;

/** What a process bases its decision on. */
export interface ElectionInput {
  readonly self: Self;
  /** The rank of its configuration; 0 until the process has announced it with a whole rank. */
  readonly rank: number;
  /** The highest rank when the process began to read its sources; `undefined` if the store failed. */
  readonly rankAtRead: number | undefined;
  /** All members, including the process itself if it is one. */
  readonly observations: readonly Observation[];
  /** The highest rank that was ever assigned. */
  readonly highestRank: number;
  /** How many processes have an entry for each configuration and build. */
  readonly maxRepresentatives: number;
}

/**
 * What becomes of the configuration that a process announces: it is active for all, or another one is. Or the process
 * stands apart, since an app that came before has an entry in the store: one without a PUBLIC variable in common, or this
 * one before a rollout that renames them all. Then it is no member: its configuration is active for itself alone, and is
 * not published. It tries again with each heartbeat.
 */
export type Role = "active" | "superseded" | "apart";

/** The decision of a process. */
export interface ElectionResult {
  readonly role: Role;
  /** The hash under which the process announces its configuration. */
  readonly hash: string;
  /** The rank of the process's configuration; 0 while it stands apart. */
  readonly rank: number;
  /** Whether the rank is new, so that a rollout begins. */
  readonly isNew: boolean;
  /** The member whose rank the process takes over; its entry must not change before the commit. */
  readonly rankSource: Observation | undefined;
  /** Whether the process needs an entry of its own. If many have one configuration and build, some represent all. */
  readonly isRepresentative: boolean;
  /** The hash of the configuration that is active for the process. */
  readonly active: string;
  /** Dead members whose entries this process marks or, once they are forgotten, deletes. */
  readonly ended: readonly Observation[];
}

/**
 * How many processes have an entry for each configuration and build: enough that they do not all stop at once while
 * other processes with the same ones live on.
 */
export const MAX_REPRESENTATIVES = 8;
/** A `denokv` server accepts ten checks per commit; the process's own entry and its rank need two. */
const MAX_CLEAN_UPS = 8;

/**
 * Decides which configuration is active, and what this process has to write; see `docs/development/rollouts.md`. Each
 * process decides for itself, and all decide the same, since only the members' entries and the highest rank count.
 */
export function elect(input: ElectionInput): ElectionResult {
  const { self: { id, build }, observations, maxRepresentatives } = input;
  const others = observations.filter((other) => other.id !== id);
  const living = others.filter(isLive);
  const ranking = rankOwn(living, input);
  const { hash, rank, isNew } = ranking;
  const earlierPeers = living.filter((other) =>
    other.member.hash === hash && other.member.build === build &&
    other.id < id && stateOf(other) === "living" // not late
  );
  const isFirst = living.every((other) => other.id > id); // it cleans up for all
  const ended = others.filter((other) =>
    isForgotten(other) || isUnmarked(other)
  );
  const configurations = living.map(({ member }) => member);
  const active = activeHash([{ hash, rank }, ...configurations]);
  return {
    ...ranking,
    role: active === hash ? "active" : "superseded",
    isRepresentative: isNew || earlierPeers.length < maxRepresentatives,
    active,
    ended: isFirst ? ended.slice(0, MAX_CLEAN_UPS) : [],
  };
}

/** The decision of a process that stands apart. */
export function standApart({ hash }: Self): ElectionResult {
  return {
    role: "apart",
    hash,
    rank: 0,
    isNew: false,
    rankSource: undefined,
    isRepresentative: false,
    active: hash,
    ended: [],
  };
}

/**
 * Returns the rank of the process's configuration, which is identified by the hash of its PUBLIC values: a start or a
 * reload with other values has another hash, so it is a rollout, even for a single process.
 *
 * | the process             | who else has the configuration                               | its rank                                |
 * | ----------------------- | ------------------------------------------------------------ | --------------------------------------- |
 * | has announced it        | a living process, with a lower rank                          | that one                                |
 * | has announced it        | no such process                                              | its own                                 |
 * | starts or reloads to it | a living process, otherwise a dead                           | that one; its entry is the `rankSource` |
 * | starts or reloads to it | nobody, and no rollout has begun since its sources were read | above all others: a rollout begins      |
 * | starts or reloads to it | nobody, but a rollout has begun since                        | half a rank above the one that it knew  |
 *
 * A restart is not a rollout, even if no other process has the configuration: the last of the old replicas may restart
 * while the new ones start.
 *
 * Of two edits of a file that all replicas read, the replica that read the first one must not publish it over the second
 * one. So a reading that is older than a rollout belongs below it: it is superseded until all processes of newer ones
 * have ended. If nobody knows how old it is, because the store failed, it counts as the oldest until everything has been
 * read again; it is not published.
 *
 * @param living The living others.
 */
function rankOwn(
  living: readonly Observation[],
  { rank, rankAtRead = 0, observations, highestRank, self: { hash } }:
    ElectionInput,
): Pick<ElectionResult, "hash" | "rank" | "isNew" | "rankSource"> {
  const hasIt = ({ member }: Observation) => member.hash === hash;
  const peer = lowestRanked(living.filter(hasIt));
  if (rank > 0) {
    const lowest = Math.min(rank, peer?.member.rank ?? rank);
    return { hash, rank: lowest, isNew: false, rankSource: undefined };
  }
  const rankSource = peer ?? lowestRanked(observations.filter(hasIt));
  if (rankSource !== undefined) {
    return { hash, rank: rankSource.member.rank, isNew: false, rankSource };
  }
  if (highestRank > rankAtRead) {
    // It must not stick: whoever reads the same values later, this process included, begins a rollout with them. So it
    // has a hash of its own, such as `sha256-…@3.5`, and takes over the rank of others with the plain one (above).
    const between = rankAtRead + 0.5;
    const own = `${hash}@${between}`;
    return { hash: own, rank: between, isNew: false, rankSource };
  }
  const ranks = observations.map(({ member }) => member.rank);
  const newRank = Math.floor(Math.max(highestRank, ...ranks)) + 1;
  return { hash, rank: newRank, isNew: true, rankSource };
}

/**
 * The lowest rank counts: a process that assigned a new rank because it saw no other process returns to the old rank.
 */
function lowestRanked(
  members: readonly Observation[],
): Observation | undefined {
  return members.toSorted((a, b) => a.member.rank - b.member.rank)[0];
}

/**
 * Returns the configuration with the highest rank among those with a living process, each of which has its lowest rank.
 * Ranks are equal if two readings are older than the same rollout, or the store has lost the highest rank. Then the hash
 * decides, so that all processes agree.
 */
function activeHash(living: readonly Ranked[]): string {
  const inOrder = living.toSorted((a, b) =>
    a.rank - b.rank || (a.hash < b.hash ? -1 : 1)
  );
  const hashes = new Set(inOrder.map(({ hash }) => hash)); // each where it comes first
  return [...hashes].at(-1)!;
}

/** Returns whether a member has died, and whoever starts now would presume it alive. */
function isUnmarked(other: Observation): boolean {
  const isMarked = other.member.wasFoundDead || other.isOld;
  return stateOf(other) === "dead" && !isMarked;
}
