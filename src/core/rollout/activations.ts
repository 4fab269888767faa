import { shortHash } from "../values/hash.ts";
import { formatTime } from "../values/units.ts";
import { type ElectionResult, lowestRanked } from "./election.ts";
import { isLive, type Observed, placeOf, type Self } from "./observation.ts";

/** A configuration that is or was active. */
export interface Activation {
  readonly hash: string;
  /** What its processes were built from, if that is known. */
  readonly revision?: string | undefined;
  /** Its rank when it was last active. */
  readonly rank: number;
  /** When it became active, in milliseconds since the Unix epoch. */
  readonly since: number;
  /** When another one replaced it; `undefined` for the active one. */
  readonly until?: number | undefined;
  /** Until when it was active before, if it was. */
  readonly lastActive?: number | undefined;
  /** Whether an earlier configuration became active again. */
  readonly isRollback: boolean;
  /** Where its rollout began; `undefined` if it is active because the processes of a newer one have ended. */
  readonly place?: string | undefined;
  /** Whether its rollout began with a reload, which somebody caused, instead of the start of a process. */
  readonly isReload?: boolean | undefined;
}

/** The configurations that were active, in the order in which they last became so. The last one is active. */
export type Activations = readonly Activation[];

/** A configuration that is active. */
export type Active = Pick<
  Activation,
  "hash" | "revision" | "rank" | "place" | "isReload"
>;

/** With the longest texts, they take half of the 64 KiB of a value. */
const MAX_ACTIVATIONS = 50;

/** The process that follows an election. */
interface Follower {
  readonly self: Self;
  /** The rank of its configuration, once the process has announced it. */
  readonly rank: number | undefined;
  /** Whether the process had another configuration before. */
  readonly isReload: boolean;
}

/**
 * Returns the activations after an election, and whether this process records them in the store if they have changed:
 *
 * | the process                                   | what it records                                              |
 * | --------------------------------------------- | ------------------------------------------------------------ |
 * | starts or reloads to the active configuration | that it is active, with its rank and the process's revision  |
 * | is the first living one (`isFirst`)           | any other change, such as that all of a newer one have ended |
 * | any other                                     | nothing                                                      |
 *
 * Two processes may disagree for some seconds whether a third is dead: if both wrote, one would record outdated changes.
 */
export function followElection(
  recorded: Activations,
  { self, rank, isReload }: Follower,
  decision: ElectionResult,
  { members, at }: Observed,
): { activations: Activations; isRecorder: boolean } {
  const isOwn = decision.active === self.hash;
  const isJoining = isOwn && rank === undefined;
  const active = isOwn
    ? describeOwn(self, decision, isReload)
    : describeOther(decision, members);
  const followed = activate(recorded, active, at);
  return {
    activations: isJoining ? rejoin(followed, active) : followed,
    isRecorder: isJoining || decision.isFirst,
  };
}

function describeOwn(
  { id, hash, revision, instanceId: place = id }: Self,
  { rank, isNew }: ElectionResult,
  isReload: boolean,
): Active {
  return { hash, revision, rank, place, isReload: isReload && isNew };
}

/** Describes the active configuration as that of a living member. */
function describeOther(
  { active: hash, rank }: ElectionResult,
  members: Observed["members"],
): Active {
  const living = members.values().filter((other) =>
    isLive(other) && other.member.hash === hash
  );
  const first = lowestRanked([...living]);
  return {
    hash,
    revision: first?.member.revision,
    rank: first?.member.rank ?? rank,
    place: first && placeOf(first),
    isReload: false,
  };
}

/**
 * Returns the activations with the configuration that is active now; the same ones if it is the last of them.
 *
 * A configuration that was active before and has a new rank was started again after its last process had ended. A
 * configuration with a lower rank than the previous one is active because the processes of the previous one have ended.
 * Both are rollbacks. A configuration with a higher rank that is not new is the newest one, whose processes the others
 * had not seen for a while.
 */
export function activate(
  activations: Activations,
  active: Active,
  now: number,
): Activations {
  const replaced = activations.at(-1);
  if (replaced?.hash === active.hash) return activations;
  const before = activations.find(({ hash }) => hash === active.hash);
  const isRankedAnew = before !== undefined && before.rank !== active.rank;
  const isLower = replaced !== undefined && active.rank < replaced.rank;
  const ended = { ...replaced, until: now } as Activation;
  const others = activations.slice(0, -1).filter((it) => it !== before);
  const next: Activation = {
    hash: active.hash,
    revision: active.revision,
    rank: active.rank,
    since: now,
    lastActive: before?.until,
    isRollback: isRankedAnew || isLower,
    place: isLower ? undefined : active.place,
    isReload: !isLower && active.isReload,
  };
  const all = replaced === undefined ? [next] : [...others, ended, next];
  return all.slice(-MAX_ACTIVATIONS);
}

/** Returns the activations with the rank and the revision of a process that joins the active configuration. */
export function rejoin(
  activations: Activations,
  { rank, revision }: Active,
): Activations {
  const last = activations.at(-1);
  const isKnown = last?.rank === rank &&
    (revision === undefined || last.revision === revision);
  if (last === undefined || isKnown) return activations;
  const joined = { ...last, rank, revision: revision ?? last.revision };
  return [...activations.slice(0, -1), joined];
}

/** An earlier configuration that is active again. */
export interface Rollback {
  readonly activation: Activation;
  readonly replaced: Activation;
}

/** Returns what is known of a rollback, if the last activation is one. */
export function findRollback(activations: Activations): Rollback | undefined {
  const activation = activations.at(-1);
  const replaced = activations.at(-2);
  if (!activation?.isRollback || replaced === undefined) return undefined;
  return { activation, replaced };
}

/** Says from which configuration to which, when that was last active, and what to do if it was not intended. */
export function describeRollback({ activation, replaced }: Rollback): string {
  const { lastActive } = activation;
  const last = lastActive === undefined
    ? "active before"
    : `last active until ${formatTime(lastActive)}`;
  const [from, to] = [nameOf(replaced), nameOf(activation)];
  const remedy = remedyOf(activation);
  return `rollback from ${from} to ${to}, ${last}; if not intended, ${remedy}`;
}

function remedyOf({ place, isReload }: Activation): string {
  if (place === undefined) return "start the processes of the former again";
  return isReload
    ? `correct the variables of the gateway at ${place}`
    : `stop the gateway at ${place} and all others that have it`;
}

/** Names a configuration by its hash and, if it has one, its revision. */
export function nameOf(
  { hash, revision }: Pick<Activation, "hash" | "revision">,
): string {
  const short = shortHash(hash);
  return revision === undefined ? short : `${short} (${revision})`;
}
