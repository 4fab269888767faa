/** A change of one PUBLIC variable; without a value, a deletion. */
export interface Change {
  readonly name: string;
  readonly value: string | undefined;
  /** Whether the variable is SENSITIVE or SERVER now: its old values must not be sent any more. */
  readonly leavesPublic: boolean;
}

/** A change with its id in the sequence of all changes; see {@linkcode idAfter}. */
export interface LogEvent extends Change {
  readonly id: number;
}

/** The number of tags, and the difference between consecutive ids. */
const TAGS = 1_000;

/**
 * Returns the id after another one: a time in milliseconds, and the tag of the log in the last three digits. It is a safe
 * integer until the year 2255.
 */
export function idAfter(id: number, now: number, tag: number): number {
  return Math.max(Math.floor(id / TAGS) + 1, now) * TAGS + tag;
}

/** Returns the tag of the log that an id is of, by which the id of another log is recognized. */
export function tagOf(id: number): number {
  return id % TAGS;
}

/**
 * Returns a tag for a new log. Another log may have the same one, but most do not: gateways with stores of their own in
 * memory, before and after a restart, or behind one load balancer.
 *
 * @param random Returns a number in [0, 1).
 */
export function randomTag(random: () => number): number {
  return Math.floor(random() * TAGS);
}
