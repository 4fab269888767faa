import { isDead, type Observation } from "./observation.ts";

/** What {@linkcode findReplacement} depends on. */
interface Builds {
  /** The build that this process delivers; empty if it delivers none. */
  readonly own: string;
  readonly others: readonly Observation[];
  /** Whether the same builds have been delivered for long: if there are several, this is no update, but a canary. */
  readonly isSettled: boolean;
  /** How many processes have an entry for each build. */
  readonly maxRepresentatives: number;
}

/**
 * Returns the build that a page is told of. Builds have no order, so none is "newer": a page is told of another one if no
 * process that may still answer requests delivers the page's own, so that a reload cannot bring it again. While a reload may
 * bring one of two, because of an update, it is told at the end: it might be told of one, and get the other.
 *
 * @returns `undefined` if a process may deliver the page's own build, or if no process delivers any. While a process of a
 * version lives that announces no build, nobody knows which pages it delivers.
 */
export function findReplacement(
  build: string,
  { own, others, isSettled, maxRepresentatives }: Builds,
): string | undefined {
  const builds = answeringBuilds(own, others);
  if (builds.includes(build) || builds.includes(undefined)) return undefined;
  const delivered = new Set(builds.filter((it) => it !== ""));
  if (delivered.size > 1 && !isSettled) return undefined;
  const known = others.filter(({ member }) => member.build === build);
  // There may be processes without an entry, which become representatives within a period.
  const isFull = known.length >= maxRepresentatives;
  if (isFull && known.some(hasJustChanged)) return undefined;
  return own || [...delivered].toSorted()[0];
}

/** Returns the builds of all processes that may answer requests, as their entries name them. */
export function answeringBuilds(
  own: string,
  others: readonly Observation[],
): (string | undefined)[] {
  return [own, ...others.filter(mayAnswer).map(({ member }) => member.build)];
}

/** A process that stops answers requests until its port is closed. */
function mayAnswer(observation: Observation): boolean {
  const { hasLeft, wasFoundDead, stopping } = observation.member;
  if (wasFoundDead || observation.isOld || isDead(observation)) return false;
  return stopping === true || !hasLeft;
}

function hasJustChanged({ member, unchangedPeriods }: Observation): boolean {
  return !member.wasFoundDead && unchangedPeriods < 1;
}
