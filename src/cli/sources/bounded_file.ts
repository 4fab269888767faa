/** Far above any configuration: a ConfigMap holds 1 MiB. */
const MAX_BYTES = 4 * 1024 * 1024;

/**
 * Reads a file that may be anything by the time it is read again: it has to be a regular one, or a link to one, as
 * Kubernetes mounts them. Opening a FIFO would wait for its writer, and a device may never end.
 *
 * @throws {TypeError} If it is not a regular file.
 * @throws {RangeError} If it is larger than 4 MiB.
 * @throws {Deno.errors.NotFound} Or another of `Deno.errors`, if it cannot be read.
 */
export async function readBoundedFile(path: string): Promise<Uint8Array<ArrayBuffer>> {
  if (!(await Deno.stat(path)).isFile) throw new TypeError(`expected a regular file, got '${path}'`);
  using file = await Deno.open(path);
  // Not as large as `stat()` says, which is 0 under `/proc`, and outdated for a log. Memory is taken as it is filled.
  const buffer = new Uint8Array(MAX_BYTES + 1);
  let size = 0;
  for (let count: number | null = 0; count !== null && size < buffer.length; size += count ?? 0) {
    count = await file.read(buffer.subarray(size));
  }
  if (size > MAX_BYTES) throw new RangeError(`expected at most ${MAX_BYTES} bytes in '${path}'`);
  return buffer.slice(0, size);
}
