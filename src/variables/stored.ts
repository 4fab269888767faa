import type { Clock } from "../clock.ts";
import { batches } from "../store/batches.ts";
import { retryConflicts, type RetryOptions } from "../store/retry.ts";
import type { Entry, Key, Store, Write } from "../store/store.ts";
import type { Environment } from "./classify.ts";
import { formatValue } from "./format_value.ts";
import { environmentName } from "./tier.ts";

/** A PUBLIC variable that the store holds. */
export interface StoredVariable {
  /** Its name without the tier's prefix. */
  readonly name: string;
  readonly value: string;
  /** The id of the write that gave it this value. */
  readonly id: number;
  /** When that was, in milliseconds since the Unix epoch, by the clock of whoever wrote it. */
  readonly at: number;
}

/** One write to one variable. Without a value it was taken out. */
export interface StoredWrite extends Omit<StoredVariable, "value"> {
  readonly value?: string;
}

/** Settings of {@linkcode setVariables} and {@linkcode unsetVariables}. */
export interface WriteOptions extends RetryOptions {
  /** The one variable that is written must have this id, or, with 0, must not be there. @default {undefined} */
  ifId?: number | undefined;
}

/** The variable is not what the writer believed it to be. Nothing was written. */
export class ConflictError extends Error {
  /** What an error of this kind is called. */
  override name = "ConflictError";
  /** What the variable is now; nothing if it is not there. */
  readonly current: StoredVariable | undefined;

  /** Makes the error of a variable that has another id than was expected. */
  constructor(name: string, expected: number, current: StoredVariable | undefined) {
    const wanted = expected === 0 ? "it not to be there" : `its id to be ${expected}`;
    super(`Cannot write ${environmentName({ name, tier: "public" })}: expected ${wanted}, but ${stateOf(current)}`);
    this.current = current;
  }
}

/** What every write checks and changes: so all writes of all processes stand in one sequence. */
interface Head {
  /** The newest write's id. */
  readonly id: number;
  /** How many writes the history holds. */
  readonly writes: number;
}

interface Change {
  readonly name: string;
  readonly value?: string;
}

/** UTF-8, since Deno KV counts two bytes a character as soon as one of them is not Latin. */
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

const NO_HEAD: Head = { id: 0, writes: 0 };

/** Where the newest write's id stands: what changes with every write. */
export const HEAD: Key = ["variables"];
const VARIABLES = ["variable"];
const WRITES = ["write"];

/** How many writes are remembered. */
export const MAX_HISTORY = 1_000;

/**
 * Writes variables. What fits into one commit is there at once for everybody; 200 variables do, or 600 KB.
 *
 * @param values Their names, without the tier's prefix, and their values.
 * @returns The writes, with the ids they were given: rising, and the milliseconds of their time unless that is taken.
 * @throws {ConflictError} If the variable has not the id `ifId`.
 * @throws {RangeError} If `ifId` is given for more or less than one variable.
 * @throws {StoreUnavailableError} If other writers are faster again and again.
 */
export function setVariables(
  store: Store,
  values: ReadonlyMap<string, string>,
  options: WriteOptions,
): Promise<StoredWrite[]> {
  return writeAll(store, [...values].map(([name, value]) => ({ name, value })), options);
}

/**
 * Takes variables out; what is not there is left alone. Otherwise like {@linkcode setVariables}.
 *
 * @returns The writes, of those variables only that were there.
 */
export function unsetVariables(
  store: Store,
  names: ReadonlySet<string>,
  options: WriteOptions,
): Promise<StoredWrite[]> {
  return writeAll(store, [...names].map((name) => ({ name })), options);
}

async function writeAll(
  store: Store,
  changes: readonly Change[],
  { clock, random, ifId }: WriteOptions,
): Promise<StoredWrite[]> {
  if (ifId !== undefined && changes.length !== 1) {
    throw new RangeError(`Cannot compare ids: expected one variable, got ${changes.length}`);
  }
  const all: StoredWrite[] = [];
  for (const batch of batches(changes)) {
    all.push(...await retryConflicts(() => tryToWrite(store, batch, { clock, ifId }), { clock, random }));
  }
  return all;
}

