import {
  CAUSES,
  type CommitCause,
  createEntries,
  idOf,
  MAX_HISTORY,
  readHead,
  type StoredValue,
  type StoredVariable,
  type StoredWrite,
  toVariable,
  VARIABLES,
  VARIABLES_HEAD_KEY,
  type VariablesHead,
  type WriteCause,
  WRITES,
} from "../core/config/stored/stored_variables.ts";
import { formatValue } from "../core/config/variables/quote.ts";
import {
  environmentName,
  MAX_PUBLIC_BYTES,
} from "../core/config/variables/tiers.ts";
import {
  batches,
  retryConflicts,
  type RetryOptions,
} from "../core/store/commits.ts";
import {
  type Entry,
  type Store,
  StoreUnavailableError,
  type Write,
} from "../core/store/store.ts";
import type { Clock } from "../core/values/clock.ts";
import { formatTime } from "../core/values/units.ts";
import { toUtf8 } from "../core/values/utf8.ts";
import { listMembers } from "../core/rollout/living_members.ts";

/** Options of {@linkcode writeVariables}. */
export interface WriteOptions extends RetryOptions {
  /** What the history says about the writes. @default {nothing} */
  cause?: WriteCause | undefined;
  /** The id that the variable must have for the write to take place; 0 if it must not exist. */
  ifId: number | undefined;
}

/** The variable does not have the id that the writer expected. Nothing was written. */
export class ConflictError extends Error {
  /** The name of the class. */
  override name = "ConflictError";
}

type RequestedWrite = Pick<StoredWrite, "name" | "value">;

/** How many bytes of previous values a commit contains: `batches()` leaves that much of the 800 KiB of Deno KV. */
const MAX_PREVIOUS_BYTES = 120_000;
/** How many causes a commit deletes, beside the 994 mutations of a full batch. One is added. */
const MAX_OLD_CAUSES = 4;

/**
 * Sets and removes variables, in atomic commits of up to 300 variables or 600 KB.
 *
 * @param values Values by name, without the prefix of the tier; `undefined` for a variable to be removed.
 * @returns The writes with their ids; none for the removal of a variable that does not exist. Ids are ascending; each is
 * the time of the write in milliseconds, if that is greater than the last id.
 * @throws {ConflictError} If the variable does not have the id `ifId`.
 * @throws {RangeError} If `ifId` is given and the number of variables is not one.
 * @throws {StoreUnavailableError} If the store is unavailable, or every attempt conflicts with another writer. A part may
 * have been written; writing all of it again is safe.
 */
export async function writeVariables(
  store: Store,
  values: ReadonlyMap<string, string | undefined>,
  { clock, random, ifId, cause = {} }: WriteOptions,
): Promise<StoredWrite[]> {
  if (ifId !== undefined && values.size !== 1) {
    throw new RangeError(
      `Cannot compare ids: expected one variable, got ${values.size}`,
    );
  }
  const changes = [...values].map(([name, value]) => ({ name, value }));
  const all: StoredWrite[] = [];
  for (const batch of batches(changes, store.prefixBytes)) {
    const writes = await retryConflicts(async () => {
      const head = await readHeadToWrite(store, clock);
      const at = clock.now();
      return await writeAfter(store, head, batch, { ifId, cause, at });
    }, { clock, random }).catch((error) => failUncertain(error, UNCERTAIN));
    all.push(...writes);
  }
  return all;
}

/**
 * Reads the head before everything else that a write depends on.
 *
 * @throws {StoreUnavailableError} If the store has lost variables that a gateway has read and is about to write back.
 */
export async function readHeadToWrite(
  store: Store,
  clock: Clock,
): Promise<Entry<VariablesHead> | undefined> {
  const head = await readHead(store);
  if (head !== undefined) return head;
  const members = await listMembers(store, clock);
  if (members.every(({ member }) => !member.newestWrite)) return undefined;
  throw new StoreUnavailableError(
    "Cannot use the store: it came back without its variables, and the gateways are writing them back",
  );
}

const UNCERTAIN =
  "some of it may have been written: repeat it once the store is available";

/**
 * Throws the error of a write, with advice if the store is unavailable.
 *
 * @param advice What may have happened, and what to do.
 */
export function failUncertain(error: unknown, advice: string): never {
  if (!(error instanceof StoreUnavailableError)) throw error;
  throw new StoreUnavailableError(`${error.message}; ${advice}`, {
    cause: error,
  });
}

