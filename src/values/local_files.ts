/** What is known about a file without reading it. */
export interface FileInfo {
  readonly isFile: boolean;
  readonly isDirectory: boolean;
  readonly size: number;
  /** When the content was changed; `null` if the system does not say. */
  readonly mtime: Date | null;
  /** The permissions; `null` if the system has none. */
  readonly mode: number | null;
  /** The number of the file in its file system; `null` if there is none. */
  readonly ino: number | null;
}

/** The functions that read local files, on Deno and on Node.js. Errors are those of the runtime. */
export interface FileSystem {
  /** Returns what is known about a file, or about what a symbolic link leads to. */
  stat(path: string): Promise<FileInfo>;
  /** Returns the names of a directory's entries. */
  names(directory: string): Promise<string[]>;
  /** Returns the path of what a symbolic link leads to. */
  realPath(path: string): Promise<string>;
  /** Reads a file until its end, or until the buffer is full, and returns the number of bytes. */
  readInto(buffer: Uint8Array, path: string): Promise<number>;
}

/** Local files through the functions of Deno, which takes 20 ms to import those of Node.js. */
export const denoFileSystem: FileSystem = {
  stat: (path) => Deno.stat(path),
  async names(directory) {
    const entries = await Array.fromAsync(Deno.readDir(directory));
    return entries.map(({ name }) => name);
  },
  realPath: (path) => Deno.realPath(path),
  async readInto(buffer, path) {
    const file = await Deno.open(path); // without `using`, which Node.js 22 cannot parse
    try {
      let size = 0;
      while (size < buffer.length) {
        const count = await file.read(buffer.subarray(size));
        if (count === null) break;
        size += count;
      }
      return size;
    } finally {
      file.close();
    }
  },
};

/** Returns the file system of the runtime. */
export async function localFiles(): Promise<FileSystem> {
  if (globalThis.Deno) return denoFileSystem;
  const { nodeFileSystem } = await import("./node_file_system.ts");
  return nodeFileSystem;
}

/** Far above any configuration: a ConfigMap holds 1 MiB. */
const MAX_BYTES = 4 * 1024 * 1024;

/**
 * Reads a file, which may have become anything since the last time: it has to be a regular file, or a link to one, as
 * Kubernetes mounts them. Opening a FIFO would wait for its writer, and a device may never end.
 *
 * @param files The file system. That of the runtime by default.
 * @throws {TypeError} If it is not a regular file.
 * @throws {RangeError} If it is larger than 4 MiB.
 * @throws {Error} Of the runtime, if it cannot be read.
 */
export async function readBoundedFile(
  path: string,
  files?: FileSystem,
): Promise<Uint8Array<ArrayBuffer>> {
  files ??= await localFiles();
  const { isFile } = await files.stat(path);
  if (!isFile) throw new TypeError(`expected a regular file, got '${path}'`);
  // Not as large as `stat()` says, which is 0 under `/proc`, and outdated for a log. Memory is taken as it is filled.
  const buffer = new Uint8Array(MAX_BYTES + 1);
  const size = await files.readInto(buffer, path);
  if (size > MAX_BYTES) {
    throw new RangeError(`expected at most ${MAX_BYTES} bytes in '${path}'`);
  }
  return buffer.slice(0, size);
}
