import {
  describeFile,
  describePath,
} from "../../core/config/files/watch_paths.ts";
import { isMissing } from "../../core/config/files/read_environment.ts";
import { messageOf } from "../../core/observe/log.ts";
import type { FileSystem } from "../../core/values/local_files.ts";
import { isInside, SEPARATOR } from "../../core/values/paths.ts";
import { EXPECTED_SITE, isSiteName } from "./site_names.ts";

/** What a site has of its own: a directory of `--sites`. */
export interface SiteFolder {
  /** The host. */
  readonly name: string;
  /** Path of the env file, or of a directory with one file per variable. */
  readonly envFile: string | undefined;
  readonly manifest: string | undefined;
  /** Path of the directory with the app. */
  readonly dist: string | undefined;
  /** Differs after a change of the env file or the manifest. */
  readonly version: string;
  /** Why the site cannot be used; empty if it can. */
  readonly issues: readonly string[];
}

/** Where sites are, and how they are read. */
interface SiteFoldersOptions {
  /** The directory of `--sites`. */
  readonly directory: string;
  /** The directory to which a link `dist` may lead; `undefined` if there is none. */
  readonly releases: string | undefined;
  readonly files: FileSystem;
  /** Returns the milliseconds since the Unix epoch. */
  readonly now: () => number;
}

/** The most that an env file or a manifest of a site may have, so that reading it does not stop the other sites. */
export const MAX_SITE_BYTES = 256 * 1024;

/**
 * Looks at all sites in a directory, in the order of their names. Files in it and names that begin with a dot are no sites.
 *
 * @throws {Error} The runtime's error, if the directory cannot be read.
 */
export async function readSiteFolders(
  options: SiteFoldersOptions,
): Promise<SiteFolder[]> {
  const { directory, files } = options;
  const root = await files.realPath(directory);
  const names = await files.names(root);
  const sites = names.filter((name) => !name.startsWith(".")).sort();
  const folders = await Promise.all(
    sites.map((name) => readSiteFolder(name, root, options)),
  );
  return folders.filter((folder) => folder !== undefined);
}

/** Returns `undefined` for what is no directory, or has just been removed. */
async function readSiteFolder(
  name: string,
  root: string,
  { releases, files, now }: SiteFoldersOptions,
): Promise<SiteFolder | undefined> {
  const path = root + SEPARATOR + name;
  const issues: string[] = [];
  const none = {
    name,
    envFile: undefined,
    manifest: undefined,
    dist: undefined,
    version: "",
    issues,
  };
  const entries = await files.names(path).catch(() => undefined);
  if (entries === undefined) return undefined;
  if (!isSiteName(name)) {
    issues.push(`Cannot serve the site "${name}": expected ${EXPECTED_SITE}`);
    return none;
  }

  /** Returns the path of what the site has under a name; `undefined` if it has nothing, or something elsewhere. */
  async function find(
    entry: string,
    isAllowed: (real: string) => boolean,
  ): Promise<string | undefined> {
    if (!entries?.includes(entry)) return undefined;
    const entryPath = path + SEPARATOR + entry;
    try {
      const real = await files.realPath(entryPath);
      if (isAllowed(real)) return entryPath;
      issues.push(
        `Cannot use "${entryPath}": expected it in the directory of the site, got a link to "${real}"`,
      );
    } catch (error) {
      if (isMissing(error)) return undefined;
      issues.push(`Cannot use "${entryPath}": ${messageOf(error)}`);
    }
    return undefined;
  }

  /** Returns whether something is the site's own. Kubernetes mounts files as links to directories such as `..2026_11_28`. */
  function isOwn(real: string): boolean {
    if (!isInside(real, root)) return false;
    const [first = ""] = real.slice(root.length + 1).split(SEPARATOR);
    return first === name || first.startsWith("..");
  }

  async function describe(file: string | undefined): Promise<string> {
    if (file === undefined) return "";
    const info = await files.stat(file).catch(() => undefined);
    if (info === undefined || info.isDirectory) {
      return await describePath(file, files, now());
    }
    if (info.size > MAX_SITE_BYTES) {
      issues.push(
        `Cannot read "${file}": expected at most ${MAX_SITE_BYTES} bytes, got ${info.size}`,
      );
    }
    return describeFile(info, now());
  }

  const releaseRoot = releases &&
    await files.realPath(releases).catch(() => "");
  const isRelease = (real: string) =>
    isOwn(real) || Boolean(releaseRoot && isInside(real, releaseRoot));
  const envFile = await find("app.env", isOwn);
  const manifest = await find(".rep.yaml", isOwn);
  const dist = await find("dist", isRelease);
  const versions = [await describe(envFile), await describe(manifest)];
  const version = versions.join("\n");
  return { name, envFile, manifest, dist, version, issues };
}
