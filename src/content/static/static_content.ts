import type { Content } from "../../core/content.ts";
import { addToVary } from "../../core/http/headers.ts";
import { Problem } from "../../core/http/problem.ts";
import {
  notFound,
  READ_METHODS,
  type RouteContext,
} from "../../core/http/routes.ts";
import type { Transfers } from "../../core/http/transfers.ts";
import type { Problems } from "../../core/observe/problems.ts";
import type { GetConfigScript } from "../../core/pages/config_script.ts";
import { isFragmentRequest } from "../../core/pages/page.ts";
import type { BuildsOptions, KeptBuilds } from "../builds/kept_builds.ts";
import type { Representations } from "../coding/representations.ts";
import { BarredFiles } from "./barred_files.ts";
import {
  type FilePath,
  isOnlyForDocuments,
  isRoute,
  parseFilePath,
  ROUTE_HEADERS,
} from "./file_path.ts";
import { isAbsence, isUnreadable, versionOf } from "./found_file.ts";
import { likelyBasePath } from "./likely_base_path.ts";
import { HtmlFile } from "./html_file.ts";
import {
  type ServedFile,
  ServedFiles,
  type ServedFilesOptions,
} from "./served_files.ts";

/** Options of {@linkcode openStaticContent}. */
export interface StaticContentOptions extends ServedFilesOptions {
  /** The path under which it is served, such as `/app`, or empty. */
  readonly basePath: string;
  /** The page for paths without a file, relative to the directory; `undefined` for the first of {@linkcode FALLBACKS}. */
  readonly fallback: string | undefined;
  /** Returns the paths of files and directories that are never served. */
  readonly neverServed: () => Promise<readonly string[]>;
  /** Counts the responses that are not sent as a whole. */
  readonly transfers: Transfers;
  /** Where builds are kept; `undefined` if they are not. */
  readonly builds: BuildsOptions | undefined;
}

/** For how long the build is that of a page, from the look at it. */
const BUILD_AGE_MS = 1_000;
/** How long the start waits until its build is kept. */
const MAX_START_MS = 10_000;

const INDEX = "index.html";
const NOT_FOUND = "404.html";

/**
 * The pages that frameworks write for paths without a file: Nuxt and SvelteKit, React Router, Angular, hosts of static
 * files. The first one that is there is sent.
 */
const FALLBACKS = [
  "200.html",
  "__spa-fallback.html",
  "index.csr.html",
  NOT_FOUND,
  INDEX,
];

/** What is sent at a path. */
interface Found {
  readonly file: ServedFile;
  /** The status of the page for routes; `undefined` if the file is the one at the path. */
  readonly routeStatus?: number;
}

/** How often to look at a file that is replaced before it is read: a deployment may replace it, and then a link to it. */
const MAX_ATTEMPTS = 3;

/**
 * The longest path that Linux can open (PATH_MAX). A longer one can still be a route of the app, such as a link with a
 * token.
 */
const MAX_PATH_LENGTH = 4_096;

/** The shortest time between two log lines about unreadable files. */
const LOG_INTERVAL_MS = 60_000;

/**
 * Opens a directory to serve its files. It warns if the page of the app is missing, and of files in the directory that are
 * never served.
 *
 * @throws {Error} If the directory cannot be read.
 */
export async function openStaticContent(
  options: StaticContentOptions,
): Promise<StaticContent> {
  const content = new StaticContent(options);
  await content.start();
  return content;
}

/**
 * Serves the files of a directory for a single-page app. It answers a path without a file with a page of the app, if
 * {@linkcode isRoute} says so: see {@linkcode FALLBACKS}. It inserts the configuration into pages (`text/html`). All other
 * files support conditional requests, ranges, compressed variants and caching.
 */
