import { chunk } from "@std/collections/chunk";
import type { Check, Entry, Key, Store, Write } from "../store/store.ts";
import type { Clock } from "../values/clock.ts";
import { fromUtf8, toUtf8 } from "../values/utf8.ts";

/** Who changed a variable and why, for operators. */
export interface ChangeCause {
  /** Who wrote it into the store, or where the process runs that published it from its own sources. */
  readonly by?: string | undefined;
  /** The reason, or what kind of publication it was. */
  readonly why?: string | undefined;
}

/** A change of one PUBLIC variable; without a value, a deletion. */
export interface Change {
  readonly name: string;
  readonly value: string | undefined;
  /** Whether the variable is SENSITIVE or SERVER now: its old values must not be sent any more. */
  readonly leavesPublic: boolean;
  /** Versions until ebbde15d store none. */
  readonly cause?: ChangeCause | undefined;
}

/** A change with its id in the sequence of all changes; see {@linkcode idAfter}. */
export interface LogEvent extends Change {
  readonly id: number;
}

/** The public state in the store. */
export interface PublicState {
  /** The newest event of each variable, deletions included. */
  readonly newest: ReadonlyMap<string, LogEvent>;
  readonly head: Entry<EventsHead> | undefined;
}

/** The log's metadata. Every commit checks it. */
export interface EventsHead {
  /** The id of the newest event. */
  readonly id: number;
  /** Up to this id, the log keeps only the newest event of each variable. */
  readonly compactedUpTo: number;
  /** The number of events above `compactedUpTo`. */
  readonly recent: number;
}

/** Options of {@linkcode EventLog.append}. */
interface AppendOptions {
  /** Additional preconditions of the commit. */
  checks: readonly Check[];
  /** The new ids are higher than this one. */
  afterId: number;
}

/** What {@linkcode EventLog.append} has committed. */
interface Appended {
  readonly events: readonly LogEvent[];
  /** The state with the new events. */
  readonly state: PublicState;
}

/** Options of {@linkcode EventLog}. */
interface EventLogOptions {
  clock: Clock;
  /** Returns a number in [0, 1). */
  random: () => number;
  /** How many of the newest events are kept without compaction. */
  keep: number;
}

const NO_HEAD: EventsHead = { id: 0, compactedUpTo: 0, recent: 0 };

/** The key of the log's metadata, with the `id` of the newest event. */
export const EVENTS_HEAD_KEY: Key = ["head"];

/** The number of tags, and the difference between consecutive ids. */
const TAGS = 1_000;
/** A commit of Deno KV accepts 80 KiB of keys, of which each may begin with the name of an app, of up to 254 bytes. */
const MAX_DELETES = 250;
/** How far the log may outgrow `keep`, so that not every change compacts it. */
const SLACK = 0.1;

/** The sequence of all changes, in the store, shared by all processes. */
export class EventLog {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #keep: number;
  /**
   * The tag for an empty log. Otherwise, its ids already contain one. It distinguishes most logs, such as those of
   * gateways with stores in memory, before and after a restart or behind one load balancer.
   */
  readonly #newTag: number;
  /** The state that was read or written last. */
  #known: PublicState | undefined;

  constructor(store: Store, { clock, random, keep }: EventLogOptions) {
    this.#store = store;
    this.#clock = clock;
    this.#keep = keep;
    this.#newTag = Math.floor(random() * TAGS);
  }

  /** Returns the events after an id, in order. */
  async after(id: number, limit: number): Promise<LogEvent[]> {
    return toEvents(
      await this.#store.list<StoredEvent>(EVENTS, { from: id + 1, limit }),
    );
  }

  /** Returns the newest events, in order. */
  async newest(limit: number): Promise<LogEvent[]> {
    return toEvents(
      await this.#store.list<StoredEvent>(EVENTS, { limit, reverse: true }),
    ).reverse();
  }

