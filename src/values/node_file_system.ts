import { open, readdir, realpath, stat } from "node:fs/promises";

/** Reads local files with the functions of Node.js: a `FileSystem` of `local_files.ts`. */
export const nodeFileSystem = {
  async stat(path: string) {
    const info = await stat(path);
    const { size, mtime, mode, ino } = info;
    const isFile = info.isFile();
    const isDirectory = info.isDirectory();
    return { isFile, isDirectory, size, mtime, mode, ino };
  },
  names: (directory: string) => readdir(directory),
  realPath: (path: string) => realpath(path),
  async readInto(buffer: Uint8Array, path: string) {
    const file = await open(path);
    try {
      let size = 0;
      while (size < buffer.length) {
        const { bytesRead } = await file.read(buffer, size);
        if (bytesRead === 0) break;
        size += bytesRead;
      }
      return size;
    } finally {
      await file.close();
    }
  },
};
