/** A valid base path, for error messages. */
export const EXPECTED_BASE_PATH = "a path such as /app";

/**
 * Parses the path under which everything is served.
 *
 * @returns The path without a slash at its end, so an empty string for `/` or nothing; `undefined` if it is not the
 * path of a URL as browsers send it.
 */
export function parseBasePath(text: string): string | undefined {
  const path = text.replace(/\/$/, "");
  if (path === "") return "";
  const isNormalized = path.startsWith("/") && !path.includes("//") &&
    !path.endsWith("/") &&
    URL.parse(path, "http://host")?.href === `http://host${path}` &&
    !/[?#]/.test(path);
  return isNormalized ? path : undefined;
}