interface WriteAttempt {
  readonly ifId: number | undefined;
  readonly cause: WriteCause;
  /** The time of the writes. */
  readonly at: number;
}

/**
 * Writes variables in one commit. If it finds the head that was read before everything else, nothing of that has changed.
 *
 * @returns `undefined` if another writer has written since.
 */
export async function writeAfter(
  store: Store,
  head: Entry<VariablesHead> | undefined,
  changes: readonly RequestedWrite[],
  { ifId, cause, at }: WriteAttempt,
): Promise<StoredWrite[] | undefined> {
  const before = await store.getMany<StoredValue>(
    changes.map(({ name }) => [...VARIABLES, name]),
  );
  if (ifId !== undefined) checkId(changes[0]?.name ?? "", ifId, before[0]);
  const replaced = new Map(
    changes.map(({ name }, index) => [name, before[index]?.value]),
  );
  const effective = changes.filter(({ name, value }) =>
    value !== undefined || replaced.get(name) !== undefined
  );
  if (effective.length === 0) return [];
  const first = Math.max((head?.value.id ?? 0) + 1, at);
  const writes = effective.map(({ name, value }, index) => {
    return { name, value, id: first + index, at };
  });
  const last = first + writes.length - 1;
  let room = MAX_PREVIOUS_BYTES;
  const entries = writes.flatMap((write) => {
    const { id = 0, value } = replaced.get(write.name) ?? {};
    const previous = keptBeside(write, value, room);
    room -= previous?.length ?? 0;
    return createEntries(write, { last, replaced: id, previous });
  });
  const value: CommitCause = { ...cause, writes: writes.length };
  entries.push({ key: [...CAUSES, last], value });
  const isCommitted = await commit(store, head, writes, entries);
  return isCommitted ? writes : undefined;
}

/** Returns the value before, if an entry of the history can contain it beside the new one. */
function keptBeside(
  { value }: RequestedWrite,
  previous: Uint8Array | undefined,
  room: number,
): Uint8Array | undefined {
  const left = MAX_PUBLIC_BYTES - toUtf8(value ?? "").length;
  const size = previous?.length ?? 0;
  return size <= Math.min(left, room) ? previous : undefined;
}

/** Returns the name of a PUBLIC variable with its prefix. */
export function publicVariable(name: string): string {
  return environmentName({ name, tier: "public" });
}

function checkId(
  name: string,
  expected: number,
  entry: Entry<StoredValue> | undefined,
): void {
  const actual = entry?.value.id ?? 0;
  if (actual === expected) return;
  const wanted = expected === 0
    ? "it not to exist"
    : `its id to be ${expected}`;
  const found = describeState(entry && toVariable(entry));
  throw new ConflictError(
    `Cannot write ${publicVariable(name)}: expected ${wanted}, but ${found}`,
  );
}

async function commit(
  store: Store,
  head: Entry<VariablesHead> | undefined,
  writes: readonly StoredWrite[],
  entries: readonly Write[],
): Promise<boolean> {
  const count = (head?.value.writes ?? 0) + writes.length;
  const limit = Math.max(0, count - MAX_HISTORY);
  const outdated = await outdatedKeys(store, limit);
  const value: VariablesHead = {
    id: writes.at(-1)?.id ?? 0,
    writes: count - outdated.writes.length,
    lineage: head === undefined ? crypto.randomUUID() : head.value.lineage,
  };
  const checks = [{ key: VARIABLES_HEAD_KEY, version: head?.version ?? null }];
  const all = [
    { key: VARIABLES_HEAD_KEY, value },
    ...entries,
    ...[...outdated.writes, ...outdated.causes].map((key) => ({ key })),
  ];
  return await store.commit(checks, all) !== undefined;
}

/** Returns the keys of the oldest writes, and of causes that have no other writes. */
async function outdatedKeys(store: Store, limit: number) {
  if (limit === 0) return { writes: [], causes: [] };
  const writes = (await store.list(WRITES, { limit })).map(({ key }) => key);
  const old = await store.list(CAUSES, { limit: MAX_OLD_CAUSES });
  const causes = old.map(({ key }) => key)
    .filter((key) => idOf(key) <= idOf(writes.at(-1)));
  return { writes, causes };
}

function describeState(variable: StoredVariable | undefined): string {
  if (variable === undefined) return "it does not exist";
  const value = formatValue(variable.value);
  const time = formatTime(variable.at);
  return `its id is ${variable.id}, with the value ${value}, written at ${time}`;
}
