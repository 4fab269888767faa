import { isHidden, type Snapshot } from "../config/variables/snapshot.ts";
import type { Change, LogEvent, PublicState } from "./event_log.ts";

/** The variables to publish, and the names in the other tiers. */
export type PublicTarget = Pick<Snapshot, "public" | "sensitive" | "server">;

/** What {@linkcode planChanges} compares with the state in the store. */
export interface PlanInput {
  readonly target: PublicTarget;
  /**
   * The newest event of each variable that this process has delivered, in order. Clients may have them although the
   * store has lost them, for example in a failover to a replica that lagged behind, or may have any other lost event of
   * the same variable.
   */
  readonly delivered: readonly Pick<LogEvent, "id" | "name">[];
  /** Names that open pages may have (`true`) or lack, although that was never published; see {@linkcode Publisher}. */
  readonly inPages: ReadonlyMap<string, boolean>;
}

/**
 * Returns the changes that make the state in the store equal to the target (endpoint specification, Stream events:
 * updates first, then deletions, sorted by name), and the id that their ids have to exceed. If clients may have a value
 * that is not in the store, or lack one, its variable gets an event even if its state is already that of the target.
 */
export function planChanges(
  state: PublicState,
  { target, delivered, inPages }: PlanInput,
): { changes: readonly Change[]; afterId: number } {
  const headId = state.head?.value.id ?? 0;
  const lost = delivered.filter(({ id }) => id > headId);
  const names = new Set([
    ...updatedNames(state, target),
    ...deletedNames(state, target),
    ...lost.map(({ name }) => name),
    ...[...inPages.keys()].filter((name) =>
      target.public.has(name) !== inPages.get(name)
    ),
  ]);
  const changes = Array.from(names, (name) => changeTo(target, name));
  return { changes, afterId: lost.at(-1)?.id ?? 0 };
}

function updatedNames({ newest }: PublicState, target: PublicTarget): string[] {
  const updated = [...target.public].filter(([name, value]) =>
    newest.get(name)?.value !== value
  );
  return updated.map(([name]) => name).sort();
}

function deletedNames({ newest }: PublicState, target: PublicTarget): string[] {
  const deleted = [...newest.values()].filter((event) =>
    isToBeDeleted(event, target)
  );
  return deleted.map(({ name }) => name).sort();
}

/**
 * A variable that was deleted before it became SENSITIVE or SERVER is deleted once more: its old values are still in
 * the log and in the tail of every process, which all drop them when an event says that the variable leaves the PUBLIC
 * tier.
 */
function isToBeDeleted(
  { name, value, leavesPublic }: LogEvent,
  target: PublicTarget,
): boolean {
  if (value !== undefined) return !target.public.has(name);
  return !leavesPublic && isHidden(target, name);
}

/**
 * Returns the event after which every client has the value of the target, and no process has another value in memory if
 * the variable is not PUBLIC.
 */
function changeTo(target: PublicTarget, name: string): Change {
  return {
    name,
    value: target.public.get(name),
    leavesPublic: isHidden(target, name),
  };
}
