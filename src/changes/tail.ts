import type { EventLog, PublicState } from "./event_log.ts";
import { eventFrame, type Frame, sizeOf, takeAfter } from "./frame.ts";
import { type LogEvent, tagOf } from "./event.ts";
import { ReplayPages } from "./replay_pages.ts";

/** An event in the cache. */
interface CachedFrame extends Frame {
  readonly name: string;
  /** The variable's value from this event on; `undefined` if it was deleted. */
  readonly value: string | undefined;
}

/** The size of a process's cache; older events are read from the store. */
const MAX_FRAMES = 10_000;
const MAX_BYTES = 8 << 20;
const PAGE_SIZE = 500;

/** The only reader of the log in a process: caches the newest events, encoded, and the public state. */
export class Tail {
  /** Called with new events, in order. */
  onEvents: (frames: readonly Frame[]) => void = () => {};
  readonly #log: EventLog;
  readonly #encoder = new TextEncoderStream();
  readonly #texts = this.#encoder.writable.getWriter();
  readonly #encoded = this.#encoder.readable.getReader();
  readonly #replayPages: ReplayPages;
  readonly #state = new Map<string, CachedFrame>();
  /** The values of `#state` in order; `undefined` if they have to be sorted again. */
  #sortedState: readonly CachedFrame[] | undefined;
  #frames: CachedFrame[] = [];
  #bytes = 0;
  #oldestInMemory = 0;
  #head = 0;
  #reading: Promise<void> | undefined;
  /** A read was requested after the last one began. */
  #isStale = false;
  #isLoaded = false;

  constructor(log: EventLog) {
    this.#log = log;
    this.#replayPages = new ReplayPages(log);
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

  /** All events after this id are cached. */
  get oldestInMemory(): number {
    return this.#oldestInMemory;
  }

  /** The newest event of every variable, deletions included, in order. */
  get state(): readonly CachedFrame[] {
    return this.#sortedState ??= [...this.#state.values()].sort((a, b) =>
      a.id - b.id
    );
  }

  /** Whether the log has been read at least once. */
  get isLoaded(): boolean {
    return this.#isLoaded;
  }

  /** The newest events in memory, in order. */
  newest(limit: number): readonly Omit<CachedFrame, "bytes">[] {
    return this.#frames.slice(-limit);
  }

  /** The public state as of the newest event. */
  get publicValues(): ReadonlyMap<string, string> {
    const present = this.state.filter((frame) => frame.value !== undefined);
    return new Map(present.map(({ name, value = "" }) => [name, value]));
  }

  /**
   * Reads new events; for the first time, also the public state and the newest part of the log. Calls during a read
   * cause one more, of new events only.
   */
  readNew(): Promise<void> {
    this.#isStale = true;
    return this.#reading ??= this.#readAll().finally(() =>
      this.#reading = undefined
    );
  }

  async #readAll(): Promise<void> {
    if (!this.#isLoaded) await this.#load();
    while (this.#isStale) {
      this.#isStale = false;
      const events = await this.#log.after(this.#head, PAGE_SIZE);
      if (events.length === PAGE_SIZE) this.#isStale = true;
      if (events.length > 0) await this.#append(events);
    }
  }

  async #load(): Promise<void> {
    const { events, newest } = await this.#readLog();
    this.#oldestInMemory = newest.length < PAGE_SIZE
      ? 0
      : (newest[0]?.id ?? 1) - 1;
    for (const event of events.values()) {
      this.#setState(await this.#encode(event));
    }
    for (const event of newest) this.#add(await this.#encode(event));
    this.#isLoaded = true;
  }

  /**
   * Reads the state first: events that are appended meanwhile are among the newest. Otherwise the state would be ahead
   * of the head, and a stream that begins with it would get some events twice.
   */
  async #readLog(): Promise<
    { events: PublicState["events"]; newest: readonly LogEvent[] }
  > {
    const { events, head } = await this.#log.state();
    const newest = await this.#log.newest(PAGE_SIZE);
    const isComplete = newest.length < PAGE_SIZE ||
      (newest[0]?.id ?? 0) <= (head?.value.id ?? 0);
    return isComplete ? { events, newest } : await this.#readLog();
  }

  async #append(events: readonly LogEvent[]): Promise<void> {
    const frames: CachedFrame[] = [];
    for (const event of events) {
      if (event.leavesPublic) this.#remove(event.name);
      frames.push(await this.#encode(event));
    }
    for (const frame of frames) this.#add(frame);
    this.onEvents(frames);
  }

  #add(frame: CachedFrame): void {
    this.#frames.push(frame);
    this.#bytes += frame.bytes.length;
    this.#head = frame.id;
    if ((this.#state.get(frame.name)?.id ?? 0) <= frame.id) {
      this.#setState(frame);
    }
    if (this.#frames.length > 2 * MAX_FRAMES || this.#bytes > 2 * MAX_BYTES) {
      this.#evict();
    }
  }

  #setState(frame: CachedFrame): void {
    this.#state.set(frame.name, frame);
    this.#sortedState = undefined;
  }

  /** Reduces the cache to its size once it has reached twice that, so that this is not needed at every event. */
  #evict(): void {
    let from = Math.max(0, this.#frames.length - MAX_FRAMES);
    let bytes = sizeOf(this.#frames.slice(from));
    while (bytes > MAX_BYTES) {
      bytes -= this.#frames[from++]?.bytes.length ?? bytes;
    }
    this.#oldestInMemory = this.#frames[from - 1]?.id ?? this.#oldestInMemory;
    this.#frames = this.#frames.slice(from);
    this.#bytes = bytes;
  }

  /** Removes the values of a variable that left the PUBLIC tier; they must not be sent from the cache either. */
  #remove(name: string): void {
    this.#frames = this.#frames.filter((frame) => frame.name !== name);
    this.#bytes = sizeOf(this.#frames);
    this.#replayPages.clear();
  }

  /** The log is read by one reader at a time, so each text written to the encoder is answered by its own bytes. */
  async #encode(event: LogEvent): Promise<CachedFrame> {
    const written = this.#texts.write(eventFrame(event));
    const { value } = await this.#encoded.read();
    await written;
    if (value === undefined) {
      throw new TypeError("Cannot encode an event: the tail is closed");
    }
    return { id: event.id, name: event.name, bytes: value, value: event.value };
  }

  /**
   * Returns cached events after a cursor.
   *
   * @param cursor The id of the last event to skip, at least {@linkcode oldestInMemory}.
   * @param maxBytes The maximum total size; a single event may exceed it.
   */
  cached(cursor: number, maxBytes: number): readonly Frame[] {
    return takeAfter(this.#frames, cursor, maxBytes);
  }

  /**
   * Returns the newest event of each variable that changed after a cursor, in order.
   *
   * @param cursor The id of the last event to skip; it may be older than {@linkcode oldestInMemory}.
   * @param maxBytes The maximum total size; a single event may exceed it.
   */
  newestOfEach(cursor: number, maxBytes: number): readonly Frame[] {
    return takeAfter(this.state, cursor, maxBytes);
  }

  /** Returns events after an older cursor; none if there are none between the cursor and the cache. */
  readFromStore(cursor: number, maxBytes: number): Promise<readonly Frame[]> {
    return this.#replayPages.after(cursor, maxBytes);
  }

  /** Closes the encoder. */
  async close(): Promise<void> {
    await this.#reading?.catch(() => {}); // the caller handles the rejection
    await Promise.all([this.#texts.close(), this.#encoded.read()]);
  }
}
