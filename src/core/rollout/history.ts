import { shortHash } from "../values/hash.ts";
import { formatTime } from "../values/units.ts";
import type { Self } from "./observation.ts";

/** A rollout, as the store remembers it. */
export interface RolloutRecord {
  /** The configuration. */
  readonly hash: string;
  /** What the process that began it was built from, if that is known. */
  readonly revision?: string | undefined;
  readonly rank: number;
  /** When it began, in milliseconds since the Unix epoch. */
  readonly since: number;
  /** Where it began. */
  readonly place?: string | undefined;
  /** Whether it began with a reload, which somebody caused, instead of the start of a process. */
  readonly isReload?: boolean | undefined;
  /** Whether its configuration is that of an earlier rollout, and another one came in between. */
  readonly isRollback: boolean;
}

/**
 * The last rollouts. Versions until ebbde15d write the same records in the order in which configurations became active,
 * and keep one of each configuration.
 */
export type History = readonly RolloutRecord[];

/** With the longest texts, they take half of the 64 KiB of a value. */
const MAX_RECORDS = 50;

/** Returns the history with the rollout that a process begins. */
export function addRollout(
  history: History,
  { id, hash, revision, instanceId: place = id }: Self,
  { rank, since, isReload }: Pick<RolloutRecord, "rank" | "since" | "isReload">,
): History {
  const isKnown = history.some((record) => record.hash === hash);
  const isRollback = isKnown && inOrder(history).at(-1)?.hash !== hash;
  const record = { hash, revision, rank, since, place, isReload, isRollback };
  return [...history, record].slice(-MAX_RECORDS);
}

/** An earlier configuration that is active again. */
export interface Rollback {
  /** The rollout of the active configuration. */
  readonly active: RolloutRecord;
  readonly replaced: RolloutRecord;
  /** Whether it is active because the processes of the newer configurations have ended, without a rollout. */
  readonly isLeftOver: boolean;
  /** Whether somebody has reloaded the configuration. */
  readonly isReload: boolean;
  /** Until when it was active before, in milliseconds since the Unix epoch, if that is known. */
  readonly lastActive: number | undefined;
}

/**
 * Returns what is known of a rollback, if the active configuration is not that of the newest rollout, or if that one is
 * itself a rollback: after A and B, because A is left over when B has ended, or because a third rollout begins with A.
 */
export function findRollback(
  history: History,
  activeHash: string,
): Rollback | undefined {
  const records = inOrder(history);
  const hasIt = ({ hash }: RolloutRecord) => hash === activeHash;
  const index = records.findLastIndex(hasIt);
  const active = records[index];
  const isLeftOver = index < records.length - 1;
  const replaced = records.at(isLeftOver ? -1 : -2);
  if (active === undefined || replaced === undefined) return undefined;
  if (!isLeftOver && !active.isRollback) return undefined;
  const before = isLeftOver
    ? index
    : records.slice(0, index).findLastIndex(hasIt);
  const lastActive = before < 0 ? undefined : records[before + 1]?.since;
  const isReload = !isLeftOver && active.isReload === true;
  return { active, replaced, isLeftOver, isReload, lastActive };
}

function inOrder(history: History): History {
  return history.toSorted((a, b) => a.rank - b.rank);
}

/** Says from which configuration to which, when that was last active, and what to do if it was not intended. */
export function describeRollback(rollback: Rollback): string {
  const { active, replaced, lastActive } = rollback;
  const last = lastActive === undefined
    ? "active before"
    : `last active until ${formatTime(lastActive)}`;
  const change = `rollback from ${nameOf(replaced)} to ${nameOf(active)}`;
  return `${change}, ${last}; if not intended, ${remedyOf(rollback)}`;
}

function remedyOf({ active: { place }, isLeftOver, isReload }: Rollback) {
  if (isLeftOver) return "start the processes of the former again";
  return isReload
    ? `correct the variables of the gateway at ${place}`
    : `stop the gateway at ${place} and all others that have it`;
}

/** Names a configuration by its hash and, if it has one, its revision. */
function nameOf({ hash, revision }: RolloutRecord): string {
  const short = shortHash(hash);
  return revision === undefined ? short : `${short} (${revision})`;
}
