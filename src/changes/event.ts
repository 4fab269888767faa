import type { Entry, Write } from "../store/store.ts";

/** A change of one PUBLIC variable; without a value, a deletion. */
export interface Change {
  readonly name: string;
  readonly value: string | undefined;
  /** Whether the variable is SENSITIVE or SERVER now: its old values must not be sent any more. */
  readonly leavesPublic: boolean;
}

/** A change with its id in the sequence of all changes; see {@linkcode idAfter}. */
export interface LogEvent extends Change {
  readonly id: number;
}

/** The number of tags, and the difference between consecutive ids. */
const TAGS = 1_000;

/**
 * Returns the id after another one: a time in milliseconds, and the tag of the log in the last three digits. It is a safe
 * integer until the year 2255.
 */
export function idAfter(id: number, now: number, tag: number): number {
  return Math.max(Math.floor(id / TAGS) + 1, now) * TAGS + tag;
}

/** Returns the tag of the log that an id is of, by which the id of another log is recognized. */
export function tagOf(id: number): number {
  return id % TAGS;
}

/**
 * Returns a tag for a new log. Another log may have the same one, but most do not: gateways with stores of their own in
 * memory, before and after a restart, or behind one load balancer.
 *
 * @param random Returns a number in [0, 1).
 */
export function randomTag(random: () => number): number {
  return Math.floor(random() * TAGS);
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
}

/** The newest event of a variable as it is stored. */
export interface StoredState extends StoredEvent {
  readonly id: number;
}

const encoder = new TextEncoder();
/** A value may begin with U+FEFF, which must be preserved. */
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

/** Returns the writes that store an event and make it its variable's newest. */
export function eventWrites(event: LogEvent): Write[] {
  const stored = encode(event);
  return [
    { key: [...EVENTS, event.id], value: stored },
    { key: [...STATES, event.name], value: { ...stored, id: event.id } },
  ];
}

/** Returns the write that deletes an event. */
export function eventDelete(id: number): Write {
  return { key: [...EVENTS, id] };
}

/** Decodes entries of the log. */
export function toEvents(entries: readonly Entry<StoredEvent>[]): LogEvent[] {
  return entries.map((entry) => decode(eventId(entry), entry.value));
}

/** Decodes entries of the variables' newest events; returns them by name. */
export function toStates(
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
    ...(value === undefined ? {} : { value: encoder.encode(value) }),
    ...(leavesPublic ? { leavesPublic } : {}),
  };
}

function decode(
  id: number,
  { name, value, leavesPublic }: StoredEvent,
): LogEvent {
  return {
    id,
    name,
    value: value && decoder.decode(value),
    leavesPublic: leavesPublic ?? false,
  };
}
