import { concat } from "@std/bytes/concat";
import { type Clock, sleep } from "../../core/values/clock.ts";

/** What lines are written to, such as `Deno.stdout`, whose `write()` waits on a thread of its own. */
export interface LineSink {
  /** Writes some of the bytes, and returns how many. */
  write(bytes: Uint8Array): Promise<number>;
}

/** How many bytes may wait: a few thousand lines. */
const MAX_BYTES = 1 << 20;
/** A write of this size to a pipe is not mixed with those of other threads and processes (PIPE_BUF of Linux). */
const MAX_WRITE_BYTES = 4_096;
/** How long to wait after an error: of a full disk, of a pipe without a reader, of a full pipe that does not block. */
const RETRY_MS = 20;

/**
 * Lines on their way to a descriptor. Adding one never waits: a reader that stalls stops the lines, not the process.
 * After a part of a line, the rest of it is written first, however long that takes.
 */
export class LineQueue {
  /** How many lines had no place. */
  dropped = 0;
  /** Called with their number once the queue is half empty again. */
  onRoom: (dropped: number) => void = () => {};
  readonly #sink: LineSink;
  readonly #clock: Clock;
  readonly #lines: Uint8Array[] = [];
  /** The size of the lines, and of what is being written. */
  #bytes = 0;
  #reported = 0;
  #writing: Promise<void> | undefined;

  constructor(sink: LineSink, clock: Clock) {
    this.#sink = sink;
    this.#clock = clock;
  }

  /** Adds a line. @throws {Error} If the queue is full; then the line is dropped. */
  add(line: string): void {
    if (this.#bytes >= MAX_BYTES) {
      this.dropped++;
      throw new Error("Cannot log: expected a reader of the log that keeps up");
    }
    const bytes = new TextEncoder().encode(`${line}\n`);
    this.#lines.push(bytes);
    this.#bytes += bytes.length;
    this.#writing ??= this.#writeAll();
  }

  /** Resolves when everything has been written. */
  async flush(): Promise<void> {
    await this.#writing;
  }

  async #writeAll(): Promise<void> {
    while (this.#lines.length > 0) {
      let rest = this.#takeLines();
      while (rest.length > 0) {
        const written = await this.#write(rest);
        rest = rest.subarray(written);
        this.#bytes -= written;
      }
      this.#reportDropped();
    }
    this.#writing = undefined;
  }

  /** Takes the first line, and the following ones that fit into the same write. */
  #takeLines(): Uint8Array {
    let size = 0;
    const end = this.#lines.findIndex((line) =>
      (size += line.length) > MAX_WRITE_BYTES
    );
    return concat(this.#lines.splice(0, end === -1 ? Infinity : end || 1));
  }

  async #write(bytes: Uint8Array): Promise<number> {
    try {
      return await this.#sink.write(bytes);
    } catch {
      await sleep(RETRY_MS, this.#clock, { isBackground: true });
      return 0;
    }
  }

  #reportDropped(): void {
    const dropped = this.dropped - this.#reported;
    if (dropped === 0 || this.#bytes > MAX_BYTES / 2) return;
    this.#reported = this.dropped;
    this.onRoom(dropped);
  }
}
