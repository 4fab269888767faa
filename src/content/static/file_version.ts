/** What a file system says about a file. `Deno.stat` and `node:fs` agree on these properties. */
export interface FileStats {
  readonly dev: number;
  /** Windows has none. */
  readonly ino: number | null;
  readonly size: number;
  readonly mtime: Date | null;
  /** The last change of the content or the permissions. No program can set it, as it can set `mtime`. */
  readonly ctime: Date | null;
}

/** Returns a text that changes when the file is replaced, written to, or gets other permissions. */
export function versionOf({ dev, ino, size, mtime, ctime }: FileStats): string {
  return [dev, ino, size, mtime?.getTime(), ctime?.getTime()].join(" ");
}
