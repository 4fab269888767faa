import { eTag } from "@std/http/etag";
import type { ByteRange } from "./byte_range.ts";

/** A file that is about to be sent. All properties describe the same version of it. */
export interface OpenFile extends Disposable {
  readonly size: number;
  readonly mtime: Date | null;
  /** A strong entity tag; `undefined` if the file is large and its file system has no modification times. */
  readonly etag: string | undefined;
  /** Returns the bytes of a range. Can be called once. A stream owns the file: it has to be read or cancelled. */
  body(range: ByteRange): Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array<ArrayBuffer>>;
}

/**
 * Files up to this size are read into memory, and their entity tag is a hash of the content. Size and time would not
 * distinguish their versions: images are often built with the same date for all files, and a page or a service worker
 * in which only a hash changes keeps its size.
 */
const MAX_BYTES_IN_MEMORY = 256 * 1024;

/** How many bytes of a large file are in memory for each client. */
const CHUNK_BYTES = 64 * 1024;

/**
 * Opens a regular file. Disposing of it does not affect a body that was returned.
 *
 * @throws {Deno.errors.NotFound} If it does not exist. Other errors of `Deno.open` are thrown as well.
 */
export async function openFile(path: string): Promise<OpenFile> {
  const file = await Deno.open(path);
  try {
    const { size, mtime } = await file.stat();
    if (size > MAX_BYTES_IN_MEMORY) return await largeFile(file, { path, size, mtime });
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
    [Symbol.dispose]() {}, // reading the file to its end has closed it
  };
}

interface LargeFile {
  path: string;
  size: number;
  mtime: Date | null;
}

async function largeFile(file: Deno.FsFile, { path, size, mtime }: LargeFile): Promise<OpenFile> {
  // Strong, although derived from size and time: If-Range requires it, and file systems keep at least milliseconds.
  const etag = await eTag({ size, mtime }, { weak: false });
  let hasBody = false;
  return {
    size,
    mtime,
    etag,
    body(range) {
      file.seekSync(range.start, Deno.SeekMode.Start); // does not access the disk
      hasBody = true;
      return streamBytes(file, { path, count: range.end - range.start });
    },
    [Symbol.dispose]() {
      if (!hasBody) file.close();
    },
  };
}

/** Sends exactly `count` bytes, even if the file grows. If it shrinks, the stream ends in an error. */
function streamBytes(file: Deno.FsFile, { path, count }: { path: string; count: number }) {
  let left = count;
  const close = () => file[Symbol.dispose](); // unlike close(), can be called twice
  return new ReadableStream<Uint8Array<ArrayBuffer>>({
    async pull(controller) {
      try {
        const chunk = await readChunk(file, Math.min(left, CHUNK_BYTES));
        if (chunk === undefined) throw new Error(`Cannot send all of "${path}": the file was truncated`);
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
