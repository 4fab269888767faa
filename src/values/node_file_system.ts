import { open, readdir, stat } from "node:fs/promises";
import type { FileSystem } from "./file_system.ts";

/** Local files by the functions of Node.js. */
export const nodeFileSystem: FileSystem = {
  async stat(path) {
    const info = await stat(path);
    const { size, mtime, mode, ino } = info;
    const isFile = info.isFile();
    const isDirectory = info.isDirectory();
    return { isFile, isDirectory, size, mtime, mode, ino };
  },
  names: (directory) => readdir(directory),
  async readInto(buffer, path) {
    const file = await open(path);
    try {
      let size = 0;
      for (let count = -1; count !== 0 && size < buffer.length; size += count) {
        count = (await file.read(buffer, size)).bytesRead;
      }
      return size;
    } finally {
      await file.close();
    }
  },
};
