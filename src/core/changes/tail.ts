import { type Clock, sleep } from "../values/clock.ts";
import { publicHash } from "../values/hash.ts";
import { SerialQueue } from "../values/serial_queue.ts";
import { SharedCalls } from "../values/shared_calls.ts";
import {
  type ChangeCause,
  type EventLog,
  type LogEvent,
  tagOf,
} from "./event_log.ts";

/** An event, encoded once for all streams. */
export interface Frame {
  readonly id: number;
  readonly bytes: Uint8Array;
}

/** An event in the cache. */
interface CachedFrame extends Frame {
  readonly name: string;
  /** The variable's value from this event on; `undefined` if it was deleted. */
  readonly value: string | undefined;
  readonly cause: ChangeCause | undefined;
}

/** The size of a process's cache; older events are read from the store. */
const MAX_FRAMES = 10_000;
const MAX_BYTES = 8 << 20;
const PAGE_SIZE = 500;
/** The least time between two reads of new events that clients cause: they can ask without end. */
export const CLIENT_READ_MS = 50;
/** How many older events are read at once for a stream. */
const MAX_OLD_EVENTS = 100;

/** The only reader of the log for pages and streams: caches the newest events, encoded, and the public state. */
export class Tail {
  /** Called with new events, in order. */
  onEvents: (frames: readonly Frame[]) => void = () => {};
  readonly #log: EventLog;
  readonly #clock: Clock;
  /** Streams that ask for the same old events at the same time share one read. */
  readonly #readingOld = new SharedCalls<readonly Frame[]>();
  /** How many old events to read, so that they are about as large as a chunk of a stream. */
  #oldLimit = MAX_OLD_EVENTS;
  /** How often values that must not be sent any more have been removed. */
  #removals = 0;
  /** The newest event of every variable, deletions included, by name. */
  readonly #newestByName = new Map<string, CachedFrame>();
  /** The same in order; `undefined` if they have to be sorted again. */
  #newestInOrder: readonly CachedFrame[] | undefined;
  #publicHash: Promise<string> | undefined;
  #frames: CachedFrame[] = [];
  #bytes = 0;
  #cachedAfter = 0;
  #head = 0;
  /** Reads new events. */
  readonly #queue = new SerialQueue();
  /** The last read, if it has not begun yet. */
  #nextRead: Promise<void> | undefined;
  /** When clients last caused a read, and the next one that they cause. */
  #readForClientsAt = -Infinity;
  #nextForClients: Promise<void> | undefined;
  #isLoaded = false;

  constructor(log: EventLog, clock: Clock) {
    this.#log = log;
    this.#clock = clock;
  }

  /** The id of the newest known event, or 0 if there is none. */
  get head(): number {
    return this.#head;
  }

  /** Whether a cursor is one of this log, and not in the future. */
  hasReached(cursor: number): boolean {
    return cursor <= this.#head &&
      (cursor === 0 || tagOf(cursor) === tagOf(this.#head));
  }

  /** The id after which all events are in memory. */
  get cachedAfter(): number {
    return this.#cachedAfter;
  }

  /** The newest event of every variable, deletions included, in order. */
  get newestOfAll(): readonly CachedFrame[] {
    return this.#newestInOrder ??= [...this.#newestByName.values()].sort((
      a,
      b,
    ) => a.id - b.id);
  }

  /** Whether the log has been read at least once. */
  get isLoaded(): boolean {
    return this.#isLoaded;
  }

  /** The events in memory, in order. */
  get events(): readonly Omit<CachedFrame, "bytes">[] {
    return this.#frames;
  }

  /** The public state as of the newest event. */
  get publicValues(): ReadonlyMap<string, string> {
    const present = this.newestOfAll.filter((frame) =>
      frame.value !== undefined
    );
    return new Map(present.map(({ name, value = "" }) => [name, value]));
  }

  /** The hash of the public state, which is computed once for all clients. */
  get publicHash(): Promise<string> {
    return this.#publicHash ??= publicHash(this.publicValues);
  }

  /**
   * Reads new events; for the first time, also the public state and the newest part of the log. Calls during a read
   * share the next one, of new events only, and do not wait for any after that: clients can cause reads without end.
   */
  readNew(): Promise<void> {
    return this.#nextRead ??= this.#queue.run(() => this.#readNext());
  }

  /** Reads new events, unless it knows this one, or gets it from a read under way: the store hints at every commit. */
  async readUpTo(id: number): Promise<void> {
    await this.#queue.settled();
    if (!this.#isLoaded || this.#head < id) await this.readNew();
  }

  /** Reads new events because a client may know of one. Clients that ask too soon after that share a later read. */
  readForClient(): Promise<void> {
    const now = this.#clock.monotonic();
    const pauseMs = this.#readForClientsAt + CLIENT_READ_MS - now;
    if (pauseMs > 0) return this.#nextForClients ??= this.#readLater(pauseMs);
    this.#readForClientsAt = now;
    return this.readNew();
  }

  async #readLater(ms: number): Promise<void> {
    await sleep(ms, this.#clock);
    this.#nextForClients = undefined;
    this.#readForClientsAt = this.#clock.monotonic();
    await this.readNew();
  }

  async #readNext(): Promise<void> {
    this.#nextRead = undefined;
    if (!this.#isLoaded) return await this.#load();
    let events: LogEvent[];
    do {
      events = await this.#log.after(this.#head, PAGE_SIZE);
      if (events.length > 0) await this.#append(events);
    } while (events.length === PAGE_SIZE);
  }

  /**
   * Reads the state first: events that are appended after that are among the newest. Otherwise the state would be ahead
   * of the head, and a stream that begins with it would get some events twice.
   */
  async #load(): Promise<void> {
    const { newest, head } = await this.#log.state();
    const events = await this.#log.newest(PAGE_SIZE);
    const oldest = events[0]?.id ?? 0;
    const isWhole = events.length < PAGE_SIZE;
    const isGap = !isWhole && oldest > (head?.value.id ?? 0);
    if (isGap) return await this.#load(); // more were appended than one read returns
    const newestFrames = await toFrames([...newest.values()]);
    const frames = await toFrames(events);
    this.#cachedAfter = isWhole ? 0 : oldest - 1;
    for (const frame of newestFrames) this.#setNewest(frame);
    for (const frame of frames) this.#add(frame);
    this.#isLoaded = true;
  }

