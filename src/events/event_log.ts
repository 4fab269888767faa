import type { Clock } from "../clock.ts";
import { batches } from "../store/batches.ts";
import type { Check, Entry, Store, Write } from "../store/store.ts";

/** A change of one PUBLIC variable. Without a value it was deleted. */
export interface Change {
  readonly name: string;
  readonly value?: string;
  /** The variable left the PUBLIC tier: its old values must not be told any more. */
  readonly leavesPublic?: boolean;
}

/** A change with its place in the one sequence. */
export interface LogEvent extends Change {
  readonly id: number;
}

/** The public state in the store: the newest event of each variable, deletes included. */
export interface PublicState {
  readonly events: ReadonlyMap<string, LogEvent>;
  readonly head: Entry<Head> | undefined;
}

/** The log's own memory, checked by every commit. */
interface Head {
  /** The newest event's id. */
  readonly id: number;
  /** Up to this id, only the newest event of each variable is kept. */
  readonly compactedUpTo: number;
  /** How many events there are above the compactedUpTo. */
  readonly recent: number;
}

/** What a commit was made for. */
interface Before {
  head: Entry<Head> | undefined;
  checks?: readonly Check[] | undefined;
}

/** An event as it is stored. UTF-8, since Deno KV counts two bytes a character as soon as one of them is not Latin. */
interface StoredEvent {
  readonly name: string;
  readonly value?: Uint8Array;
  readonly leavesPublic?: boolean;
}

interface StoredState extends StoredEvent {
  readonly id: number;
}

/** Settings of {@linkcode createEventLog}. */
export interface EventLogOptions {
  clock: Clock;
  /** How many of the newest events are kept word for word. @default {10000} */
  keep?: number;
}

/** The sequence of all changes, in the store, for all processes. */
export interface EventLog {
  /** The events after an id, in order. */
  after(id: number, limit: number): Promise<LogEvent[]>;
  /** The newest events, in order. */
  newest(limit: number): Promise<LogEvent[]>;
  /** The newest event of every variable. */
  state(): Promise<PublicState>;
  /**
   * Adds changes to the state that was read.
   *
   * @param checks What else must be as it was.
   * @returns What was added; nothing if somebody else added something since.
   */
  append(changes: readonly Change[], state: PublicState, checks?: readonly Check[]): Promise<LogEvent[] | undefined>;
  /**
   * Takes old values of variables that leave the PUBLIC tier out of the log; what is newest stays until it is replaced.
   *
   * @returns Whether that changed the log: then the state has to be read again.
   */
  redact(names: ReadonlySet<string>, state: PublicState): Promise<boolean>;
  /** Compacts what is older than the newest events that are kept word for word. */
  trim(): Promise<void>;
  /** Calls back when there may be something new. */
  watch(hint: () => void): () => void;
}

const NO_HEAD: Head = { id: 0, compactedUpTo: 0, recent: 0 };

const HEAD = ["head"];
const EVENTS = ["event"];
const STATES = ["state"];

/** A commit of Deno KV takes 1,000 writes. */
const MAX_COMMIT_DELETES = 500;
/** How far the log may outgrow `keep` before it is compacted: so that it is not done at every change. */
const SLACK = 0.1;

