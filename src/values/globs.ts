/** What a list of globs consists of, for error messages. */
export const EXPECTED_GLOBS =
  "globs of paths in the directory, such as assets/*";

/** Returns whether a text is a glob of relative paths. With a slash in front, it would never match. */
export function isGlob(text: string): boolean {
  return text !== "" && !/^\.{0,2}\//.test(text) && !text.includes("\0");
}

/**
 * Returns a function that tells whether a relative path matches one of the globs: `*` matches within a name, `**` any
 * directories. What converts them is loaded only if there are any.
 */
export async function globMatcher(
  globs: readonly string[],
): Promise<(path: string) => boolean> {
  if (globs.length === 0) return () => false;
  const { globToRegExp } = await import("@std/path/posix/glob-to-regexp");
  const patterns = globs.map((glob) => globToRegExp(glob));
  return (path) => patterns.some((pattern) => pattern.test(path));
}
