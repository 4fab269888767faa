/** Metadata of a file. */
export interface FileInfo {
  readonly isFile: boolean;
  readonly isDirectory: boolean;
  readonly size: number;
  /** When the content changed last; `null` if the system does not say. */
  readonly mtime: Date | null;
  /** The permissions; `null` if the system does not know any. */
  readonly mode: number | null;
  /** The inode number; `null` if there is none. */
  readonly ino: number | null;
}

/** Functions that read local files. They throw the errors of the runtime. */
export interface FileSystem {
  /** Returns the metadata of a file, or of the target of a symbolic link. */
  stat(path: string): Promise<FileInfo>;
  /** Returns the names of a directory's entries, or the first ones if there are more than `max`. */
  names(directory: string, max?: number): Promise<string[]>;
  /** Returns a path without symbolic links. */
  realPath(path: string): Promise<string>;
  /** Reads a whole file. */
  readFile(path: string): Promise<Uint8Array>;
}

/** Reads local files with Deno's own functions, since Deno takes 20 ms to import those of Node.js. */
export const denoFileSystem: FileSystem = {
  stat: (path) => Deno.stat(path),
  async names(directory, max = Infinity) {
    const names: string[] = [];
    for await (const { name } of Deno.readDir(directory)) {
      if (names.push(name) >= max) break;
    }
    return names;
  },
  realPath: (path) => Deno.realPath(path),
  readFile: (path) => Deno.readFile(path),
};

/** Returns the file system of the runtime. */
export async function localFiles(): Promise<FileSystem> {
  if (globalThis.Deno) return denoFileSystem;
  const { nodeFileSystem } = await import("./node_file_system.ts");
  return nodeFileSystem;
}

/** More than any configuration: a ConfigMap has at most 1 MiB. */
const MAX_BYTES = 4 * 1024 * 1024;

/**
 * Reads a regular file, or the target of a link to one, since Kubernetes mounts files as links. It rejects anything else:
 * opening a FIFO would wait for its writer, and a device may never end.
 *
 * @param files The file system; by default, that of the runtime.
 * @throws {TypeError} If it is not a regular file.
 * @throws {RangeError} If it is larger than 4 MiB.
 * @throws {Error} The runtime's error, if it cannot be read.
 */
export async function readBoundedFile(
  path: string,
  files?: FileSystem,
): Promise<Uint8Array> {
  files ??= await localFiles();
  const { isFile, size } = await files.stat(path);
  if (!isFile) throw new TypeError(`expected a regular file, got '${path}'`);
  requireSmall(size, path);
  const bytes = await files.readFile(path);
  requireSmall(bytes.length, path); // `stat()` says 0 under `/proc`, and a log may have grown
  return bytes;
}

function requireSmall(size: number, path: string): void {
  if (size <= MAX_BYTES) return;
  throw new RangeError(`expected at most ${MAX_BYTES} bytes in '${path}'`);
}
