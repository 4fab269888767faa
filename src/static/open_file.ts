import { eTag } from "@std/http/etag";
import type { ByteRange } from "./byte_range.ts";

/** A file that is about to be sent: all of this describes one and the same state of it. */
export interface OpenFile extends Disposable {
  readonly size: number;
  readonly mtime: Date | null;
  /** A strong entity tag; nothing if the file is large and its file system keeps no time. */
  readonly etag: string | undefined;
  /**
   * Takes the bytes of a range, once. A stream that is taken owns the file from then on: it has to be read or
   * cancelled.
   */
  body(range: ByteRange): Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array<ArrayBuffer>>;
}

/**
 * Up to here a file is read whole, and tagged by its content: images are often built with one and the same date for
 * all files, and a service worker or a page in which only a hash differs keeps its size as well.
 */
const WHOLE_BYTES = 256 * 1024;

/** What is held of a file at a time for each client that reads it. */
const CHUNK_BYTES = 64 * 1024;

/**
 * Opens a regular file. Let it go with `using`; its body survives that.
 *
 * @throws {Deno.errors.NotFound} And its like, if it cannot be opened.
 */
export async function openFile(path: string): Promise<OpenFile> {
  const file = await Deno.open(path);
  try {
    const { size, mtime } = await file.stat();
    if (size > WHOLE_BYTES) return await largeFile(file, { path, size, mtime });
    return await smallFile(await new Response(file.readable).bytes(), mtime);
  } catch (error) {
    file[Symbol.dispose]();
    throw error;
  }
}

async function smallFile(bytes: Uint8Array<ArrayBuffer>, mtime: Date | null): Promise<OpenFile> {
  return {
    size: bytes.length,
    mtime,
    etag: await eTag(bytes),
    body: ({ start, end }) => bytes.subarray(start, end),
    [Symbol.dispose]() {}, // reading to the end has closed it
  };
}

interface LargeFile {
  path: string;
  size: number;
  mtime: Date | null;
}

async function largeFile(file: Deno.FsFile, { path, size, mtime }: LargeFile): Promise<OpenFile> {
  // Strong, although made of size and time: If-Range takes no other, and times are kept to the millisecond or better.
  const etag = await eTag({ size, mtime }, { weak: false });
  let isTaken = false;
  return {
    size,
    mtime,
    etag,
    body(range) {
      file.seekSync(range.start, Deno.SeekMode.Start); // moves a number, and waits for no disk
      isTaken = true;
      return streamBytes(file, { path, count: range.end - range.start });
    },
    [Symbol.dispose]() {
      if (!isTaken) file.close();
    },
  };
}

/** Sends exactly as many bytes as were announced, however the file grows; if it shrinks, the stream fails. */
function streamBytes(file: Deno.FsFile, { path, count }: { path: string; count: number }) {
  let left = count;
  const close = () => file[Symbol.dispose](); // unlike close(), may be called twice
  return new ReadableStream<Uint8Array<ArrayBuffer>>({
    async pull(controller) {
      try {
        const chunk = await readChunk(file, Math.min(left, CHUNK_BYTES));
        if (chunk === undefined) throw new Error(`Cannot send "${path}" to its end: it became shorter meanwhile`);
        left -= chunk.length;
        controller.enqueue(chunk);
      } catch (error) {
        close();
        throw error;
      }
      if (left > 0) return;
      close();
      controller.close();
    },
    cancel: close,
  }, { highWaterMark: 0 });
}

async function readChunk(file: Deno.FsFile, size: number): Promise<Uint8Array<ArrayBuffer> | undefined> {
  const buffer = new Uint8Array(size);
  const count = await file.read(buffer);
  return count === null ? undefined : buffer.subarray(0, count);
}
