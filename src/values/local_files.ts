import { denoFileSystem, type FileSystem } from "./file_system.ts";

/** Far above any configuration: a ConfigMap holds 1 MiB. */
const MAX_BYTES = 4 * 1024 * 1024;

/** Returns the file system of the runtime. */
export async function localFiles(): Promise<FileSystem> {
  return globalThis.Deno
    ? denoFileSystem
    : (await import("./node_file_system.ts")).nodeFileSystem;
}

/**
 * Reads a file that may be anything by the time it is read again: it has to be a regular one, or a link to one, as
 * Kubernetes mounts them. Opening a FIFO would wait for its writer, and a device may never end.
 *
 * @throws {TypeError} If it is not a regular file.
 * @throws {RangeError} If it is larger than 4 MiB.
 * @throws {Error} Of the runtime, if it cannot be read.
 */
export async function readBoundedFile(
  path: string,
): Promise<Uint8Array<ArrayBuffer>> {
  const files = await localFiles();
  if (!(await files.stat(path)).isFile) {
    throw new TypeError(`expected a regular file, got '${path}'`);
  }
  // Not as large as `stat()` says, which is 0 under `/proc`, and outdated for a log. Memory is taken as it is filled.
  const buffer = new Uint8Array(MAX_BYTES + 1);
  const size = await files.readInto(buffer, path);
  if (size > MAX_BYTES) {
    throw new RangeError(`expected at most ${MAX_BYTES} bytes in '${path}'`);
  }
  return buffer.slice(0, size);
}
