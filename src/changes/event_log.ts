import { batches } from "../store/commits.ts";
import type { Check, Entry, Key, Store, Write } from "../store/store.ts";
import type { Clock } from "../values/clock.ts";
import { slices } from "../values/chunks.ts";
import {
  type Change,
  eventDelete,
  eventId,
  EVENTS,
  eventWrites,
  idAfter,
  type LogEvent,
  randomTag,
  STATES,
  type StoredEvent,
  type StoredState,
  tagOf,
  toEvents,
  toStates,
} from "./event.ts";

/** The public state in the store. */
export interface PublicState {
  /** The newest event of each variable, deletions included. */
  readonly events: ReadonlyMap<string, LogEvent>;
  readonly head: Entry<Head> | undefined;
}

/** The log's metadata. Every commit checks it. */
interface Head {
  /** The id of the newest event. */
  readonly id: number;
  /** Up to this id, the log keeps only the newest event of each variable. */
  readonly compactedUpTo: number;
  /** The number of events above `compactedUpTo`. */
  readonly recent: number;
}

/** What a commit depends on. */
interface Preconditions {
  head: Entry<Head> | undefined;
  checks: readonly Check[];
}

/** Options of {@linkcode EventLog.append}. */
interface AppendOptions {
  /** Additional preconditions of each commit. */
  checks: readonly Check[];
  /** The new ids are higher than this one. */
  afterId: number;
  /** Called with the new events of each commit. */
  onCommit: (events: readonly LogEvent[]) => void;
}

/** Options of {@linkcode EventLog}. */
interface EventLogOptions {
  clock: Clock;
  /** Returns a number in [0, 1). */
  random: () => number;
  /** How many of the newest events are kept without compaction. */
  keep: number;
}

const NO_HEAD: Head = { id: 0, compactedUpTo: 0, recent: 0 };

/** The key of the log's metadata, with the `id` of the newest event. */
export const EVENTS_HEAD_KEY: Key = ["head"];

/** Half of what a commit of Deno KV accepts, which is 1,000 mutations. */
const MAX_DELETES = 500;
/** How far the log may outgrow `keep`, so that it is not compacted at every change. */
const SLACK = 0.1;

/** The sequence of all changes, in the store, shared by all processes. */
export class EventLog {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #keep: number;
  /** The tag of the log if it is empty. Otherwise, its ids have one. */
  readonly #newTag: number;
  /** The state that was read or written last. */
  #known: PublicState | undefined;

  constructor(store: Store, { clock, random, keep }: EventLogOptions) {
    this.#store = store;
    this.#clock = clock;
    this.#keep = keep;
    this.#newTag = randomTag(random);
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
    const head = await this.#store.get<Head>(EVENTS_HEAD_KEY);
    // Every commit of events writes the head, so that the state of the same version is the same.
    const isKnown = head !== undefined &&
      head.version === this.#known?.head?.version;
    if (isKnown) return this.#known!;
    const events = toStates(await this.#store.list<StoredState>(STATES));
    return this.#known = { head, events };
  }

  /**
   * Appends changes to the state that was read.
   *
   * @returns The state with the new events, or `undefined` if another process has written in the meantime.
   */
  async append(
    changes: readonly Change[],
    state: PublicState,
    { checks, afterId, onCommit }: AppendOptions,
  ): Promise<PublicState | undefined> {
    const newest = new Map(state.events);
    let head = state.head;
    for (const batch of batches(changes)) {
      const events = this.#withIds(batch, head?.value.id ?? 0, afterId);
      head = await this.#commitEvents(events, state, { head, checks });
      if (head === undefined) return undefined;
      onCommit(events);
      for (const event of events) newest.set(event.name, event);
    }
    return this.#known = { head, events: newest };
  }

  /**
   * Deletes old events of variables that are not PUBLIC any more. The newest event stays until {@linkcode append}
   * replaces it.
   *
   * @returns Whether the log has changed, so that the state has to be read again.
   */
  async deleteValues(
    names: ReadonlySet<string>,
    { head, events }: PublicState,
  ): Promise<boolean> {
    if (head === undefined || names.size === 0) return false;
    const entries = await this.#store.list<StoredEvent>(EVENTS);
    const old = outdated(
      entries.filter(({ value }) => names.has(value.name)),
      events,
    );
    let current: Entry<Head> | undefined = head;
    for (const slice of slices(old, MAX_DELETES)) {
      if (current === undefined) break;
      const deletes = slice.map(({ key }) => ({ key }));
      const value: Head = {
        ...current.value,
        recent: current.value.recent - deletes.length,
      };
      current = await this.#commit(
        { head: current, checks: [] },
        value,
        deletes,
      );
    }
    return old.length > 0;
  }

  /**
   * Compacts the events that are older than the newest `keep`.
   *
   * @param state As {@linkcode append} returned it. It is not read again: as long as the commits succeed, only this process
   * has changed the log.
   */
  async compact({ head, events }: PublicState): Promise<void> {
    if (
      head === undefined ||
      head.value.recent - this.#keep < Math.max(1, this.#keep * SLACK)
    ) return;
    let current: Entry<Head> | undefined = head;
    while (current !== undefined && current.value.recent > this.#keep) {
      current = await this.#compactOldest(current, events);
    }
  }

  /** Compacts the oldest events above `compactedUpTo`. Returns `undefined` if another process has changed the log. */
  async #compactOldest(
    head: Entry<Head>,
    newest: PublicState["events"],
  ): Promise<Entry<Head> | undefined> {
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
    return await this.#commit(
      { head, checks: [] },
      value,
      outdated(old, newest).map(({ key }) => ({ key })),
    );
  }

  /** Gives out ids with the tag of the log, above that of its head and another one. */
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

  async #commitEvents(
    events: readonly LogEvent[],
    state: PublicState,
    { head, checks }: Preconditions,
  ) {
    const { compactedUpTo, recent } = head?.value ?? NO_HEAD;
    const deleted = events.flatMap((event) =>
      outdatedBy(event, state, compactedUpTo)
    );
    const added = events.length -
      deleted.filter((id) => id > compactedUpTo).length;
    const value = {
      id: events.at(-1)?.id ?? 0,
      compactedUpTo,
      recent: recent + added,
    };
    return await this.#commit({ head, checks }, value, [
      ...events.flatMap(eventWrites),
      ...deleted.map(eventDelete),
    ]);
  }

  async #commit(
    { head, checks }: Preconditions,
    value: Head,
    writes: readonly Write[],
  ): Promise<Entry<Head> | undefined> {
    const check = { key: EVENTS_HEAD_KEY, version: head?.version ?? null };
    const version = await this.#store.commit([check, ...checks], [{
      key: EVENTS_HEAD_KEY,
      value,
    }, ...writes]);
    return version === undefined
      ? undefined
      : { key: EVENTS_HEAD_KEY, value, version };
  }
}

/** Returns the events that are not the newest of their variable. */
function outdated(
  entries: readonly Entry<StoredEvent>[],
  newest: PublicState["events"],
): readonly Entry<StoredEvent>[] {
  return entries.filter((entry) =>
    newest.get(entry.value.name)?.id !== eventId(entry)
  );
}

/**
 * Returns the id of the event of the same variable that a new one makes outdated, if it is not to be kept: where the log
 * is compacted, or if the variable leaves the PUBLIC tier.
 */
function outdatedBy(
  { name, leavesPublic }: LogEvent,
  state: PublicState,
  compactedUpTo: number,
): number[] {
  const id = state.events.get(name)?.id;
  return id !== undefined && (id <= compactedUpTo || leavesPublic) ? [id] : [];
}
