import { isGranted } from "./permissions.ts";

/** What is read of local files, in the same way on Deno and on Node.js. Errors are those of the runtime. */
export interface FileSystem {
  stat(
    path: string,
  ): Promise<{ readonly isFile: boolean; readonly isDirectory: boolean }>;
  /** Returns the names of a directory's entries. */
  names(directory: string): Promise<string[]>;
  /** Reads a file until its end, or until the buffer is full, and returns the number of bytes. */
  readInto(buffer: Uint8Array, path: string): Promise<number>;
  /** Returns whether a path is a directory; not if it does not exist. */
  isDirectory(path: string): boolean;
  /**
   * Calls back with the paths or names of what changes in directories.
   *
   * @returns A function that ends it.
   */
  watch(
    directories: readonly string[],
    onChange: (paths: readonly string[]) => void,
    onError: (error: unknown) => void,
  ): () => void;
}

/** Local files by the functions of Deno, since importing those of Node.js would cost it 20 ms. */
export const denoFileSystem: FileSystem = {
  stat: (path) => Deno.stat(path),
  names: async (directory) =>
    (await Array.fromAsync(Deno.readDir(directory))).map(({ name }) => name),
  async readInto(buffer, path) {
    const file = await Deno.open(path); // without `using`, which Node.js 22 cannot parse
    try {
      let size = 0;
      for (
        let count: number | null = 0;
        count !== null && size < buffer.length;
        size += count ?? 0
      ) {
        count = await file.read(buffer.subarray(size));
      }
      return size;
    } finally {
      file.close();
    }
  },
  isDirectory(path) {
    requireRead(path);
    try {
      return Deno.statSync(path).isDirectory;
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) return false;
      throw error;
    }
  },
  watch(directories, onChange, onError) {
    for (const directory of directories) requireRead(directory);
    const watcher = Deno.watchFs([...directories], { recursive: false });
    readEvents(watcher, onChange).catch(onError);
    return () => watcher.close();
  },
};

async function readEvents(
  watcher: Deno.FsWatcher,
  onChange: (paths: readonly string[]) => void,
): Promise<void> {
  for await (const { kind, paths } of watcher) {
    if (kind !== "access") onChange(paths);
  }
}

/** Without the permission, watching would prompt. */
function requireRead(path: string): void {
  if (!isGranted({ name: "read", path })) {
    throw new Deno.errors.NotCapable(`expected --allow-read=${path}`);
  }
}
