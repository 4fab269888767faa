import { eventFrame } from "./frame.ts";
import type { EventLog, LogEvent } from "./event_log.ts";

/** An event, encoded once for all streams. */
export interface Frame {
  readonly id: number;
  readonly name: string;
  readonly bytes: Uint8Array;
  /** The variable's value from this event on; `undefined` if it was deleted. */
  readonly value: string | undefined;
}

/** Called with new events, in order. */
type FrameListener = (frames: readonly Frame[]) => void;

/** The size of a process's cache; older events are read from the store. */
const MAX_FRAMES = 10_000;
const MAX_BYTES = 8 << 20;
const PAGE_SIZE = 500;
/** Smaller, since such a page is read for a single stream. */
const STREAM_PAGE_SIZE = 100;

/** The only reader of the log in a process: caches the newest events, encoded, and the public state. */
export class Tail {
  readonly #log: EventLog;
  readonly #onFrames: FrameListener;
  readonly #encoder = new TextEncoderStream();
  readonly #texts = this.#encoder.writable.getWriter();
  readonly #encoded = this.#encoder.readable.getReader();
  readonly #state = new Map<string, Frame>();
  /** The values of `#state` in order; `undefined` if they have to be sorted again. */
  #sortedState: readonly Frame[] | undefined;
  #frames: Frame[] = [];
  #bytes = 0;
  #oldestInMemory = 0;
  #head = 0;
  #loading: Promise<void> | undefined;
  #reading: Promise<void> | undefined;
  /** A read was requested after the last one began. */
  #isStale = false;
  #isLoaded = false;

  constructor(log: EventLog, onFrames: FrameListener) {
    this.#log = log;
    this.#onFrames = onFrames;
  }

  /** The id of the newest known event, or 0 if there is none. */
  get head(): number {
    return this.#head;
  }

  /** All events after this id are cached. */
  get oldestInMemory(): number {
    return this.#oldestInMemory;
  }

  /** The newest event of every variable, deletions included, in order. */
  get state(): readonly Frame[] {
    return this.#sortedState ??= [...this.#state.values()].sort((a, b) => a.id - b.id);
  }

  /** Whether the log has been read at least once. */
  get isLoaded(): boolean {
    return this.#isLoaded;
  }

  /** The public state as of the newest event. */
  get publicValues(): ReadonlyMap<string, string> {
    const present = this.state.filter((frame) => frame.value !== undefined);
    return new Map(present.map(({ name, value = "" }) => [name, value]));
  }

  /**
   * Reads new events; for the first time, also the public state and the newest part of the log. Calls during the first
   * read share it, since the store may take longer to answer than the poll interval.
   */
  readNew(): Promise<void> {
    return this.#isLoaded ? this.#refresh() : this.#loadOnce();
  }

