import { toUtf8 } from "../values/utf8.ts";
import {
  isForgotten,
  isLive,
  type Observation,
  type Self,
} from "./observation.ts";

/** How many PUBLIC variables a member's entry identifies by their hashes: they take at most 1.1 KiB. */
const MAX_NAMES = 100;

/**
 * Returns the hashes of the PUBLIC variables' names, for a member's entry. If there are more than 100, it returns the
 * smallest hashes, so that both sides select the same variables as far as they can.
 */
export function sampleNames(names: Iterable<string>): number[] {
  const hashes = Array.from(names, hashName).sort((a, b) => a - b);
  return hashes.slice(0, MAX_NAMES);
}

/** 32-bit FNV-1a: it need not be secure, and it is synchronous. */
function hashName(name: string): number {
  let hash = 0x811c9dc5;
  for (const byte of toUtf8(name)) {
    hash = Math.imul(hash ^ byte, 0x01000193);
  }
  return hash >>> 0;
}

/**
 * Returns the members that have PUBLIC variables, but none in common with this process, which also has some. They are
 * of another app, or of this one before or after a rollout that renames all variables. The process that ended at the
 * place of this one is none: only one process runs there at a time.
 */
export function findStrangers(
  { id, names = [], instanceId }: Self,
  observations: readonly Observation[],
): Observation[] {
  return observations.filter((other) => {
    const others = other.member.names ?? [];
    const isPredecessor = instanceId !== undefined && !isLive(other) &&
      other.member.instanceId === instanceId;
    const isOther = other.id !== id && !isPredecessor;
    const isPresent = !other.isOld && !isForgotten(other);
    const isComparable = names.length > 0 && others.length > 0;
    return isOther && isPresent && isComparable &&
      !others.some((name) => names.includes(name));
  });
}

/**
 * Returns a stranger among the members whose app came before that of this process. If both have entries, that is the app
 * with the lower rank, as long as it lives. If this app has none, any other one came before, dead or alive, until its entry
 * is forgotten: a restart does not hand the store to the other app.
 */
export function findOlderStranger(
  self: Self,
  members: readonly Observation[],
): Observation | undefined {
  const own = members.filter(({ isOld, member }) =>
    !isOld && member.names?.some((name) => self.names?.includes(name))
  );
  const rank = Math.min(...own.map(({ member }) => member.rank));
  return findStrangers(self, members).find((other) =>
    other.member.rank < rank && (own.length === 0 || isLive(other))
  );
}