export class StaticContent implements Content {
  readonly methods: readonly string[] = READ_METHODS;
  readonly #options: StaticContentOptions;
  readonly #barred: BarredFiles;
  readonly #files: ServedFiles;
  readonly #fallbacks: readonly string[];
  /** Whether the directory has contained an `index.html` since the start. */
  #hasPage = false;
  #build: string | undefined;
  /** The page that the build is that of. */
  #buildPage: ServedFile | undefined;
  #indexVersion: string | undefined;
  #builds: KeptBuilds | undefined;
  #isAppGone = false;
  #loggedAt = -Infinity;

  constructor(options: StaticContentOptions) {
    this.#options = options;
    this.#barred = new BarredFiles(options.neverServed, options.clock);
    this.#files = new ServedFiles(options, this.#barred);
    const { fallback } = options;
    this.#fallbacks = fallback === undefined
      ? FALLBACKS
      : [fallback, ...FALLBACKS];
  }

  /** See {@linkcode openStaticContent}. */
  async start(): Promise<void> {
    const { directory, fallback = INDEX, log } = this.#options;
    try {
      for await (const _ of Deno.readDir(directory)) break; // closes the directory, which next() alone would not
    } catch (cause) {
      const message =
        `Cannot serve the directory "${directory}": expected a readable directory, got ${cause}`;
      throw new Error(message, { cause });
    }
    this.#hasPage = typeof await this.#files.look(INDEX) !== "string";
    for (const name of new Set([INDEX, fallback])) {
      if (typeof await this.#files.look(name) !== "string") continue;
      const page = name === INDEX ? await this.#findFallback() : undefined;
      if (page?.routeStatus === 200) continue; // Angular writes no index.html if no page of it is the home page
      const detail =
        `expected "${name}" in "${directory}": paths of the app need it`;
      log.warn("rep.start.warning", { detail });
    }
    const base = await this.#findBasePath().catch(() => undefined); // requests say what cannot be read
    if (base) {
      const detail =
        `"${INDEX}" expects its files under "${base}": expected --base-path ${base}, unless a proxy removes it`;
      log.warn("rep.start.warning", { detail });
    }
    await this.#warnOfBarred();
    await this.#startKeeping();
  }

  async #startKeeping(): Promise<void> {
    const { builds } = this.#options;
    if (builds === undefined) return;
    const { openBuilds } = await import("../builds/kept_builds.ts");
    const find = (key: string) => this.#files.find(key);
    this.#builds = await openBuilds(builds, this.#options, find);
    await this.#builds.follow(await this.build(), MAX_START_MS);
    this.#builds.start(() => this.build());
  }