  /** Returns the newest event of every variable. */
  async state(): Promise<PublicState> {
    // The head is read first: so a commit in between makes the next check fail.
    const head = await this.#store.get<EventsHead>(EVENTS_HEAD_KEY);
    // Every commit writes the head. After a restore, another one may have the same version.
    const known = this.knownState(head?.value.id ?? 0);
    if (known?.head && known.head.version === head?.version) return known;
    const newest = toStates(await this.#store.list<StoredState>(STATES));
    return this.#known = { head, newest };
  }

  /**
   * Returns the state without a read, if this process knows one with this newest event. Another process may have written
   * since: then {@linkcode append} fails, and the state has to be read.
   */
  knownState(id: number): PublicState | undefined {
    const knownId = this.#known?.head?.value.id ?? 0;
    return knownId === id ? this.#known : undefined;
  }

  /**
   * Appends changes to a state, in one commit.
   *
   * @returns `undefined` if another process has written in the meantime.
   */
  async append(
    changes: readonly Change[],
    state: PublicState,
    { checks, afterId }: AppendOptions,
  ): Promise<Appended | undefined> {
    const { id, compactedUpTo, recent } = state.head?.value ?? NO_HEAD;
    const events = this.#withIds(changes, id, afterId);
    const deleted = events.flatMap((event) =>
      outdatedBy(event, state, compactedUpTo)
    );
    const recentlyDeleted = deleted.filter((id) => id > compactedUpTo);
    const value: EventsHead = {
      id: events.at(-1)?.id ?? id,
      compactedUpTo,
      recent: recent + events.length - recentlyDeleted.length,
    };
    const head = await this.#commit(state.head, checks, value, [
      ...events.flatMap(eventWrites),
      ...deleted.map((id) => ({ key: [...EVENTS, id] })),
    ]);
    if (head === undefined) return undefined;
    const newest = new Map(state.newest);
    for (const event of events) newest.set(event.name, event);
    this.#known = { head, newest };
    return { events, state: this.#known };
  }

  /**
   * Deletes old events of variables that are not PUBLIC any more. The newest event stays until {@linkcode append}
   * replaces it.
   *
   * @returns Whether the log has changed, so that the state has to be read again.
   */
  async deleteValues(
    names: ReadonlySet<string>,
    { head, newest }: PublicState,
  ): Promise<boolean> {
    if (head === undefined || names.size === 0) return false;
    const entries = await this.#store.list<StoredEvent>(EVENTS);
    const old = outdated(
      entries.filter(({ value }) => names.has(value.name)),
      newest,
    );
    let current: Entry<EventsHead> | undefined = head;
    for (const some of chunk(old, MAX_DELETES)) {
      if (current === undefined) break;
      const deletes = some.map(({ key }: Entry) => ({ key }));
      const value: EventsHead = {
        ...current.value,
        recent: current.value.recent - deletes.length,
      };
      current = await this.#commit(current, [], value, deletes);
    }
    return old.length > 0;
  }

  /**
   * Compacts the events that are older than the newest `keep`.
   *
   * @param state As {@linkcode append} returned it. It is not read again: as long as the commits succeed, only this process
   * has changed the log.
   */
  async compact({ head, newest }: PublicState): Promise<void> {
    const recent = head?.value.recent ?? 0;
    if (recent <= this.#keep * (1 + SLACK)) return;
    let current = head;
    while (current !== undefined && current.value.recent > this.#keep) {
      current = await this.#compactOldest(current, newest);
    }
  }

  /** Compacts the oldest events above `compactedUpTo`. Returns `undefined` if another process has changed the log. */
  async #compactOldest(
    head: Entry<EventsHead>,
    newest: PublicState["newest"],
  ): Promise<Entry<EventsHead> | undefined> {
    const { compactedUpTo, recent } = head.value;
    const limit = Math.min(recent - this.#keep, MAX_DELETES);
    const old = await this.#store.list<StoredEvent>(EVENTS, {
      from: compactedUpTo + 1,
      limit,
    });
    const last = old.at(-1);
    if (last === undefined) return undefined;
    const value = {
      ...head.value,
      compactedUpTo: eventId(last),
      recent: recent - old.length,
    };
    const deletes = outdated(old, newest).map(({ key }) => ({ key }));
    return await this.#commit(head, [], value, deletes);
  }

  /** Assigns ids with the tag of the log, higher than the id of its head and than `afterId`. */
  #withIds(
    changes: readonly Change[],
    head: number,
    afterId: number,
  ): LogEvent[] {
    const known = head || afterId;
    const tag = known === 0 ? this.#newTag : tagOf(known);
    let id = Math.max(head, afterId);
    return changes.map((change) => ({
      ...change,
      id: id = idAfter(id, this.#clock.now(), tag),
    }));
  }

  /** Replaces the head. Afterwards, the known state has another version, or is outdated. */
  async #commit(
    head: Entry<EventsHead> | undefined,
    checks: readonly Check[],
    value: EventsHead,
    writes: readonly Write[],
  ): Promise<Entry<EventsHead> | undefined> {
    const key = EVENTS_HEAD_KEY;
    const check = { key, version: head?.version ?? null };
    const all = [{ key, value }, ...writes];
    const version = await this.#store.commit([check, ...checks], all);
    this.#known = undefined;
    return version === undefined ? undefined : { key, value, version };
  }
}