  /** Encodes the events first: streams read the cache meanwhile, and have to find all of this change or nothing. */
  async #append(events: readonly LogEvent[]): Promise<void> {
    const frames = await toFrames(events);
    for (const event of events) {
      if (event.leavesPublic) this.#remove(event.name);
    }
    for (const frame of frames) this.#add(frame);
    this.onEvents(frames);
  }

  #add(frame: CachedFrame): void {
    this.#frames.push(frame);
    this.#bytes += frame.bytes.length;
    this.#head = frame.id;
    if ((this.#newestByName.get(frame.name)?.id ?? 0) <= frame.id) {
      this.#setNewest(frame);
    }
    this.#evict();
  }

  #setNewest(frame: CachedFrame): void {
    this.#newestByName.set(frame.name, frame);
    this.#newestInOrder = undefined;
    this.#publicHash = undefined;
  }

  #evict(): void {
    while (this.#frames.length > MAX_FRAMES || this.#bytes > MAX_BYTES) {
      const oldest = this.#frames.shift()!;
      this.#bytes -= oldest.bytes.length;
      this.#cachedAfter = oldest.id;
    }
  }

  /** Removes the values of a variable that left the PUBLIC tier; they must not be sent from the cache either. */
  #remove(name: string): void {
    this.#frames = this.#frames.filter((frame) => frame.name !== name);
    this.#bytes = sizeOf(this.#frames);
    this.#removals++;
  }

  /**
   * Returns cached events after a cursor.
   *
   * @param cursor The id of the last event to skip, at least {@linkcode cachedAfter}.
   * @param maxBytes The maximum total size; a single event may exceed it.
   */
  cached(cursor: number, maxBytes: number): readonly Frame[] {
    return takeAfter(this.#frames, cursor, maxBytes);
  }

  /**
   * Returns the newest event of each variable that changed after a cursor, in order.
   *
   * @param cursor The id of the last event to skip; it may be older than {@linkcode cachedAfter}.
   * @param maxBytes The maximum total size; a single event may exceed it.
   */
  newestOfEach(cursor: number, maxBytes: number): readonly Frame[] {
    return takeAfter(this.newestOfAll, cursor, maxBytes);
  }

  /** Returns events after an older cursor; none only if the store has none after it that this process knows. */
  async readFromStore(
    cursor: number,
    maxBytes: number,
  ): Promise<readonly Frame[]> {
    const read = () => this.#readOld(cursor);
    const frames = await this.#readingOld.run(String(cursor), read);
    if (frames.length === 0) return frames;
    const average = sizeOf(frames) / frames.length;
    this.#oldLimit = Math.min(MAX_OLD_EVENTS, Math.ceil(maxBytes / average));
    return takeAfter(frames, cursor, maxBytes);
  }

  async #readOld(cursor: number): Promise<readonly Frame[]> {
    const removals = this.#removals;
    const events = await this.#log.after(cursor, this.#oldLimit);
    const frames = await toFrames(events);
    if (removals !== this.#removals) return await this.#readOld(cursor); // it may contain removed values
    return frames.filter(({ id }) => id <= this.#head); // newer ones are delivered once they are read
  }
}

/** Returns the total size of frames in bytes. */
export function sizeOf(frames: readonly Frame[]): number {
  return frames.reduce((sum, { bytes }) => sum + bytes.length, 0);
}

/**
 * Returns the frames after a cursor, up to a total size.
 *
 * @param frames Frames in order.
 * @param cursor The id of the last event to skip.
 * @param maxBytes The maximum total size; a single frame may exceed it.
 */
export function takeAfter<F extends Frame>(
  frames: readonly F[],
  cursor: number,
  maxBytes: number,
): readonly F[] {
  const first = frames.findLastIndex(({ id }) => id <= cursor) + 1;
  let end = first;
  let bytes = 0;
  while (
    end < frames.length &&
    (end === first || bytes + (frames[end]?.bytes.length ?? 0) <= maxBytes)
  ) {
    bytes += frames[end++]?.bytes.length ?? 0;
  }
  return frames.slice(first, end);
}

/**
 * Returns a change as a message of the stream (endpoint specification, GET /rep/changes): the lines event, data and id.
 * JSON has no line breaks, so a single data line can hold any value.
 */
export function eventFrame(
  { id, name, value }: Omit<LogEvent, "leavesPublic">,
): string {
  const event = value === undefined ? "rep:config:delete" : "rep:config:update";
  const data = JSON.stringify({ key: name, tier: "public", value });
  return `event: ${event}\ndata: ${data}\nid: ${id}\n\n`;
}

/** Encodes the events of a read with one encoder, which returns a chunk for each text that it gets. */
async function toFrames(events: readonly LogEvent[]): Promise<CachedFrame[]> {
  const encoded = ReadableStream.from(events.map(eventFrame))
    .pipeThrough(new TextEncoderStream());
  const chunks = await Array.fromAsync(encoded);
  return events.map(({ id, name, value, cause }, index) => {
    const bytes = chunks[index] as Uint8Array;
    return { id, name, value, bytes, cause };
  });
}
