import { statSync, watch } from "node:fs";
import { open, readdir, stat } from "node:fs/promises";
import type { FileSystem } from "./file_system.ts";

/** Local files by the functions of Node.js. */
export const nodeFileSystem: FileSystem = {
  async stat(path) {
    const info = await stat(path);
    return { isFile: info.isFile(), isDirectory: info.isDirectory() };
  },
  isDirectory: (path) =>
    statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false,
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
  watch(directories, onChange, onError) {
    // On some systems the name is unknown: then anything may have changed.
    const watchers = directories.map((directory) =>
      watch(directory, (_event, name) => onChange([name ?? ".."]))
    );
    for (const watcher of watchers) watcher.on("error", onError);
    return () => watchers.forEach((watcher) => watcher.close());
  },
};