/** Returns the events that are not the newest of their variable. */
function outdated(
  entries: readonly Entry<StoredEvent>[],
  newest: PublicState["newest"],
): readonly Entry<StoredEvent>[] {
  return entries.filter((entry) =>
    newest.get(entry.value.name)?.id !== eventId(entry)
  );
}

/**
 * Returns the id of the event that a new event of the same variable makes outdated, if it need not be kept: in the
 * compacted part of the log, or if the variable leaves the PUBLIC tier.
 */
function outdatedBy(
  { name, leavesPublic }: LogEvent,
  state: PublicState,
  compactedUpTo: number,
): number[] {
  const id = state.newest.get(name)?.id;
  return id !== undefined && (id <= compactedUpTo || leavesPublic) ? [id] : [];
}

/**
 * Returns the id after another one: a time in milliseconds, and the tag of the log in the last three digits. It is a safe
 * integer until the year 2255.
 */
function idAfter(id: number, now: number, tag: number): number {
  return Math.max(Math.floor(id / TAGS) + 1, now) * TAGS + tag;
}

/** Returns the tag in an id, which shows whether the id is from another log. */
export function tagOf(id: number): number {
  return id % TAGS;
}

/** The prefix of the events, by id. */
export const EVENTS = ["event"];
/** The prefix of the newest event of each variable, by name. */
export const STATES = ["state"];

/**
 * An event as it is stored. The value is UTF-8, since Deno KV needs two bytes per character for a string that contains
 * any character outside Latin-1.
 */
export interface StoredEvent {
  readonly name: string;
  readonly value?: Uint8Array;
  readonly leavesPublic?: boolean;
  readonly cause?: ChangeCause | undefined;
}

/** The newest event of a variable as it is stored. */
export interface StoredState extends StoredEvent {
  readonly id: number;
}

/** A value in Deno KV has at most 64 KiB: a longer one leaves no room for the longest cause. */
const MAX_EXPLAINED_BYTES = 60_000;

/** Returns the writes that store an event and make it its variable's newest. */
function eventWrites(event: LogEvent): Write[] {
  const stored = encode(event);
  const isLong = (stored.value?.length ?? 0) > MAX_EXPLAINED_BYTES;
  const cause = isLong ? undefined : event.cause;
  return [
    { key: [...EVENTS, event.id], value: { ...stored, cause } },
    { key: [...STATES, event.name], value: { ...stored, id: event.id } },
  ];
}

/** Decodes entries of the log. */
export function toEvents(entries: readonly Entry<StoredEvent>[]): LogEvent[] {
  return entries.map((entry) => decode(eventId(entry), entry.value));
}

/** Decodes entries of the variables' newest events; returns them by name. */
function toStates(
  entries: readonly Entry<StoredState>[],
): Map<string, LogEvent> {
  return new Map(
    entries.map(({ value }) => [value.name, decode(value.id, value)]),
  );
}

/** Returns the id of the event in an entry of the log. */
export function eventId({ key }: Entry<StoredEvent>): number {
  return Number(key.at(-1));
}

function encode({ name, value, leavesPublic }: Change): StoredEvent {
  return {
    name,
    ...(value === undefined ? {} : { value: toUtf8(value) }),
    ...(leavesPublic ? { leavesPublic } : {}),
  };
}

function decode(
  id: number,
  { name, value, leavesPublic, cause }: StoredEvent,
): LogEvent {
  return {
    id,
    name,
    value: value && fromUtf8(value),
    leavesPublic: leavesPublic ?? false,
    cause,
  };
}
