/** Not that of `@std/path`, which loads Deno's Node layer to find out. */
export const SEPARATOR = globalThis.Deno?.build.os === "windows" ? "\\" : "/";

/** Returns an absolute path, which stays the same when the program changes its current directory. */
export function toAbsolute(path: string): string {
  return /^(?:[/\\]|[a-z]:)/i.test(path)
    ? path
    : `${Deno.cwd()}${SEPARATOR}${path}`;
}

/** Returns whether a path is that of a directory, or below it: `/srv/site-old` is not below `/srv/site`. */
export function isInside(path: string, directory: string): boolean {
  const prefix = directory.endsWith(SEPARATOR)
    ? directory
    : directory + SEPARATOR;
  return path === directory || path.startsWith(prefix);
}

/** Returns the last name of a path. */
export function lastName(path: string): string {
  return path.slice(path.lastIndexOf(SEPARATOR) + 1);
}
