import type { StoredEnvironment } from "../variables/snapshot.ts";
import { batches } from "../../store/commits.ts";
import type { Entry, Key, Store, Write } from "../../store/store.ts";
import { environmentName } from "../variables/tiers.ts";
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

/** The head of the history. Every write checks and replaces it, so that all writes of all processes form one sequence. */
export interface VariablesHead {
  /** The id of the newest write, or the one after it once variables were written back. */
  readonly id: number;
  /** How many writes the history contains. */
  readonly writes: number;
  /**
   * Differs from the known one if the store came back empty, and was written since. Versions before it write none, and
   * whoever writes after them has to leave it so.
   */
  readonly lineage?: string | undefined;
}

/** A variable as it is stored. The value is UTF-8, since Deno KV stores most strings with two bytes per character. */
export interface StoredValue {
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
/** The prefix of the variables, by name. */
export const VARIABLES: Key = ["variable"];
/** The prefix of the history. */
export const WRITES: Key = ["write"];
/** The prefix of the causes. */
export const CAUSES: Key = ["cause"];

/** How many writes the history keeps. */
export const MAX_HISTORY = 1_000;

/** Reads the head of the history; `undefined` if no variable has ever been written. */
export function readHead(
  store: Store,
): Promise<Entry<VariablesHead> | undefined> {
  return store.get<VariablesHead>(VARIABLES_HEAD_KEY);
}

/** Returns the id in a key; 0 if there is no key. */
export function idOf(key: Key | undefined): number {
  return Number(key?.at(-1) ?? 0);
}

/** What an entry of the history contains besides the write. */
type Replaced = Pick<HistoryEntry, "last" | "replaced" | "previous">;

/** Creates the entry in the history and the entry of the variable. */
export function createEntries(
  { name, value: text, id, at }: StoredWrite,
  replaced?: Replaced,
): Write[] {
  const value = text === undefined ? undefined : toUtf8(text);
  return [
    { key: [...WRITES, id], value: { name, at, value, ...replaced } },
    { key: [...VARIABLES, name], value: value && { value, id, at } },
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
  readonly lineage: string | undefined;
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
  const lineage = head?.value.lineage;
  return { variables, environment, version, newestWrite, lineage };
}

/**
 * Writes variables back to a store that has lost them together with their head. What was written since stays: it ends as
 * soon as there is another head. The history then contains the newest write of each variable only.
 *
 * @returns Whether the variables have to be read again; otherwise, another process has written them back.
 */
export async function writeBackVariables(
  store: Store,
  known: StoredVariables,
  found: StoredVariables,
): Promise<boolean> {
  const isEmpty = found.version === null;
  const history = isEmpty ? [] : await store.list<HistoryEntry>(WRITES);
  const written = new Set(found.variables.map(({ name }) => name));
  for (const { value } of history) written.add(value.name); // also if it was removed since
  const variables = known.variables.filter(({ name }) => !written.has(name));
  if (!isEmpty && variables.length === 0) return false;
  const checks = [{ key: VARIABLES_HEAD_KEY, version: found.version }];
  const head: VariablesHead = {
    id: Math.max(known.newestWrite, found.newestWrite) + 1, // so that the others notice
    // A later write deletes all that exceed the history at once: of many variables, that would not fit into its commit.
    writes: Math.min(history.length + variables.length, MAX_HISTORY),
    lineage: found.lineage ?? crypto.randomUUID(),
  };
  const toEntries = (variable: StoredVariable) => createEntries(variable);
  const all = batches(variables, store.prefixBytes);
  const last = all.pop() ?? [];
  for (const batch of all) {
    const version = await store.commit(checks, batch.flatMap(toEntries));
    if (version === undefined) return true;
  }
  await store.commit(checks, [
    ...last.flatMap(toEntries),
    { key: VARIABLES_HEAD_KEY, value: head },
  ]);
  return true;
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

/** Decodes the entry of a variable. */
export function toVariable(
  { key, value: entry }: Entry<StoredValue>,
): StoredVariable {
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
