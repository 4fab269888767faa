import type { StoredEnvironment } from "../variables/snapshot.ts";
import {
  batches,
  retryConflicts,
  type RetryOptions,
} from "../../store/commits.ts";
import {
  type Entry,
  type Key,
  type Store,
  StoreUnavailableError,
  type Write,
} from "../../store/store.ts";
import { formatTime } from "../../values/units.ts";
import { environmentName, MAX_PUBLIC_BYTES } from "../variables/tiers.ts";
import { formatValue } from "../variables/quote.ts";
import { fromUtf8, toUtf8 } from "../../values/utf8.ts";

/** A PUBLIC variable in the store. */
export interface StoredVariable {
  /** The name without the prefix of the tier. */
  readonly name: string;
  /** The value. */
  readonly value: string;
  /** The id of the write that set this value. */
  readonly id: number;
  /** When it was written, by the writer's clock, in milliseconds since the Unix epoch. */
  readonly at: number;
}

/** By what and by whom variables were written. It is what the writer claims, and no proof. */
export interface WriteCause {
  /** The command: `set`, `unset` or `undo`; `module` for `setStoredVariables()`. */
  readonly command?: string | undefined;
  /** Who wrote. */
  readonly by?: string | undefined;
  /** The reason. */
  readonly why?: string | undefined;
  /** The id of the write that `undo` took back; of several, the last one. */
  readonly undoes?: number | undefined;
}

/** One write to one variable. Without a value, the variable was removed. */
export interface StoredWrite extends Omit<StoredVariable, "value">, WriteCause {
  /** The value; `undefined` if the variable was removed. */
  readonly value: string | undefined;
  /** The value before; `undefined` if there was none, or it is not known. Only the history contains it. */
  readonly previous?: string | undefined;
}

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

/** The head of the history. Every write checks and replaces it, so that all writes of all processes form one sequence. */
export interface VariablesHead {
  /** The id of the newest write. */
  readonly id: number;
  /** How many writes the history contains. */
  readonly writes: number;
}

type RequestedWrite = Pick<StoredWrite, "name" | "value">;

/** The value is UTF-8, since Deno KV stores most strings with two bytes per character. */
interface StoredValue {
  readonly value: Uint8Array;
  readonly id: number;
  readonly at: number;
}

/** Versions before `undo` read and write the first three fields only. */
export interface HistoryEntry {
  readonly name: string;
  readonly value?: Uint8Array;
  readonly at: number;
  /** The id of the last write of the same commit, which is also the key of its cause. */
  readonly last?: number;
  /** The id of the write whose value was replaced; 0 if the variable did not exist. */
  readonly replaced?: number;
  /** That value, unless it is too long to be kept twice. */
  readonly previous?: Uint8Array | undefined;
}

/** What is known about all writes of a commit. It has a key of its own, since an entry may be full with its value. */
export interface CommitCause extends WriteCause {
  /** How many writes the commit contains. Their ids are consecutive. */
  readonly writes: number;
}

/** The key of the head of the history, which changes with every write. */
export const VARIABLES_HEAD_KEY: Key = ["variables"];
const VARIABLES = ["variable"];
/** The prefix of the history. */
export const WRITES: Key = ["write"];
/** The prefix of the causes. */
export const CAUSES: Key = ["cause"];

/** How many writes the history keeps. */
export const MAX_HISTORY = 1_000;
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
  try {
    for (const batch of batches(changes, store.prefixBytes)) {
      const writes = await retryConflicts(async () => {
        const head = await readHead(store);
        const at = clock.now();
        return await writeAfter(store, head, batch, { ifId, cause, at });
      }, { clock, random });
      all.push(...writes);
    }
  } catch (error) {
    if (!(error instanceof StoreUnavailableError)) throw error;
    throw new StoreUnavailableError(`${error.message}; ${UNCERTAIN}`, {
      cause: error,
    });
  }
  return all;
}

const UNCERTAIN =
  "some of it may have been written: repeat it once the store is available";

interface WriteAttempt {
  readonly ifId: number | undefined;
  readonly cause: WriteCause;
  /** The time of the writes. */
  readonly at: number;
}

