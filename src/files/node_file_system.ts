import { readdir, readFile, realpath, stat } from "node:fs/promises";

/** Reads local files with the functions of Node.js: a `FileSystem` of `local_files.ts`. */
export const nodeFileSystem = {
  async stat(path: string) {
    const info = await stat(path);
    const { size, mtime, mode, ino } = info;
    const isFile = info.isFile();
    const isDirectory = info.isDirectory();
    return { isFile, isDirectory, size, mtime, mode, ino };
  },
  async names(directory: string, max?: number) {
    const names = await readdir(directory);
    return names.slice(0, max);
  },
  realPath: (path: string) => realpath(path),
  readFile: (path: string) => readFile(path),
};