  #loadOnce(): Promise<void> {
    return this.#loading ??= this.#load().finally(() => this.#loading = undefined);
  }

  async #load(): Promise<void> {
    const newest = await this.#log.newest(PAGE_SIZE);
    const { events } = await this.#log.state();
    this.#oldestInMemory = newest.length < PAGE_SIZE ? 0 : (newest[0]?.id ?? 1) - 1;
    for (const event of events.values()) this.#setState(await this.#encode(event));
    for (const event of newest) this.#add(await this.#encode(event));
    this.#isLoaded = true;
    await this.#refresh();
  }

  /** Calls during a read cause one more read. */
  #refresh(): Promise<void> {
    this.#isStale = true;
    return this.#reading ??= this.#readAll().finally(() => this.#reading = undefined);
  }

  async #readAll(): Promise<void> {
    while (this.#isStale) {
      this.#isStale = false;
      const events = await this.#log.after(this.#head, PAGE_SIZE);
      if (events.length === PAGE_SIZE) this.#isStale = true;
      if (events.length > 0) await this.#append(events);
    }
  }

  async #append(events: readonly LogEvent[]): Promise<void> {
    const frames: Frame[] = [];
    for (const event of events) {
      if (event.leavesPublic) this.#redact(event.name);
      frames.push(await this.#encode(event));
    }
    for (const frame of frames) this.#add(frame);
    this.#onFrames(frames);
  }

  #add(frame: Frame): void {
    this.#frames.push(frame);
    this.#bytes += frame.bytes.length;
    this.#head = frame.id;
    if ((this.#state.get(frame.name)?.id ?? 0) <= frame.id) this.#setState(frame);
    if (this.#frames.length > 2 * MAX_FRAMES || this.#bytes > 2 * MAX_BYTES) this.#evict();
  }

  #setState(frame: Frame): void {
    this.#state.set(frame.name, frame);
    this.#sortedState = undefined;
  }

  /** Reduces the cache to its size once it has reached twice that, so that this is not needed at every event. */
  #evict(): void {
    let from = Math.max(0, this.#frames.length - MAX_FRAMES);
    let bytes = this.#frames.slice(from).reduce((sum, frame) => sum + frame.bytes.length, 0);
    while (bytes > MAX_BYTES) bytes -= this.#frames[from++]?.bytes.length ?? bytes;
    this.#oldestInMemory = this.#frames[from - 1]?.id ?? this.#oldestInMemory;
    this.#frames = this.#frames.slice(from);
    this.#bytes = bytes;
  }

  /** Removes the values of a variable that left the PUBLIC tier; they must not be sent from the cache either. */
  #redact(name: string): void {
    this.#frames = this.#frames.filter((frame) => frame.name !== name);
    this.#bytes = this.#frames.reduce((sum, frame) => sum + frame.bytes.length, 0);
  }

  /** The log is read by one reader at a time, so each text written to the encoder is answered by its own bytes. */
  async #encode(event: LogEvent): Promise<Frame> {
    const written = this.#texts.write(eventFrame(event));
    const { value } = await this.#encoded.read();
    await written;
    if (value === undefined) throw new TypeError("Cannot encode an event: the tail is closed");
    return { id: event.id, name: event.name, bytes: value, value: event.value };
  }

  /**
   * Returns cached events after a cursor.
   *
   * @param cursor The id of the last event to skip, at least {@linkcode oldestInMemory}.
   * @param maxBytes The maximum total size; a single event may exceed it.
   */
  cached(cursor: number, maxBytes: number): readonly Frame[] {
    return takeBytes(maxBytes, this.#frames, indexAfter(this.#frames, cursor));
  }

  /**
   * Returns the newest event of each variable that changed after a cursor, up to the head.
   *
   * @param cursor The id of the last event to skip; it may be older than {@linkcode oldestInMemory}.
   * @param maxBytes The maximum total size; a single event may exceed it.
   */
  newestOfEach(cursor: number, maxBytes: number): readonly Frame[] {
    const { state } = this;
    // The state may be ahead of the head while the log is read for the first time.
    return takeBytes(maxBytes, state, indexAfter(state, cursor)).filter(({ id }) => id <= this.#head);
  }

  /** Returns events after an older cursor from the store. */
  async readFromStore(cursor: number, maxBytes: number): Promise<readonly Frame[]> {
    const events = await this.#log.after(cursor, STREAM_PAGE_SIZE);
    const frames = events.map((event) => {
      return { id: event.id, name: event.name, bytes: encoder.encode(eventFrame(event)), value: event.value };
    });
    return takeBytes(maxBytes, frames, 0);
  }

  /** Closes the encoder. */
  async close(): Promise<void> {
    await this.#loading?.catch(() => {}); // the caller handles the rejection
    await this.#reading?.catch(() => {}); // the caller handles the rejection
    await Promise.all([this.#texts.close(), this.#encoded.read()]);
  }
}

const encoder = new TextEncoder();

/** Returns frames from `first` on with at most `maxBytes` in total, but at least one. */
function takeBytes(maxBytes: number, frames: readonly Frame[], first: number): readonly Frame[] {
  let end = first;
  let bytes = 0;
  while (end < frames.length && (end === first || bytes + (frames[end]?.bytes.length ?? 0) <= maxBytes)) {
    bytes += frames[end++]?.bytes.length ?? 0;
  }
  return frames.slice(first, end);
}

/** Returns the index of the first event after a cursor. */
function indexAfter(frames: readonly Frame[], cursor: number): number {
  let low = 0;
  let high = frames.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((frames[middle]?.id ?? 0) <= cursor) low = middle + 1;
    else high = middle;
  }
  return low;
}
