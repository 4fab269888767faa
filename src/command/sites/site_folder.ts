import { describePath } from "../../files/watch_paths.ts";
import { isMissing } from "../../files/read_environment.ts";
import { ConfigurationError } from "../../core/config/variables/snapshot.ts";
import { isRepName } from "../../core/config/variables/tiers.ts";
import { messageOf } from "../../core/observe/log.ts";
import type { FileSystem } from "../../files/local_files.ts";
import { isInside, SEPARATOR } from "../../files/paths.ts";
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
  /** Whether something in it leads to what belongs to another site, or lies outside. */
  readonly leadsElsewhere: boolean;
}

/** Where sites are, and how they are read. */
export interface SiteFoldersOptions {
  /** The directory of `--sites`. */
  readonly directory: string;
  /** The directory to which a link `dist` may lead; `undefined` if there is none. */
  readonly releases: string | undefined;
  readonly files: FileSystem;
  /** Returns the milliseconds since the Unix epoch. */
  readonly now: () => number;
}

/** The most bytes of a site's variables, and of its manifest, so that reading them does not stop the other sites. */
export const MAX_SITE_BYTES = 256 * 1024;

/** The most variables of a site's own, for the same reason. */
export const MAX_SITE_VARIABLES = 1_000;

/** The most files beside variables that a directory of variables may contain: Kubernetes adds two. */
const MAX_OTHER_FILES = 10;

/** Returns what is said about a site with more than {@linkcode MAX_SITE_VARIABLES}. */
export function tooManyVariables(
  envFile: string | undefined,
  count: number,
): string {
  return `Cannot use the env file "${envFile}": expected at most ${MAX_SITE_VARIABLES} variables, got ${count}`;
}

/**
 * Looks at all sites in a directory, in the order of their names. Files in it and names that begin with a dot are no sites.
 *
 * @throws {ConfigurationError} If the directory cannot be read.
 */
export async function readSiteFolders(
  options: SiteFoldersOptions,
): Promise<SiteFolder[]> {
  const { directory, files } = options;
  try {
    const root = await files.realPath(directory);
    const names = await files.names(root);
    const sites = names.filter((name) => !name.startsWith(".")).sort();
    const folders = await Promise.all(
      sites.map((name) => readIn(root, name, options)),
    );
    return folders.filter((folder) => folder !== undefined);
  } catch (cause) {
    const issue = `Cannot read --sites "${directory}": ${messageOf(cause)}`;
    throw new ConfigurationError([issue], { cause });
  }
}

/** Looks at one site. Returns `undefined` for what is no directory, or has just been removed. */
export async function readSiteFolder(
  name: string,
  options: SiteFoldersOptions,
): Promise<SiteFolder | undefined> {
  const root = await options.files.realPath(options.directory);
  return await readIn(root, name, options);
}

/**
 * Returns whether a site may serve the directory with a real path: one of its own, or a release. Where the releases contain
 * the sites, as with `--releases /srv --sites /srv/sites`, what belongs to sites is no release, and neither is what contains
 * them.
 */
export async function mayServe(
  real: string,
  site: string,
  { directory, releases, files }: SiteFoldersOptions,
): Promise<boolean> {
  const root = await files.realPath(directory);
  if (isOwn(real, site, root)) return true;
  if (releases === undefined) return false;
  const releaseRoot = await files.realPath(releases).catch(() => undefined);
  if (releaseRoot === undefined || !isInside(real, releaseRoot)) return false;
  const touchesSites = isInside(real, root) || isInside(root, real);
  return !(touchesSites && isInside(root, releaseRoot));
}

/**
 * Returns whether something in the directory of all sites is a site's own. Kubernetes mounts files as links to directories
 * such as `..2026_11_28`, which then contain the directory of the site.
 */
function isOwn(real: string, site: string, root: string): boolean {
  if (!isInside(real, root)) return false;
  const [first = "", second] = real.slice(root.length + 1).split(SEPARATOR);
  return first === site || (first.startsWith("..") && second === site);
}

async function readIn(
  root: string,
  name: string,
  options: SiteFoldersOptions,
): Promise<SiteFolder | undefined> {
  const { files, now } = options;
  const path = root + SEPARATOR + name;
  const issues: string[] = [];
  let leadsElsewhere = false;
  try {
    await files.names(path, 1);
  } catch (error) {
    if (isNoDirectory(error)) return undefined;
    issues.push(`Cannot read "${path}": ${messageOf(error)}`); // that says nothing about whether it is gone
  }
  if (!isSiteName(name)) {
    issues.push(`Cannot serve the site "${name}": expected ${EXPECTED_SITE}`);
  }

  const isInSite = (real: string) => isOwn(real, name, root);

  /** Returns the path of something in a directory; `undefined` if there is nothing that may be used. */
  async function find(
    directory: string,
    entry: string,
    isAllowed: (real: string) => boolean | Promise<boolean>,
  ): Promise<string | undefined> {
    const file = directory + SEPARATOR + entry;
    try {
      const real = await files.realPath(file);
      if (await isAllowed(real)) return file;
      leadsElsewhere = true;
      issues.push(
        `Cannot use "${file}": expected it in the directory of the site, got a link to "${real}"`,
      );
    } catch (error) {
      if (!isMissing(error)) {
        issues.push(`Cannot use "${file}": ${messageOf(error)}`);
      }
    }
    return undefined;
  }

  /** Returns how many bytes the variables in a directory take: what is wrong with it concerns no other site. */
  async function sizeOfAll(directory: string): Promise<number> {
    let size = 0;
    try {
      const max = MAX_SITE_VARIABLES + MAX_OTHER_FILES;
      const names = await files.names(directory, max + 1);
      if (names.length > max) {
        issues.push(
          `Cannot read "${directory}": expected at most ${MAX_SITE_VARIABLES} variables, got more than ${max} files`,
        );
        return 0;
      }
      for (const name of names.filter(isRepName)) {
        const variable = await find(directory, name, isInSite);
        if (variable !== undefined) size += (await files.stat(variable)).size;
      }
    } catch (error) {
      if (!isMissing(error)) { // a mount may just be replaced
        issues.push(`Cannot read "${directory}": ${messageOf(error)}`);
      }
    }
    return size;
  }

  /** Returns a text that differs after a change of an env file, of a directory of variables, or of a manifest. */
  async function describe(file: string | undefined): Promise<string> {
    if (file === undefined) return "";
    const info = await files.stat(file).catch(() => undefined); // reading it reports the error
    if (info === undefined) return "";
    const before = issues.length;
    const size = info.isDirectory ? await sizeOfAll(file) : info.size;
    if (size > MAX_SITE_BYTES) {
      issues.push(
        `Cannot read "${file}": expected at most ${MAX_SITE_BYTES} bytes, got ${size}`,
      );
    }
    if (issues.length > before) return ""; // the site is not read
    return await describePath(file, files, now());
  }

  const envFile = await find(path, "app.env", isInSite);
  const manifest = await find(path, ".rep.yaml", isInSite);
  const dist = await find(
    path,
    "dist",
    (real) => mayServe(real, name, options),
  );
  const versions = [await describe(envFile), await describe(manifest)];
  const version = versions.join("\n");
  return { name, envFile, manifest, dist, version, issues, leadsElsewhere };
}

/** Returns whether an error of Deno or Node.js says that there is no directory at a path. */
function isNoDirectory(error: unknown): boolean {
  const { name, code } = error as { name?: string; code?: string };
  return isMissing(error) || name === "NotADirectory" || code === "ENOTDIR";
}