  async #warnOfBarred(): Promise<void> {
    const { directory, log } = this.#options;
    const paths = await this.#barred.findIn(await Deno.realPath(directory));
    if (paths.length === 0) return;
    const names = paths.map((path) => `"${path}"`).join(", ");
    log.warn("rep.start.warning", {
      detail:
        `the served directory contains files that are never served: ${names}; expected them elsewhere`,
    });
  }

  /** Returns the base path that the build was probably made for, if the gateway has none. */
  async #findBasePath(): Promise<string | undefined> {
    const { directory, basePath } = this.#options;
    if (!this.#hasPage || basePath !== "") return undefined;
    const html = await Deno.readTextFile(`${directory}/${INDEX}`);
    return await likelyBasePath(
      html,
      async (path) => typeof await this.#files.look(path) !== "string",
    );
  }

  /**
   * Responds to a GET or HEAD request.
   *
   * @throws {Problem} If nothing exists at the path, or the request cannot be satisfied.
   */
  async respond(
    request: Request,
    { url, client }: RouteContext,
    getConfigScript: GetConfigScript,
  ): Promise<Response> {
    const { method, headers } = request; // before the first await: nobody can read a request whose client has left
    const { basePath, transfers } = this.#options;
    const path = parseFilePath(url.path.slice(basePath.length));
    if (path === undefined) return notFound();
    for (let attempt = 1; attempt <= MAX_ATTEMPTS; attempt++) {
      try {
        const found = await this.#findOwn(path) ??
          await this.#findPage(path, headers);
        if (typeof found === "string") return redirectTo(found + url.search);
        const { file: { content }, routeStatus } = found;
        if (content instanceof HtmlFile) {
          const build = await this.#findBuild(); // of the same look as the page
          await this.#builds?.follow(build);
        }
        const representations = content instanceof HtmlFile
          ? await represent(content, headers, getConfigScript)
          : content;
        const response = await transfers.sendCounted(
          { method, headers },
          { ...representations.select(headers), status: routeStatus ?? 200 },
          client,
        );
        if (routeStatus !== undefined) describeRoute(response.headers, path);
        return response;
      } catch (error) {
        if (isUnreadable(error)) throw this.#reportUnreadable(error);
        if (!isAbsence(error)) throw error;
        this.#files.forgetLooks();
      }
    }
    return notFound();
  }

  /**
   * Returns the ID of the build in the directory: a hash of its index, or of its page for routes, which is the same for all
   * of its pages. While the directory is emptied, it is that of the last build. `undefined` if there has been no page.
   */
  async build(): Promise<string | undefined> {
    const now = this.#options.clock.monotonic();
    const lookedAt = this.#buildPage?.lookedAt ?? -Infinity;
    if (now - lookedAt < BUILD_AGE_MS) return this.#build;
    const path = `${this.#options.directory}/${INDEX}`;
    const stats = await Deno.stat(path).catch(() => undefined); // a look takes ten times as long, and reports it
    const version = stats && versionOf({ path, stats });
    const isSame = version === this.#indexVersion;
    if (!isSame) this.#files.forgetLooks(); // the last one may be of the page before
    if (!isSame || version === undefined) await this.#findBuild();
    this.#indexVersion = version;
    return this.#build;
  }

  problems(): Problems {
    return this.#builds?.problems() ?? {};
  }

  close(): void {
    this.#builds?.close();
    this.#options.compressor.close();
    this.#files.close();
  }

  /**
   * Finds what is at a path: the file itself, the index of the directory, or `about.html` for `/about`.
   *
   * @returns The relative location if a slash is missing at the end, or is too much: with another URL, the page would not
   * find its scripts.
   */
  async #findOwn(
    { names, isDirectory, mayBeFile }: FilePath,
  ): Promise<Found | string | undefined> {
    const key = names.join("/");
    const isPossible = mayBeFile && key !== "" && key.length <= MAX_PATH_LENGTH;
    if (!isPossible) return undefined;
    const name = encodeURIComponent(names.at(-1) ?? "");
    const seen = await this.#files.look(key);
    if (seen === "gone") throw this.#reportGone();
    if (seen === "directory") {
      const index = await this.#files.look(`${key}/${INDEX}`);
      if (typeof index !== "string") {
        return isDirectory ? { file: index } : `./${name}/`;
      }
    }
    if (typeof seen !== "string" && !isDirectory) {
      this.#builds?.notice(key);
      return { file: seen };
    }
    const page = await this.#files.look(`${key}.html`);
    if (typeof page === "string") return undefined;
    return isDirectory ? `../${name}` : { file: page };
  }

  /**
   * Finds the page for a route.
   *
   * @throws {Problem} If the path is no route for this request.
   */
  async #findPage(path: FilePath, headers: Headers): Promise<Found> {
    const kept = await this.#findKept(path); // also while the directory is emptied
    if (kept !== undefined) return { file: kept };
    const index = await this.#findIndex();
    if (path.names.length === 0 && index !== undefined) return { file: index };
    if (!isRoute(path, headers)) throw path.problem;
    const isImmutable = isOnlyForDocuments(path) &&
      await this.#files.isImmutable(path.names.join("/"));
    if (isImmutable) throw path.problem;
    return await this.#findFallback(index) ?? notFound();
  }

  /** Finds the page for all routes. */
  async #findFallback(index?: ServedFile): Promise<Found | undefined> {
    for (const key of this.#fallbacks) {
      const file = await this.#files.look(key);
      if (typeof file === "string") continue;
      const isNotFound = key === NOT_FOUND && file.etags !== index?.etags;
      return { file, routeStatus: isNotFound ? 404 : 200 };
    }
    return undefined;
  }

  async #findBuild(): Promise<string | undefined> {
    const page = this.#hasPage
      ? await this.#files.look(INDEX)
      : (await this.#findFallback())?.file;
    if (typeof page === "object" && page !== this.#buildPage) {
      this.#buildPage = page;
      const [tag = ""] = page.etags.split(","); // the others are those of compressed variants
      this.#build = tag.replace(/\W/g, "") || this.#build;
    }
    return this.#build;
  }

  /** Finds a file of another build. */
  async #findKept(
    { names, isDirectory, mayBeFile }: FilePath,
  ): Promise<ServedFile | undefined> {
    const key = names.join("/");
    const isPossible = mayBeFile && !isDirectory && key !== "" &&
      key.length <= MAX_PATH_LENGTH;
    if (this.#builds === undefined || !isPossible) return undefined;
    const isAbsent = await this.#files.look(key) === "absent";
    return isAbsent ? await this.#builds.find(key) : undefined;
  }

  /** Finds the index of the app, and notices whether one that existed has disappeared. */
  async #findIndex(): Promise<ServedFile | undefined> {
    const page = await this.#files.look(INDEX);
    const isMissing = typeof page === "string";
    if (page === "gone" || (isMissing && this.#hasPage)) {
      throw this.#reportGone();
    }
    this.#isAppGone = false;
    if (isMissing) return undefined;
    this.#hasPage = true;
    return page;
  }

  /**
   * Logs that the app is gone, and returns a 503 that asks clients to retry soon: a build that empties the directory is
   * usually done in a moment.
   */
  #reportGone(): Problem {
    const { directory, log } = this.#options;
    if (!this.#isAppGone) {
      log.error("rep.static.unavailable", {
        detail: `expected "${INDEX}" in "${directory}"`,
      });
    }
    this.#isAppGone = true;
    this.#files.forgetLooks();
    return new Problem(503, {
      detail: "The app is temporarily missing",
      headers: { "retry-after": "1" },
    });
  }

  /** Logs that a file cannot be read, at most once a minute, and returns a 500. */
  #reportUnreadable(error: unknown): Problem {
    const { clock, directory, log } = this.#options;
    const now = clock.monotonic();
    if (now - this.#loggedAt >= LOG_INTERVAL_MS) {
      this.#loggedAt = now;
      log.error("rep.static.unreadable", {
        detail: `cannot read a file in "${directory}": ${error}`,
      });
    }
    return new Problem(500, {
      detail: "Cannot read the file; see the log of the gateway",
    });
  }
}

/** Returns the page of an HTML file with the config script, or the file as a fragment. */
async function represent(
  file: HtmlFile,
  headers: Headers,
  getConfigScript: GetConfigScript,
): Promise<Representations> {
  const isFragment = isFragmentRequest(headers);
  return file.represent(isFragment ? undefined : await getConfigScript());
}

/**
 * Says what a page for routes depends on. Where only documents get it, nobody may store it: what others expect there is a
 * file.
 */
function describeRoute(headers: Headers, path: FilePath): void {
  headers.set("vary", addToVary(headers.get("vary"), ROUTE_HEADERS));
  if (isOnlyForDocuments(path)) headers.set("cache-control", "no-store");
}

/** Redirects to a relative location, which cannot lead to another host, and works behind a proxy that strips a prefix. */
function redirectTo(location: string): Response {
  return new Response(null, {
    status: 308,
    headers: { location, "cache-control": "no-cache" },
  });
}
