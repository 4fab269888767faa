/** Separates the names in a path. `@std/path` would load Deno's Node.js compatibility layer to determine it. */
export const SEPARATOR = globalThis.Deno?.build.os === "windows" ? "\\" : "/";

/** Returns an absolute path, which still refers to the same file after the current directory changes. */
export function toAbsolute(path: string): string {
  return /^(?:[/\\]|[a-z]:)/i.test(path)
    ? path
    : `${Deno.cwd()}${SEPARATOR}${path}`;
}

/** Returns whether a path is a directory, or inside it. `/srv/site-old` is not inside `/srv/site`. */
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
/** Valid globs, for error messages. */
export const EXPECTED_GLOBS =
  "globs of paths in the directory, such as assets/*";

/** Returns whether a text is a glob of relative paths. One that begins with a slash would never match. */
export function isGlob(text: string): boolean {
  return text !== "" && !/^\.{0,2}\//.test(text) && !text.includes("\0");
}

/**
 * Returns a function that checks whether a relative path matches one of the globs: `*` matches within a name, `**` any
 * directories. It loads the code for that only if there are globs.
 */
export async function globMatcher(
  globs: readonly string[],
): Promise<(path: string) => boolean> {
  if (globs.length === 0) return () => false;
  const { globToRegExp } = await import("@std/path/posix/glob-to-regexp");
  const patterns = globs.map((glob) => globToRegExp(glob));
  return (path) => patterns.some((pattern) => pattern.test(path));
}
