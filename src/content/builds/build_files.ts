import { globMatcher } from "../../files/paths.ts";
import { CODINGS } from "../coding/representations.ts";
import { HTML, parseFilePath } from "../static/file_path.ts";
import {
  type FoundFile,
  isAbsence,
  isUnreadable,
} from "../static/found_file.ts";

/** Finds what is served at a path, or says what else is there. */
export type FindFile = (
  key: string,
) => Promise<FoundFile | "directory" | "absent" | "hidden" | "gone">;

/** More than any build has. The directory of a site may contain anything. */
const MAX_FILES = 50_000;

/**
 * Returns the rule for what is kept: what matches the globs of immutable files, with its compressed variants. Pages are
 * not, since they have no hash in their names. Source maps are only if a glob names them.
 */
export async function keepRule(
  immutable: readonly string[],
): Promise<(key: string) => boolean> {
  const isImmutable = await globMatcher(immutable);
  const isNamedMap = await globMatcher(
    immutable.filter((glob) => /\bmap\b/.test(glob)),
  );
  return (key) => {
    const suffix = CODINGS.find(({ suffix }) => key.endsWith(suffix))?.suffix;
    const original = suffix ? key.slice(0, -suffix.length) : key;
    if (HTML.test(original)) return false;
    const matches = original.endsWith(".map") ? isNamedMap : isImmutable;
    return matches(original) || matches(key);
  };
}

/**
 * Lists the files of a build. Links in it lead where they lead when files are served: not outside.
 *
 * @throws {RangeError} If there are too many.
 */
export async function listBuild(
  directory: string,
  isKept: (key: string) => boolean,
  find: FindFile,
): Promise<ReadonlyMap<string, FoundFile>> {
  const files = new Map<string, FoundFile>();
  await walk("", false);
  return files;

  /** @param isLinked Whether a link leads here: no second one is followed, which may lead back. */
  async function walk(prefix: string, isLinked: boolean): Promise<void> {
    const reading = Array.fromAsync(Deno.readDir(`${directory}/${prefix}`));
    for (const entry of await ifReadable(reading) ?? []) {
      const key = prefix + entry.name;
      if (!isServed(key)) continue;
      if (entry.isDirectory) await walk(`${key}/`, isLinked);
      else if (entry.isSymlink || isKept(key)) {
        const found = await ifReadable(find(key));
        if (found === "directory" && !isLinked) await walk(`${key}/`, true);
        if (typeof found === "object" && isKept(key)) files.set(key, found);
      }
      if (files.size <= MAX_FILES) continue;
      throw new RangeError(`expected at most ${MAX_FILES} immutable files`);
    }
  }
}

/** Returns the result of an operation; `undefined` for what may not be read, so that it is not served either, or is gone. */
async function ifReadable<T>(work: Promise<T>): Promise<T | undefined> {
  try {
    return await work;
  } catch (error) {
    if (isAbsence(error) || isUnreadable(error)) return undefined;
    throw error;
  }
}

/** Returns whether a name in the directory may be that of a served file. */
function isServed(key: string): boolean {
  const url = key.split("/").map(encodeURIComponent).join("/");
  return parseFilePath(`/${url}`)?.mayBeFile === true;
}
