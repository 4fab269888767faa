import { isForgotten, isLive, isPunctual, isSilent, type Member, type Observation } from "./observation.ts";

/** A configuration and its place in the order of rollouts. */
export type Ranked = Pick<Member, "hash" | "rank">;

/** What a process decides from. */
export interface ElectionInput {
  /** The process itself. */
  readonly id: string;
  /** The configuration it has. */
  readonly hash: string;
  /** That configuration's rank, once the process has told it to the others. */
  readonly rank: number | undefined;
  /** Where the process starts, if that is a place for one process at a time: whoever was there before is dead. */
  readonly instanceId: string | undefined;
  /** All members, itself included if it is one. */
  readonly observations: readonly Observation[];
  /** The highest rank that was ever given. */
  readonly highest: number;
}

/** What it decides. */
export interface ElectionResult {
  readonly rank: number;
  /** Whether a rollout begins with this rank: nobody has it. */
  readonly isNew: boolean;
  /** Whose rank the process takes: it has to be there still when that is written down. */
  readonly rankSource: Observation | undefined;
  /** Whether the process has to have an entry: where many have one configuration, some speak for all. */
  readonly isRepresentative: boolean;
  /** The configuration in force. */
  readonly active: string;
  /** Dead processes in whose place a goodbye is to be said: so that one that starts now does not take them for living. */
  readonly dead: readonly Observation[];
  /** Entries to be removed. */
  readonly removed: readonly Observation[];
}

/** How many processes speak for a configuration: as many as do not all end at once while others of their kind live on. */
const MAX_SPEAKERS = 8;
/** A `denokv` server takes ten checks in a commit; two more are needed for the process's own entry and its rank. */
const MAX_TIDIED = 8;

/** The rule, as `docs/rollouts.md` has it. */
export function elect(situation: ElectionInput, maxRepresentatives: number = MAX_SPEAKERS): ElectionResult {
  const { id, hash, observations } = situation;
  const others = observations.filter((it) => it.id !== id);
  const replaced = others.filter((it) => isReplaced(it, situation));
  const live = others.filter((it) => isLive(it) && !replaced.includes(it));
  const peers = live.filter(({ member }) => member.hash === hash);
  const rankSource = situation.rank === undefined
    ? lowest(peers) ?? lowest(observations.filter(isOf(hash)))
    : undefined;
  const rank = ownRank(situation, rankSource ?? lowest(peers));
  const isNew = situation.rank === undefined && rankSource === undefined;
  return {
    rank,
    isNew,
    rankSource,
    isRepresentative: isNew || peers.filter((it) => it.id < id && isPunctual(it)).length < maxRepresentatives,
    active: hashInForce([{ hash, rank }, ...live.map(({ member }) => member)]),
    ...tidy(live.every((it) => it.id > id) ? others : [], replaced),
  };
}

/** One that starts where only one can be knows that its predecessors there are dead. */
function isReplaced({ member }: Observation, { instanceId }: ElectionInput): boolean {
  return instanceId !== undefined && member.instanceId === instanceId && !member.hasLeft;
}

function isOf(hash: string): (observation: Observation) => boolean {
  return ({ member }) => member.hash === hash;
}

/**
 * The member that says which rank a configuration has: the lowest, so that one that took itself for new, since it saw nobody,
 * finds back.
 *
 * Of those who start, the dead are asked as well: whoever comes back is no rollout, even if all of its kind have gone. The
 * last of the old replicas, too, is restarted while the new ones start.
 */
function lowest(members: readonly Observation[]): Observation | undefined {
  return [...members].sort((a, b) => a.member.rank - b.member.rank)[0];
}

function ownRank({ rank, observations, highest }: ElectionInput, found: Observation | undefined): number {
  if (found !== undefined) return Math.min(found.member.rank, rank ?? Infinity);
  return rank ?? Math.max(highest, ...observations.map(({ member }) => member.rank)) + 1;
}

/** Of the configurations that live, the one with the highest rank. */
function hashInForce(live: readonly Ranked[]): string {
  const ranks = new Map<string, number>();
  for (const { hash, rank } of live) ranks.set(hash, Math.min(rank, ranks.get(hash) ?? rank));
  return [...ranks].reduce((best, it) => isAbove(it, best) ? it : best)[0];
}

/** Equal ranks are given only if the store has lost the highest one; then all decide alike, too. */
function isAbove([hash, rank]: readonly [string, number], [other, otherRank]: readonly [string, number]): boolean {
  return rank === otherRank ? hash > other : rank > otherRank;
}

/** A goodbye for those who died without one; what is left of them goes when they are forgotten. */
function tidy(
  others: readonly Observation[],
  replaced: readonly Observation[],
): Pick<ElectionResult, "dead" | "removed"> {
  const silent = others.filter((it) => isSilent(it) && !it.member.hasLeft && !replaced.includes(it));
  const dead = [...replaced, ...silent].slice(0, MAX_TIDIED);
  return { dead, removed: others.filter(isForgotten).slice(0, MAX_TIDIED - dead.length) };
}
