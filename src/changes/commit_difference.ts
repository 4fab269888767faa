import type { Check } from "../store/store.ts";
import type { EventLog, PublicState } from "./event_log.ts";
import type { Change, LogEvent } from "./log_event.ts";

/** The variables to publish, and the names in the other tiers. */
export interface PublicTarget {
  readonly public: ReadonlyMap<string, string>;
  readonly sensitive: ReadonlyMap<string, string>;
  readonly server: ReadonlySet<string>;
}

/** What {@linkcode commitDifference} has published. */
export interface Publication {
  /** The events that were appended to the log. */
  readonly events: readonly LogEvent[];
  /** The id up to which the log matches the target. */
  readonly head: number;
}

/** What clients know of a variable. */
type DeliveredEvent = Pick<LogEvent, "id" | "name" | "value">;

/** Options of {@linkcode commitDifference}. */
interface CommitOptions {
  /** Additional preconditions of each commit. */
  readonly checks: readonly Check[];
  /**
   * The newest event of each variable that this process has delivered. Those that the store has lost, for example in a
   * failover to a replica that lagged behind, are compared with the target as well, since clients have them.
   */
  readonly delivered: readonly DeliveredEvent[];
  /**
   * Names whose values pages may have although no event ever had them. Their variables get an event even if the state
   * in the store is already that of the target.
   */
  readonly unpublished: ReadonlySet<string>;
}

/**
 * Makes the public state in the store equal to a target.
 *
 * It compares the target with the store and not with what this process published before. So a change made while the
 * gateway was down is published when it starts, and if several replicas see the same change, one publishes it.
 *
 * @returns `undefined` if another process has written in the meantime, so that this has to be repeated.
 * @throws {StoreUnavailableError} If the store is unavailable.
 */
export async function commitDifference(
  target: PublicTarget,
  log: EventLog,
  { checks, delivered, unpublished }: CommitOptions,
): Promise<Publication | undefined> {
  const state = await redactLeaving(target, log);
  const lost = delivered.filter(({ id }) => id > (state.head?.value.id ?? 0));
  const changes = mergeChanges(
    difference(state, target),
    lost.length === 0 ? [] : difference(withEvents(state, lost), target),
    [...unpublished].map((name) => confirmation(target, name)),
  );
  if (changes.length === 0) return { events: [], head: state.head?.value.id ?? 0 };
  const afterId = Math.max(0, ...lost.map(({ id }) => id));
  const appended = await log.append(changes, state, { checks, afterId });
  if (appended === undefined) return undefined;
  const { events } = appended;
  await log.trim(appended.state);
  return { events, head: events.at(-1)?.id ?? 0 };
}

/** Replaces the newest events of some variables. */
function withEvents({ events, head }: PublicState, newer: readonly DeliveredEvent[]): PublicState {
  const replacements = newer.map((event) => [event.name, { ...event, leavesPublic: false }] as const);
  return { head, events: new Map([...events, ...replacements]) };
}

/** Returns the changes of all lists, which have the same target, without duplicates. */
function mergeChanges(...lists: readonly (readonly Change[])[]): Change[] {
  const changes = new Map<string, Change>();
  for (const change of lists.flat()) if (!changes.has(change.name)) changes.set(change.name, change);
  return [...changes.values()];
}

/**
 * Deletes old values of variables that leave the PUBLIC tier and returns the state after that. It comes first: if the
 * process ends before the rest, the next attempt repeats it.
 */
async function redactLeaving(target: PublicTarget, log: EventLog): Promise<PublicState> {
  for (;;) {
    const state = await log.state();
    const leaving = deletions(state, target).filter(({ leavesPublic }) => leavesPublic).map(({ name }) => name);
    if (!await log.redact(new Set(leaving), state)) return state;
  }
}

/**
 * Returns the changes from a state to a target (endpoint specification, Stream events): updates first, then deletions,
 * sorted by name.
 */
export function difference(state: PublicState, target: PublicTarget): Change[] {
  const updates = [...target.public]
    .filter(([name, value]) => state.events.get(name)?.value !== value)
    .map(([name, value]) => ({ name, value, leavesPublic: false }));
  return [...updates.sort(byName), ...deletions(state, target).sort(byName)];
}

function deletions({ events }: PublicState, target: PublicTarget): Change[] {
  return [...events.values()]
    .filter(({ name, value }) => value !== undefined && !target.public.has(name))
    .map(({ name }) => ({ name, value: undefined, leavesPublic: leavesPublic(name, target) }));
}

function leavesPublic(name: string, { sensitive, server }: PublicTarget): boolean {
  return sensitive.has(name) || server.has(name);
}

/** Returns the event after which every client has the value of the target. The log has no other value to delete. */
function confirmation(target: PublicTarget, name: string): Change {
  return { name, value: target.public.get(name), leavesPublic: false };
}

function byName(a: Change, b: Change): number {
  return a.name < b.name ? -1 : 1;
}
