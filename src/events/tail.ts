import { eventFrame } from "./frame.ts";
import type { EventLog, LogEvent } from "./event_log.ts";

/** An event, encoded once for all streams. */
export interface Frame {
  readonly id: number;
  readonly name: string;
  readonly bytes: Uint8Array;
  /** What the variable is from this event on; nothing if it is gone. */
  readonly value: string | undefined;
}

/** Told what came, in order. */
export type FrameListener = (frames: readonly Frame[]) => void;

/** How many events, and bytes of them, a process keeps at hand; what is older is read from the store. */
const MAX_FRAMES = 10_000;
const MAX_BYTES = 8 << 20;
const PAGE = 500;
/** One stream's page is smaller: it is read for that stream alone. */
const STREAM_PAGE = 100;

/** The process's one reader of the log: it keeps the newest events at hand, encoded, and the public state. */
export class Tail {
  readonly #log: EventLog;
  readonly #onFrames: FrameListener;
  readonly #encoder = new TextEncoderStream();
  readonly #texts = this.#encoder.writable.getWriter();
  readonly #encoded = this.#encoder.readable.getReader();
  readonly #state = new Map<string, Frame>();
  #frames: Frame[] = [];
  #bytes = 0;
  #oldestInMemory = 0;
  #head = 0;
  #loading: Promise<void> | undefined;
  #reading: Promise<void> | undefined;
  #isStale = false;
  #isLoaded = false;

  constructor(log: EventLog, onFrames: FrameListener) {
    this.#log = log;
    this.#onFrames = onFrames;
  }

  /** The id of the newest event that is at hand; 0 if there has never been one. */
  get head(): number {
    return this.#head;
  }

  /** From here on, all events are at hand. */
  get oldestInMemory(): number {
    return this.#oldestInMemory;
  }

  /** The newest event of every variable, deletes included, in order. */
  get state(): readonly Frame[] {
    return [...this.#state.values()].sort((a, b) => a.id - b.id);
  }

  /** Whether there is anything to tell yet: the log has been read once. */
  get isLoaded(): boolean {
    return this.#isLoaded;
  }

  /** The public state as of the newest event. */
  get publicValues(): ReadonlyMap<string, string> {
    const present = this.state.filter((frame) => frame.value !== undefined);
    return new Map(present.map(({ name, value = "" }) => [name, value]));
  }

  /**
   * Reads what a process needs at its start: the public state, and as much of the log as is kept at hand. Calls that come while
   * it reads are that one: the store may take longer to answer than they are apart.
   */
  load(): Promise<void> {
    return this.#loading ??= this.#load().finally(() => this.#loading = undefined);
  }

  async #load(): Promise<void> {
    const newest = await this.#log.newest(PAGE);
    const { events } = await this.#log.state();
    this.#oldestInMemory = newest.length < PAGE ? 0 : (newest[0]?.id ?? 1) - 1;
    for (const event of events.values()) this.#state.set(event.name, await this.#encode(event));
    for (const event of newest) this.#keep(await this.#encode(event));
    this.#isLoaded = true;
    await this.refresh();
  }

  /** Reads what is new in the log, or all that is needed at the start. */
  readNew(): Promise<void> {
    return this.#isLoaded ? this.refresh() : this.load();
  }

  /** Reads what is new in the log, and tells it. Calls that come while it reads are answered by one more reading. */
  refresh(): Promise<void> {
    this.#isStale = true;
    return this.#reading ??= this.#readAll().finally(() => this.#reading = undefined);
  }

  async #readAll(): Promise<void> {
    while (this.#isStale) {
      this.#isStale = false;
      const events = await this.#log.after(this.#head, PAGE);
      if (events.length === PAGE) this.#isStale = true;
      if (events.length > 0) await this.#take(events);
    }
  }

  async #take(events: readonly LogEvent[]): Promise<void> {
    const frames: Frame[] = [];
    for (const event of events) {
      if (event.leavesPublic) this.#redact(event.name);
      frames.push(await this.#encode(event));
    }
    for (const frame of frames) this.#keep(frame);
    this.#onFrames(frames);
  }

  #keep(frame: Frame): void {
    this.#frames.push(frame);
    this.#bytes += frame.bytes.length;
    this.#head = frame.id;
    if ((this.#state.get(frame.name)?.id ?? 0) <= frame.id) this.#state.set(frame.name, frame);
    if (this.#frames.length > 2 * MAX_FRAMES || this.#bytes > 2 * MAX_BYTES) this.#shorten();
  }

  /** Down to the bounds, from twice as much: so that it does not have to be done at every event. */
  #shorten(): void {
    let from = Math.max(0, this.#frames.length - MAX_FRAMES);
    let bytes = this.#frames.slice(from).reduce((sum, frame) => sum + frame.bytes.length, 0);
    while (bytes > MAX_BYTES) bytes -= this.#frames[from++]?.bytes.length ?? bytes;
    this.#oldestInMemory = this.#frames[from - 1]?.id ?? this.#oldestInMemory;
    this.#frames = this.#frames.slice(from);
    this.#bytes = bytes;
  }

  /** A variable that left the PUBLIC tier: its values must not be told any more, from memory neither. */
  #redact(name: string): void {
    this.#frames = this.#frames.filter((frame) => frame.name !== name);
    this.#bytes = this.#frames.reduce((sum, frame) => sum + frame.bytes.length, 0);
  }

  /** One encoder for all streams; the log is read by one reader at a time, so text and bytes cannot get mixed up. */
  async #encode(event: LogEvent): Promise<Frame> {
    const written = this.#texts.write(eventFrame(event));
    const { value } = await this.#encoded.read();
    await written;
    if (value === undefined) throw new TypeError("Cannot encode an event: the tail is closed");
    return { id: event.id, name: event.name, bytes: value, value: event.value };
  }

  /**
   * The events after a cursor that is at hand.
   *
   * @param cursor The last event that is not wanted.
   * @param maxBytes What may be given at once; a single larger event is given all the same.
   */
  cached(cursor: number, maxBytes: number): readonly Frame[] {
    return upTo(maxBytes, this.#frames, firstAfter(this.#frames, cursor));
  }

  /** Like {@linkcode cached}, for a cursor that is not: from the store. */
  async readFromStore(cursor: number, maxBytes: number): Promise<readonly Frame[]> {
    const events = await this.#log.after(cursor, STREAM_PAGE);
    const frames = events.map((event) => {
      return { id: event.id, name: event.name, bytes: encoder.encode(eventFrame(event)), value: event.value };
    });
    return upTo(maxBytes, frames, 0);
  }

  /** Ends the encoder. */
  async close(): Promise<void> {
    await this.#loading?.catch(() => {}); // whoever asked for it has been told
    await this.#reading?.catch(() => {}); // likewise
    await Promise.all([this.#texts.close(), this.#encoded.read()]);
  }
}

const encoder = new TextEncoder();

function upTo(maxBytes: number, frames: readonly Frame[], first: number): readonly Frame[] {
  let end = first;
  let bytes = 0;
  while (end < frames.length && (end === first || bytes + (frames[end]?.bytes.length ?? 0) <= maxBytes)) {
    bytes += frames[end++]?.bytes.length ?? 0;
  }
  return frames.slice(first, end);
}

/** Where the first event after a cursor stands. */
function firstAfter(frames: readonly Frame[], cursor: number): number {
  let low = 0;
  let high = frames.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((frames[middle]?.id ?? 0) <= cursor) low = middle + 1;
    else high = middle;
  }
  return low;
}