/** Nothing comes back if somebody else wrote since the head was read: what is read after it is as old as it, or the commit fails. */
async function tryToWrite(
  store: Store,
  changes: readonly Change[],
  { clock, ifId }: { clock: Clock; ifId: number | undefined },
): Promise<StoredWrite[] | undefined> {
  const head = await store.get<Head>(HEAD);
  const before = await Promise.all(changes.map(({ name }) => store.get<StoredValue>([...VARIABLES, name])));
  if (ifId !== undefined) compare(changes[0]?.name ?? "", ifId, before[0]);
  const real = changes.filter(({ value }, index) => value !== undefined || before[index] !== undefined);
  if (real.length === 0) return [];
  const at = clock.now();
  const first = Math.max((head?.value.id ?? 0) + 1, at);
  const writes = real.map((change, index) => ({ ...change, id: first + index, at }));
  const isDone = await commit(store, writes, head);
  return isDone ? writes : undefined;
}

function compare(name: string, expected: number, entry: Entry<StoredValue> | undefined): void {
  const actual = entry?.value.id ?? 0;
  if (actual !== expected) throw new ConflictError(name, expected, entry && toVariable(entry));
}

async function commit(
  store: Store,
  writes: readonly StoredWrite[],
  head: Entry<Head> | undefined,
): Promise<boolean> {
  const { writes: kept } = head?.value ?? NO_HEAD;
  const surplus = Math.max(0, kept + writes.length - MAX_HISTORY);
  const old = await store.list<HistoryEntry>(WRITES, { limit: surplus });
  const value: Head = { id: writes.at(-1)?.id ?? 0, writes: kept + writes.length - old.length };
  const version = await store.commit([{ key: HEAD, version: head?.version ?? null }], [
    { key: HEAD, value },
    ...writes.flatMap(entriesOf),
    ...old.map(({ key }) => ({ key })),
  ]);
  return version !== undefined;
}

/** A write stands in the history and, as long as it is its variable's newest, as the variable. */
function entriesOf({ name, value: text, id, at }: StoredWrite): Write[] {
  const value = text === undefined ? undefined : encoder.encode(text);
  const entry: HistoryEntry = { name, at, ...(value === undefined ? {} : { value }) };
  return [
    { key: [...WRITES, id], value: entry },
    { key: [...VARIABLES, name], value: value && { value, id, at } },
  ];
}

/** All variables, by name. Up to 500 of them are read at one and the same moment. */
export async function listVariables(store: Store): Promise<StoredVariable[]> {
  return (await store.list<StoredValue>(VARIABLES)).map(toVariable);
}

/** The variables as an environment holds them: a source for the gateway. */
export async function storedEnvironment(store: Store): Promise<Environment> {
  const variables = await listVariables(store);
  return Object.fromEntries(variables.map(({ name, value }) => [environmentName({ name, tier: "public" }), value]));
}

/** The newest writes, the newest first. */
export async function readHistory(store: Store, limit: number): Promise<StoredWrite[]> {
  return (await store.list<HistoryEntry>(WRITES, { limit, reverse: true })).map(toWrite);
}

/** The writes after an id, in order, as far as the history still holds them. */
export async function readWrites(store: Store, after: number): Promise<StoredWrite[]> {
  return (await store.list<HistoryEntry>(WRITES, { from: after + 1 })).map(toWrite);
}

/** The newest write's id; 0 if there has never been one. */
export async function newestWrite(store: Store): Promise<number> {
  return (await store.get<Head>(HEAD))?.value.id ?? 0;
}

const encoder = new TextEncoder();
/** A value may begin with U+FEFF, and keeps it. */
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

function toVariable({ key, value: { value, id, at } }: Entry<StoredValue>): StoredVariable {
  return { name: String(key.at(-1)), value: decoder.decode(value), id, at };
}

function toWrite({ key, value: { name, value, at } }: Entry<HistoryEntry>): StoredWrite {
  return { name, ...(value === undefined ? {} : { value: decoder.decode(value) }), id: Number(key.at(-1)), at };
}

function stateOf(variable: StoredVariable | undefined): string {
  if (variable === undefined) return "it is not there";
  const { id, value, at } = variable;
  return `it is ${id}, with the value ${formatValue(value)}, since ${new Date(at).toISOString()}`;
}