/** Opens the log in a store. */
export function createEventLog(store: Store, { clock, keep = 10_000 }: EventLogOptions): EventLog {
  async function state(): Promise<PublicState> {
    const head = await store.get<Head>(HEAD); // first: a commit that comes between makes the check fail, never the state stale
    const entries = await store.list<StoredState>(STATES);
    return { head, events: new Map(entries.map(({ value }) => [value.name, decode(value.id, value)])) };
  }

  async function append(
    changes: readonly Change[],
    base: PublicState,
    checks: readonly Check[] = [],
  ): Promise<LogEvent[] | undefined> {
    const added: LogEvent[] = [];
    let head = base.head;
    for (const batch of batches(changes)) {
      const events = numbered(batch, Math.max((head?.value.id ?? 0) + 1, clock.now()));
      head = await commit(events, base, { head, checks });
      if (head === undefined) return undefined;
      added.push(...events);
    }
    return added;
  }

  async function commit(events: LogEvent[], base: PublicState, { head, checks }: Before) {
    const { compactedUpTo, recent } = head?.value ?? NO_HEAD;
    const stale = events.map((event) => staleAfter(event, base, compactedUpTo)).filter((id) => id !== undefined);
    const grown = events.length - stale.filter((id) => id > compactedUpTo).length;
    const value = { id: events.at(-1)?.id ?? 0, compactedUpTo, recent: recent + grown };
    return await commitHead({ head, checks }, value, [...events.flatMap(eventWrites), ...stale.map(eventDelete)]);
  }

  async function commitHead({ head, checks = [] }: Before, value: Head, writes: Write[]) {
    const check = { key: HEAD, version: head?.version ?? null };
    const version = await store.commit([check, ...checks], [{ key: HEAD, value }, ...writes]);
    return version === undefined ? undefined : { key: HEAD, value, version };
  }

  async function redact(names: ReadonlySet<string>, { head, events }: PublicState): Promise<boolean> {
    if (head === undefined || names.size === 0) return false;
    const entries = await store.list<StoredEvent>(EVENTS);
    const stale = entries
      .filter(({ key, value }) => names.has(value.name) && events.get(value.name)?.id !== idOf(key))
      .slice(0, MAX_COMMIT_DELETES);
    if (stale.length === 0) return false;
    const value = { ...head.value, recent: head.value.recent - stale.length };
    await commitHead({ head }, value, stale.map(({ key }) => ({ key })));
    return true;
  }

  async function trim(): Promise<void> {
    const head = await store.get<Head>(HEAD);
    const surplus = (head?.value.recent ?? 0) - keep;
    if (head === undefined || surplus < Math.max(1, keep * SLACK)) return;
    const { compactedUpTo } = head.value;
    const old = await store.list<StoredEvent>(EVENTS, {
      from: compactedUpTo + 1,
      limit: Math.min(surplus, MAX_COMMIT_DELETES),
    });
    const last = old.at(-1);
    if (last === undefined) return;
    const { events } = await state();
    const superseded = old.filter(({ key, value }) => events.get(value.name)?.id !== idOf(key));
    const next = { ...head.value, compactedUpTo: idOf(last.key), recent: head.value.recent - old.length };
    const committed = await commitHead({ head }, next, superseded.map(({ key }) => ({ key })));
    if (committed !== undefined) await trim(); // else whoever changed the head trims
  }

  return {
    async after(id, limit) {
      return toEvents(await store.list<StoredEvent>(EVENTS, { from: id + 1, limit }));
    },
    async newest(limit) {
      return toEvents(await store.list<StoredEvent>(EVENTS, { limit, reverse: true })).reverse();
    },
    state,
    append,
    redact,
    trim,
    watch: (hint) => store.watch(HEAD, hint),
  };
}

function numbered(changes: readonly Change[], first: number): LogEvent[] {
  return changes.map((change, index) => ({ ...change, id: first + index }));
}

/** An event stands in the log and as its variable's state. */
function eventWrites(event: LogEvent): Write[] {
  const stored = encode(event);
  return [
    { key: [...EVENTS, event.id], value: stored },
    { key: [...STATES, event.name], value: { ...stored, id: event.id } },
  ];
}

function eventDelete(id: number): Write {
  return { key: [...EVENTS, id] };
}

/** The event that has to go when another one of the same variable comes: where the log is compacted, and where it must. */
function staleAfter(event: LogEvent, base: PublicState, compactedUpTo: number): number | undefined {
  const id = base.events.get(event.name)?.id;
  return id !== undefined && (id <= compactedUpTo || event.leavesPublic === true) ? id : undefined;
}

const encoder = new TextEncoder();
/** A value may begin with U+FEFF, and keeps it. */
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

function encode({ name, value, leavesPublic }: Change): StoredEvent {
  return {
    name,
    ...(value === undefined ? {} : { value: encoder.encode(value) }),
    ...(leavesPublic === undefined ? {} : { leavesPublic }),
  };
}

function decode(id: number, { name, value, leavesPublic }: StoredEvent): LogEvent {
  return {
    id,
    name,
    ...(value === undefined ? {} : { value: decoder.decode(value) }),
    ...(leavesPublic === undefined ? {} : { leavesPublic }),
  };
}

function toEvents(entries: readonly Entry<StoredEvent>[]): LogEvent[] {
  return entries.map(({ key, value }) => decode(idOf(key), value));
}

function idOf(key: Entry["key"]): number {
  return Number(key.at(-1));
}
