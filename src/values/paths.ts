/** Separates the names in a path. `@std/path` would load Deno's Node layer to determine it. */
export const SEPARATOR = globalThis.Deno?.build.os === "windows" ? "\\" : "/";

/** Returns an absolute path, which stays the same when the program changes its current directory. */
export function toAbsolute(path: string): string {
  return /^(?:[/\\]|[a-z]:)/i.test(path)
    ? path
    : `${Deno.cwd()}${SEPARATOR}${path}`;
}

/** Returns whether a path is a directory's own, or below it: `/srv/site-old` is not below `/srv/site`. */
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
/** What a list of globs consists of, for error messages. */
export const EXPECTED_GLOBS =
  "globs of paths in the directory, such as assets/*";

/** Returns whether a text is a glob of relative paths. With a slash in front, it would never match. */
export function isGlob(text: string): boolean {
  return text !== "" && !/^\.{0,2}\//.test(text) && !text.includes("\0");
}

/**
 * Returns a function that tells whether a relative path matches one of the globs: `*` matches within a name, `**` any
 * directories. The code that converts them is loaded only if there are any.
 */
export async function globMatcher(
  globs: readonly string[],
): Promise<(path: string) => boolean> {
  if (globs.length === 0) return () => false;
  const { globToRegExp } = await import("@std/path/posix/glob-to-regexp");
  const patterns = globs.map((glob) => globToRegExp(glob));
  return (path) => patterns.some((pattern) => pattern.test(path));
}
