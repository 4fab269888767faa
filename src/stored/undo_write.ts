import {
  batches,
  retryConflicts,
  type RetryOptions,
} from "../core/store/commits.ts";
import type { Store } from "../core/store/store.ts";
import { formatTime } from "../core/values/units.ts";
import { formatValue } from "../core/config/variables/quote.ts";
import {
  CAUSES,
  type CommitCause,
  decodeValue,
  type HistoryEntry,
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
  type RequestedWrite,
  writeAfter,
} from "./write_variables.ts";

/** Values by name; `undefined` for a variable to be removed. */
type Values = ReadonlyMap<string, string | undefined>;

/** A variable gets the value that it had before. */
interface UndoneChange extends RequestedWrite {
  /** The value that is taken back. */
  readonly previous: string | undefined;
}

interface UndoOptions extends RetryOptions {
  /** The id of any of the writes to take back. */
  readonly id: number;
  readonly cause: WriteCause;
  /** Throws if the values may not be written again. */
  readonly validate: (values: Values) => Promise<void>;
}

/**
 * Takes back all writes of one commit, in one commit: each variable gets the value that it had before. It is a write as
 * any other, so undoing it restores the values that it took back.
 *
 * @throws {ConflictError} If one of the variables was written since, or the values before are not known.
 * @throws {StoreUnavailableError} If the store is unavailable.
 */
export async function undoWrite(
  store: Store,
  { id, cause, validate, clock, random }: UndoOptions,
): Promise<StoredWrite[]> {
  async function tryToUndo(): Promise<StoredWrite[] | undefined> {
    const head = await readHeadToWrite(store, clock);
    const { undoes, changes } = await planUndo(store, id);
    await validate(new Map(changes.map(({ name, value }) => [name, value])));
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
  return await retryConflicts(tryToUndo, { clock, random })
    .catch((error) => failUncertain(error, UNCERTAIN));
}

const UNCERTAIN =
  "it may have been undone: look at history before you repeat it, since undoing it twice restores it";

/** Returns what taking back a write means: the id of the last write, by what and by whom it was made, and the changes. */
export async function planUndo(
  store: Store,
  id: number,
): Promise<{ undoes: number; cause: WriteCause; changes: UndoneChange[] }> {
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
  const changes: UndoneChange[] = [];
  for (const { value: entry } of own) {
    const value = await valueBefore(store, last, entry);
    const previous = decodeValue(entry.value);
    changes.push({ name: entry.name, value, previous });
  }
  await checkUnchanged(store, last, changes);
  return { undoes: last, cause: cause?.value ?? {}, changes };
}

/** Describes what is taken back, for operators. */
export function describeUndo(
  { undoes, cause, changes }: Awaited<ReturnType<typeof planUndo>>,
): string {
  const show = (value?: string) =>
    value === undefined ? "no value" : formatValue(value);
  const values = changes.map(({ name, value, previous }) =>
    `${publicVariable(name)} from ${show(previous)} to ${show(value)}`
  );
  const { command = "write" } = cause;
  const what = `the ${command} ${undoes} of ${formatWriter(cause)}`;
  return `${what}: ${values.join(", ")}`;
}

/** Throws if a variable was written later: such writes are in the history, since the oldest are removed first. */
async function checkUnchanged(
  store: Store,
  last: number,
  changes: readonly UndoneChange[],
): Promise<void> {
  const names = new Set(changes.map(({ name }) => name));
  const since = await readHistory(store, MAX_HISTORY, last + 1);
  const later = since.filter(({ name }) => names.has(name)).reverse();
  if (later.length === 0) return;
  const newest = new Map(later.map((write) => [write.name, write]));
  const states = Array.from(newest.values(), describeWrite).join("; ");
  const undo = later.find(({ undoes }) => undoes === last);
  const undone = undo ? `; already undone by ${formatWriter(undo)}` : "";
  throw new ConflictError(
    `Cannot undo ${last}: expected no later write, but ${states}${undone}`,
  );
}

function describeWrite({ name, value, at, id }: StoredWrite): string {
  const what = value === undefined ? "removed" : `set to ${formatValue(value)}`;
  return `${publicVariable(name)} was ${what} at ${formatTime(at)} (id ${id})`;
}

function formatWriter({ by }: WriteCause): string {
  return by === undefined ? "an unknown writer" : formatValue(by);
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