/** Reads the head of the history; `undefined` if no variable has ever been written. */
export function readHead(
  store: Store,
): Promise<Entry<VariablesHead> | undefined> {
  return store.get<VariablesHead>(VARIABLES_HEAD_KEY);
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
  const before = await Promise.all(
    changes.map(({ name }) => store.get<StoredValue>([...VARIABLES, name])),
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

function checkId(
  name: string,
  expected: number,
  entry: Entry<StoredValue> | undefined,
): void {
  const actual = entry?.value.id ?? 0;
  if (actual === expected) return;
  const key = environmentName({ name, tier: "public" });
  const wanted = expected === 0
    ? "it not to exist"
    : `its id to be ${expected}`;
  const found = describeState(entry && toVariable(entry));
  throw new ConflictError(
    `Cannot write ${key}: expected ${wanted}, but ${found}`,
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

/** Returns the id in a key; 0 if there is no key. */
export function idOf(key: Key | undefined): number {
  return Number(key?.at(-1) ?? 0);
}

/** What an entry of the history contains besides the write. */
type Replaced = Pick<HistoryEntry, "last" | "replaced" | "previous">;

/** Creates the entry in the history and the entry of the variable. */
function createEntries(
  { name, value: text, id, at }: StoredWrite,
  replaced?: Replaced,
): Write[] {
  const history = [...WRITES, id];
  const variable = [...VARIABLES, name];
  if (text === undefined) {
    const value = { name, at, ...replaced };
    return [{ key: history, value }, { key: variable }];
  }
  const value = toUtf8(text);
  return [
    { key: history, value: { name, at, value, ...replaced } },
    { key: variable, value: { value, id, at } },
  ];
}

/** Lists all variables by name. Up to 500 are read in one consistent snapshot. */
export async function listVariables(store: Store): Promise<StoredVariable[]> {
  const entries = await store.list<StoredValue>(VARIABLES);
  return entries.map(toVariable);
}

/** All variables, as a snapshot needs them and as they are in the store. */
export interface StoredVariables extends StoredEnvironment {
  readonly variables: readonly StoredVariable[];
}

/**
 * Reads all variables; only their head, if there has been no write since `known` was read. It reads the head first: after
 * a later write, a check of this version fails, even if the variables that are returned include that write.
 */
export async function storedEnvironment(
  store: Store,
  known?: StoredVariables,
): Promise<StoredVariables> {
  const head = await readHead(store);
  const version = head?.version ?? null;
  const newestWrite = head?.value.id ?? 0; // after a restore, another write may have the same version
  if (known?.version === version && known.newestWrite === newestWrite) {
    return known;
  }
  const variables = await listVariables(store);
  const environment: Record<string, string> = {};
  for (const { name, value } of variables) {
    environment[environmentName({ name, tier: "public" })] = value;
  }
  return { variables, environment, version, newestWrite };
}

/**
 * Writes variables back to a store that has lost them together with their head. Nothing is written over: it ends as soon
 * as there is a head again. The history then contains the newest write of each variable only.
 */
export async function writeBackVariables(
  store: Store,
  { variables, newestWrite }: StoredVariables,
): Promise<void> {
  const checks = [{ key: VARIABLES_HEAD_KEY, version: null }];
  // A later write deletes all that exceed the history at once: of many variables, that would not fit into its commit.
  const writes = Math.min(variables.length, MAX_HISTORY);
  const head: VariablesHead = { id: newestWrite, writes };
  const toEntries = (variable: StoredVariable) => createEntries(variable);
  const all = batches(variables, store.prefixBytes);
  const last = all.pop() ?? [];
  for (const batch of all) {
    const version = await store.commit(checks, batch.flatMap(toEntries));
    if (version === undefined) return;
  }
  await store.commit(checks, [
    ...last.flatMap(toEntries),
    { key: VARIABLES_HEAD_KEY, value: head },
  ]);
}

/**
 * Returns the last writes, the newest first.
 *
 * @param from The id of the oldest write to return.
 */
export async function readHistory(
  store: Pick<Store, "list">,
  limit: number,
  from = 0,
): Promise<StoredWrite[]> {
  const options = { limit, from, reverse: true };
  const entries = await store.list<HistoryEntry>(WRITES, options);
  const causes = await store.list<CommitCause>(CAUSES, options); // no more of them than writes
  const byId = new Map(causes.map(({ key, value }) => [idOf(key), value]));
  return entries.map((entry) =>
    toWrite(entry, byId.get(entry.value.last ?? 0))
  );
}

/** Returns the id of the newest write; 0 if there has never been one. */
export async function newestWrite(store: Store): Promise<number> {
  const head = await readHead(store);
  return head?.value.id ?? 0;
}

function toVariable({ key, value: entry }: Entry<StoredValue>): StoredVariable {
  const name = String(key.at(-1));
  const value = fromUtf8(entry.value);
  return { name, value, id: entry.id, at: entry.at };
}

function toWrite(
  { key, value: entry }: Entry<HistoryEntry>,
  { command, by, why, undoes }: WriteCause = {},
): StoredWrite {
  const { name, at } = entry;
  const value = decodeValue(entry.value);
  const previous = decodeValue(entry.previous);
  const cause = { command, by, why, undoes };
  return { name, value, id: idOf(key), at, previous, ...cause };
}

/** Decodes a value of the history; `undefined` if there is none. */
export function decodeValue(value: Uint8Array | undefined): string | undefined {
  return value && fromUtf8(value);
}

function describeState(variable: StoredVariable | undefined): string {
  if (variable === undefined) return "it does not exist";
  const value = formatValue(variable.value);
  const time = formatTime(variable.at);
  return `its id is ${variable.id}, with the value ${value}, written at ${time}`;
}
