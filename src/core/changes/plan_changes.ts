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
  const inDoubt = new Set(lost.map(({ name }) => name));
  for (const [name, isShown] of inPages) {
    if (isShown !== target.public.has(name)) inDoubt.add(name);
  }
  const names = new Set([
    ...target.public.keys(),
    ...state.newest.keys(),
    ...inDoubt,
  ]);
  const changes = Array.from(names, (name) => changeTo(target, name))
    .filter((change) =>
      inDoubt.has(change.name) || isNews(change, state.newest.get(change.name))
    );
  return {
    changes: changes.sort(compareChanges),
    afterId: lost.at(-1)?.id ?? 0,
  };
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

/**
 * Whether the newest event of the variable does not say this. A variable that was deleted before it became SENSITIVE or
 * SERVER is deleted once more: its old values are still in the log and in the tail of every process, which all drop them
 * when an event says that the variable leaves the PUBLIC tier.
 */
function isNews(
  { value, leavesPublic }: Change,
  newest: LogEvent | undefined,
): boolean {
  if (newest?.value !== value) return true;
  return leavesPublic && newest?.leavesPublic === false;
}

function compareChanges(a: Change, b: Change): number {
  const isDeleted = ({ value }: Change) => Number(value === undefined);
  return isDeleted(a) - isDeleted(b) || (a.name < b.name ? -1 : 1);
}
