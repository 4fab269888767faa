import { parseFilePath } from "./file_path.ts";

/** Matches the first script that a page refers to by a path, except those of a gateway. */
const SCRIPT = /<script\b[^>]*\bsrc=["']?(\/(?!\/|rep\/)[^"'?#\s>]*\.m?js)\b/;

/**
 * Returns the path under which a build expects to be served, such as `/app`, by the first script of its page. It is empty
 * if the script is where the page expects it, and `undefined` if it is nowhere.
 *
 * @param isFile Returns whether the build contains a file.
 */
export async function likelyBasePath(
  html: string,
  isFile: (path: string) => Promise<boolean>,
): Promise<string | undefined> {
  const [, path = "/"] = SCRIPT.exec(html) ?? [];
  const names = parseFilePath(path)?.names ?? [];
  for (let length = 0; length < names.length; length++) {
    const isThere = await isFile(names.slice(length).join("/"));
    if (isThere) return ["", ...names.slice(0, length)].join("/");
  }
  return undefined;
}
