import {
  batches,
  retryConflicts,
  type RetryOptions,
} from "../core/store/commits.ts";
import type { Entry, Store } from "../core/store/store.ts";
import { formatTime } from "../core/values/units.ts";
import { formatValue } from "../core/config/variables/quote.ts";
import {
  CAUSES,
  type CommitCause,
  decodeValue,
  type HistoryEntry,
  idOf,
  MAX_HISTORY,
  readHistory,
  type StoredWrite,
  type WriteCause,
  WRITES,
} from "../core/config/stored/stored_variables.ts";
import {
  ConflictError,
  failUncertain,
  publicVariable,
  readHeadToWrite,
  writeAfter,
} from "./write_variables.ts";

/** Values by name; `undefined` for a variable to be removed. */
type Values = ReadonlyMap<string, string | undefined>;

interface UndoOptions extends RetryOptions {
  /** The id of any of the writes to take back; `undefined` for the newest, if it is a set or unset by the same writer. */
  readonly id: number | undefined;
  readonly cause: WriteCause;
  /** Throws if the values may not be written again. */
  readonly validate: (values: Values) => Promise<void>;
}

/**
 * Takes back all writes of one commit, in one commit: each variable gets the value that it had before. It is a write as
 * any other, so undoing it restores the values that it took back. That of an undo, or of somebody else, has to be named:
 * of two who undo the same mistake, the second one would bring it back.
 *
 * @returns The new writes, and a description of what is taken back, for operators.
 * @throws {ConflictError} If one of the variables was written since, the values before are not known, or an id is needed.
 * @throws {StoreUnavailableError} If the store is unavailable.
 */
export async function undoWrite(
  store: Store,
  { id, cause, validate, clock, random }: UndoOptions,
): Promise<{ writes: StoredWrite[]; undone: string }> {
  // Found once: after a conflict, the newest write is that of somebody else.
  const [newest] = await readHistory(store, 1);
  const found = id ?? newest?.id ?? 0;
  const isOwn = newest?.by === cause.by && newest?.command !== "undo";
  let undone = "";
  async function tryToUndo(): Promise<StoredWrite[] | undefined> {
    const head = await readHeadToWrite(store, clock);
    const plan = await planUndo(store, found);
    const { undoes, values } = plan;
    undone = plan.undone;
    if (id === undefined && !isOwn) {
      throw new ConflictError(
        `Cannot undo without an id: expected a set or unset of your own, got ${undone}; to take that back, use: undo ${undoes}`,
      );
    }
    await validate(values);
    const changes = [...values].map(([name, value]) => ({ name, value }));
    if (batches(changes, store.prefixBytes).length > 1) {
      throw new ConflictError(
        `Cannot undo ${undoes}: expected values that fit into one commit; set them in several steps`,
      );
    }
    return await writeAfter(store, head, changes, {
      ifId: undefined,
      cause: { ...cause, undoes },
      at: clock.now(),
    });
  }
  const writes = await retryConflicts(tryToUndo, { clock, random })
    .catch((error) => failUncertain(error, UNCERTAIN));
  return { writes, undone };
}

const UNCERTAIN =
  "it may have been undone: look at history before you repeat it, since undoing it twice restores it";

/** Returns the id of the last write that is taken back, a description of all of them, and the values before. */
async function planUndo(
  store: Store,
  id: number,
): Promise<{ undoes: number; undone: string; values: Values }> {
  const entry = await store.get<HistoryEntry>([...WRITES, id]);
  if (entry === undefined) {
    throw new ConflictError(
      `Cannot undo ${id}: expected the id of one of the last ${MAX_HISTORY} writes; see history`,
    );
  }
  const { last = id } = entry.value;
  const cause = await store.get<CommitCause>([...CAUSES, last]);
  const count = cause?.value.writes ?? Infinity;
  const from = Math.max(0, last - count + 1);
  const since = await store.list<HistoryEntry>(WRITES, { from });
  const own = since.filter(({ value }) => value.last === last);
  if (own.length < count) throw unknownValue(last);
  const values = new Map<string, string | undefined>();
  const changes: string[] = [];
  for (const { value: entry } of own) {
    const { name } = entry;
    const value = await valueBefore(store, last, entry);
    values.set(name, value);
    const taken = formatValue(decodeValue(entry.value));
    changes.push(
      `${publicVariable(name)} from ${taken} to ${formatValue(value)}`,
    );
  }
  checkUnchanged(last, values, since);
  const { command = "write", by } = cause?.value ?? {};
  const writer = by === undefined ? "an unknown writer" : formatValue(by);
  const undone = `the ${command} ${last} of ${writer}: ${changes.join(", ")}`;
  return { undoes: last, undone, values };
}

/** Throws if a variable was written later: such writes are in the history, since the oldest are removed first. */
function checkUnchanged(
  last: number,
  values: Values,
  since: readonly Entry<HistoryEntry>[],
): void {
  const later = since.filter(({ key, value }) =>
    idOf(key) > last && values.has(value.name)
  );
  if (later.length === 0) return;
  const newest = new Map(later.map((entry) => [entry.value.name, entry]));
  const states = Array.from(newest.values(), describeWrite).join("; ");
  throw new ConflictError(
    `Cannot undo ${last}: expected no later write, but ${states}`,
  );
}

function describeWrite({ key, value: entry }: Entry<HistoryEntry>): string {
  const name = publicVariable(entry.name);
  const value = decodeValue(entry.value);
  const what = value === undefined ? "removed" : `set to ${formatValue(value)}`;
  return `${name} was ${what} at ${formatTime(entry.at)} (id ${idOf(key)})`;
}

/** Returns the value that a write replaced. If it was too long to be kept twice, the write that set it has it. */
async function valueBefore(
  store: Store,
  last: number,
  { replaced, previous }: HistoryEntry,
): Promise<string | undefined> {
  if (replaced === 0) return undefined;
  const entry = await store.get<HistoryEntry>([...WRITES, replaced ?? 0]);
  const value = previous ?? entry?.value.value;
  if (value === undefined) throw unknownValue(last);
  return decodeValue(value);
}

function unknownValue(id: number): ConflictError {
  return new ConflictError(
    `Cannot undo ${id}: the history does not contain all values before it; set them instead`,
  );
}
