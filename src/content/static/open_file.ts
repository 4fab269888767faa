import { eTag } from "@std/http/etag";
import type { ByteRange } from "./byte_range.ts";
import { openRegularFile, type RegularFile } from "./regular_file.ts";

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
 * Opens the regular file at a path. Disposing of it does not affect a body that was returned.
 *
 * @param path A path without links, as `Deno.realPath` returns it.
 * @param root The served directory, without links.
 * @throws {Deno.errors.NotFound} If it does not exist, or is no longer at this path. Other errors are those of
 * {@linkcode openRegularFile}.
 */
export async function openFile(path: string, root: string): Promise<OpenFile> {
  const file = await openRegularFile(path, root);
  try {
    if (file.size > MAX_BYTES_IN_MEMORY) return await largeFile(file, path);
    return await smallFile(file);
  } catch (error) {
    file.close();
    throw error;
  }
}

async function smallFile(file: RegularFile): Promise<OpenFile> {
  const bytes = await readAll(file);
  file.close();
  return {
    size: bytes.length,
    mtime: file.mtime,
    etag: await eTag(bytes),
    body: ({ start, end }) => bytes.subarray(start, end),
    [Symbol.dispose]() {},
  };
}

/**
 * Reads a file up to the size that it had when it was opened.
 *
 * @throws {Deno.errors.UnexpectedEof} If it was truncated since then.
 */
export async function readAll(file: RegularFile): Promise<Uint8Array<ArrayBuffer>> {
  const bytes = new Uint8Array(file.size);
  for (let position = 0; position < file.size;) {
    const chunk = await file.read(position, file.size - position);
    if (chunk.length === 0) throw new Deno.errors.UnexpectedEof("Cannot read all of a file: it was truncated");
    bytes.set(chunk, position);
    position += chunk.length;
  }
  return bytes;
}

async function largeFile(file: RegularFile, path: string): Promise<OpenFile> {
  const { size, mtime } = file;
  // Strong, although derived from size and time: If-Range requires it, and file systems keep at least milliseconds.
  const etag = await eTag({ size, mtime }, { weak: false });
  let hasBody = false;
  return {
    size,
    mtime,
    etag,
    body(range) {
      hasBody = true;
      return streamBytes(file, { path, range });
    },
    [Symbol.dispose]() {
      if (!hasBody) file.close();
    },
  };
}

/** Sends exactly the bytes of the range, even if the file grows. If it shrinks, the stream ends in an error. */
function streamBytes(file: RegularFile, { path, range }: { path: string; range: ByteRange }) {
  let { start: position } = range;
  return new ReadableStream<Uint8Array<ArrayBuffer>>({
    async pull(controller) {
      try {
        const chunk = await file.read(position, Math.min(range.end - position, CHUNK_BYTES));
        if (chunk.length === 0) throw new Error(`Cannot send all of "${path}": the file was truncated`);
        position += chunk.length;
        controller.enqueue(chunk);
      } catch (error) {
        file.close();
        throw error;
      }
      if (position < range.end) return;
      file.close();
      controller.close();
    },
    cancel: () => file.close(),
  }, { highWaterMark: 0 });
}
