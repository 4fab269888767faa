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
import { environmentName } from "../variables/tiers.ts";
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

/** One write to one variable. Without a value, the variable was removed. */
export interface StoredWrite extends Omit<StoredVariable, "value"> {
  /** The value; `undefined` if the variable was removed. */
  readonly value: string | undefined;
}

/** Options of {@linkcode writeVariables}. */
export interface WriteOptions extends RetryOptions {
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

interface HistoryEntry {
  readonly name: string;
  readonly value?: Uint8Array;
  readonly at: number;
}

/** The key of the head of the history, which changes with every write. */
export const VARIABLES_HEAD_KEY: Key = ["variables"];
const VARIABLES = ["variable"];
const WRITES = ["write"];

/** How many writes the history keeps. */
export const MAX_HISTORY = 1_000;

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
  { clock, random, ifId }: WriteOptions,
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
      const writes = await retryConflicts(
        () => tryToWrite(store, batch, ifId, clock.now()),
        { clock, random },
      );
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

/**
 * Returns `undefined` if another writer wrote at the same time. It reads the head first: if the commit finds the same
 * head, the variables have not changed either.
 */
async function tryToWrite(
  store: Store,
  changes: readonly RequestedWrite[],
  ifId: number | undefined,
  at: number,
): Promise<StoredWrite[] | undefined> {
  const head = await store.get<VariablesHead>(VARIABLES_HEAD_KEY);
  const before = await Promise.all(
    changes.map(({ name }) => store.get<StoredValue>([...VARIABLES, name])),
  );
  if (ifId !== undefined) checkId(changes[0]?.name ?? "", ifId, before[0]);
  const effective = changes.filter(({ value }, index) =>
    value !== undefined || before[index] !== undefined
  );
  if (effective.length === 0) return [];
  const first = Math.max((head?.value.id ?? 0) + 1, at);
  const writes = effective.map(({ name, value }, index) => {
    return { name, value, id: first + index, at };
  });
  const isCommitted = await commit(store, writes, head);
  return isCommitted ? writes : undefined;
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
  writes: readonly StoredWrite[],
  head: Entry<VariablesHead> | undefined,
): Promise<boolean> {
  const count = (head?.value.writes ?? 0) + writes.length;
  const limit = Math.max(0, count - MAX_HISTORY);
  const outdated = await store.list<HistoryEntry>(WRITES, { limit });
  const value: VariablesHead = {
    id: writes.at(-1)?.id ?? 0,
    writes: count - outdated.length,
  };
  const checks = [{ key: VARIABLES_HEAD_KEY, version: head?.version ?? null }];
  const all = [
    { key: VARIABLES_HEAD_KEY, value },
    ...writes.flatMap(createEntries),
    ...outdated.map(({ key }) => ({ key })),
  ];
  return await store.commit(checks, all) !== undefined;
}

/** Creates the entry in the history and the entry of the variable. */
function createEntries({ name, value: text, id, at }: StoredWrite): Write[] {
  const history = [...WRITES, id];
  const variable = [...VARIABLES, name];
  if (text === undefined) {
    return [{ key: history, value: { name, at } }, { key: variable }];
  }
  const value = toUtf8(text);
  return [
    { key: history, value: { name, at, value } },
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
  const head = await store.get<VariablesHead>(VARIABLES_HEAD_KEY);
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
  const all = batches(variables, store.prefixBytes);
  const last = all.pop() ?? [];
  for (const batch of all) {
    const version = await store.commit(checks, batch.flatMap(createEntries));
    if (version === undefined) return;
  }
  await store.commit(checks, [
    ...last.flatMap(createEntries),
    { key: VARIABLES_HEAD_KEY, value: head },
  ]);
}

/** Returns the last writes, the newest first. */
export async function readHistory(
  store: Store,
  limit: number,
): Promise<StoredWrite[]> {
  const options = { limit, reverse: true };
  const entries = await store.list<HistoryEntry>(WRITES, options);
  return entries.map(toWrite);
}

/** Returns the id of the newest write; 0 if there has never been one. */
export async function newestWrite(store: Store): Promise<number> {
  const head = await store.get<VariablesHead>(VARIABLES_HEAD_KEY);
  return head?.value.id ?? 0;
}

function toVariable({ key, value: entry }: Entry<StoredValue>): StoredVariable {
  const name = String(key.at(-1));
  const value = fromUtf8(entry.value);
  return { name, value, id: entry.id, at: entry.at };
}

function toWrite({ key, value: entry }: Entry<HistoryEntry>): StoredWrite {
  const { name, at } = entry;
  const value = entry.value && fromUtf8(entry.value);
  return { name, value, id: Number(key.at(-1)), at };
}

function describeState(variable: StoredVariable | undefined): string {
  if (variable === undefined) return "it does not exist";
  const value = formatValue(variable.value);
  const time = formatTime(variable.at);
  return `its id is ${variable.id}, with the value ${value}, written at ${time}`;
}
