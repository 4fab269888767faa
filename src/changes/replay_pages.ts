import { SharedCalls } from "../values/shared_calls.ts";
import type { EventLog } from "./event_log.ts";
import { eventFrame, type Frame, sizeOf, takeAfter } from "./frame.ts";
import type { LogEvent } from "./event.ts";

/** Events that were read from the store together. */
interface Page {
  /** The cursor after which they were read. */
  readonly after: number;
  /** At least one. */
  readonly frames: readonly Frame[];
}

/** A page of small events is sent in one chunk. */
const MAX_EVENTS = 100;
/** The size that a page of large events should have: four chunks of a stream. */
const PAGE_BYTES = 256 << 10;
/** The pages that are kept take 16 MiB, with which 64 streams can be at different positions without reading twice. */
const MAX_PAGES = 64;
const MAX_BYTES = MAX_PAGES * PAGE_BYTES;

/**
 * The events that streams need to catch up and that are too old for the {@linkcode Tail}. A page is read once and kept
 * until its streams have sent it: a chunk is smaller than a page of large events, and after a restart many clients have
 * missed the same events.
 */
export class ReplayPages {
  readonly #log: EventLog;
  /** The least recently used page comes first. */
  #pages: Page[] = [];
  /** Streams that ask for the same page at the same time share one read. */
  readonly #reading = new SharedCalls<readonly Frame[]>();
  /** How many events to read, so that a page has about {@linkcode PAGE_BYTES}. */
  #limit = MAX_EVENTS;
  #clearings = 0;

  constructor(log: EventLog) {
    this.#log = log;
  }

  /** Returns events after a cursor; none if there are no more. */
  async after(cursor: number, maxBytes: number): Promise<readonly Frame[]> {
    const frames = this.#find(cursor) ??
      await this.#reading.run(String(cursor), () => this.#read(cursor));
    return takeAfter(frames, cursor, maxBytes);
  }

  /** Drops all pages, since they contain values that must not be sent any more. */
  clear(): void {
    this.#pages = [];
    this.#clearings++;
  }

  #find(cursor: number): readonly Frame[] | undefined {
    const page = this.#pages.find(({ after, frames }) =>
      after <= cursor && cursor < (frames.at(-1)?.id ?? 0)
    );
    if (page !== undefined) this.#keep(page);
    return page?.frames;
  }

  async #read(cursor: number): Promise<readonly Frame[]> {
    const clearings = this.#clearings;
    const frames = (await this.#log.after(cursor, this.#limit)).map(toFrame);
    if (clearings !== this.#clearings) return await this.#read(cursor); // the page may contain deleted values
    if (frames.length === 0) return frames;
    const average = sizeOf(frames) / frames.length;
    this.#limit = Math.min(MAX_EVENTS, Math.ceil(PAGE_BYTES / average));
    this.#keep({ after: cursor, frames });
    return frames;
  }

  /** Makes a page the most recently used, and drops the least recently used ones if there are too many. */
  #keep(page: Page): void {
    this.#pages = [...this.#pages.filter((other) => other !== page), page];
    let bytes = this.#pages.reduce(
      (sum, { frames }) => sum + sizeOf(frames),
      0,
    );
    while (bytes > MAX_BYTES || this.#pages.length > MAX_PAGES) {
      bytes -= sizeOf(this.#pages.shift()?.frames ?? []);
    }
  }
}

const encoder = new TextEncoder();

function toFrame(event: LogEvent): Frame {
  return { id: event.id, bytes: encoder.encode(eventFrame(event)) };
}
