import type { Check } from "../store/store.ts";
import type { EventLog, PublicState } from "./event_log.ts";
import type { Change, LogEvent } from "./event.ts";

/** The variables to publish, and the names in the other tiers. */
export interface PublicTarget {
  readonly public: ReadonlyMap<string, string>;
  readonly sensitive: ReadonlyMap<string, string>;
  readonly server: ReadonlySet<string>;
}

/** What clients know of a variable. */
type DeliveredEvent = Pick<LogEvent, "id" | "name">;

/** Options of {@linkcode commitDifference}. */
interface CommitOptions {
  /** Additional preconditions of each commit. */
  readonly checks: readonly Check[];
  /**
   * The newest event of each variable that this process has delivered. Clients have those that the store has lost, for
   * example in a failover to a replica that lagged behind, or any other lost event of the same variable.
   */
  readonly delivered: readonly DeliveredEvent[];
  /** Names whose values pages may have although no event ever had them. */
  readonly unpublished: ReadonlySet<string>;
  /** Called with the new events of each commit. */
  readonly onCommit: (events: readonly LogEvent[]) => void;
}

/**
 * Makes the public state in the store equal to a target. Variables of which clients may have a value that is not in the
 * store get an event even if their state is already that of the target.
 *
 * It compares the target with the store and not with what this process published before. So a change made while the
 * gateway was down is published when it starts, and if several replicas see the same change, one publishes it.
 *
 * @returns The id up to which the log matches the target; `undefined` if another process has written in the meantime, so
 * that this has to be repeated.
 * @throws {StoreUnavailableError} If the store is unavailable.
 */
export async function commitDifference(
  target: PublicTarget,
  log: EventLog,
  { checks, delivered, unpublished, onCommit }: CommitOptions,
): Promise<number | undefined> {
  const state = await deleteLeaving(target, log);
  const headId = state.head?.value.id ?? 0;
  const lost = delivered.filter(({ id }) => id > headId);
  const changes = withoutDuplicates([
    ...difference(state, target),
    ...lost.map(({ name }) => confirmation(target, name)),
    ...[...unpublished].map((name) => confirmation(target, name)),
  ]);
  if (changes.length === 0) return headId;
  const afterId = Math.max(0, ...lost.map(({ id }) => id));
  const appended = await log.append(changes, state, {
    checks,
    afterId,
    onCommit,
  });
  if (appended === undefined) return undefined;
  await log.compact(appended);
  return appended.head?.value.id;
}

/**
 * Deletes old values of variables that are SENSITIVE or SERVER now and returns the state after that. It comes first: if
 * the process ends before the rest, the next attempt repeats it.
 */
async function deleteLeaving(
  target: PublicTarget,
  log: EventLog,
): Promise<PublicState> {
  for (;;) {
    const state = await log.state();
    const leaving = deletions(state, target).filter(({ leavesPublic }) =>
      leavesPublic
    ).map(({ name }) => name);
    if (!await log.deleteValues(new Set(leaving), state)) return state;
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
    .filter((event) => isToBeDeleted(event, target))
    .map(({ name }) => ({
      name,
      value: undefined,
      leavesPublic: isInOtherTier(name, target),
    }));
}

/**
 * A variable that was deleted before it became SENSITIVE or SERVER is deleted once more: its old values are still in the
 * log and in the tail of every process, which all drop them at an event that leaves the PUBLIC tier.
 */
function isToBeDeleted(
  { name, value, leavesPublic }: LogEvent,
  target: PublicTarget,
): boolean {
  if (value !== undefined) return !target.public.has(name);
  return !leavesPublic && isInOtherTier(name, target);
}

function isInOtherTier(
  name: string,
  { sensitive, server }: PublicTarget,
): boolean {
  return sensitive.has(name) || server.has(name);
}

/**
 * Returns the event after which every client has the value of the target, and no process another one in memory if the
 * variable is not PUBLIC.
 */
function confirmation(target: PublicTarget, name: string): Change {
  return {
    name,
    value: target.public.get(name),
    leavesPublic: isInOtherTier(name, target),
  };
}

/** Returns the first change of each variable. */
function withoutDuplicates(changes: readonly Change[]): Change[] {
  const first = new Map<string, Change>();
  for (const change of changes) {
    if (!first.has(change.name)) first.set(change.name, change);
  }
  return [...first.values()];
}

function byName(a: Change, b: Change): number {
  return a.name < b.name ? -1 : 1;
}
