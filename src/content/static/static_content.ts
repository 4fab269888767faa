import type { Compressor } from "../../coding/compressor.ts";
import type { Representations } from "../../coding/representations.ts";
import { send } from "../../coding/send.ts";
import { Problem } from "../../http/problem.ts";
import { notFound, type RouteContext } from "../../http/routes.ts";
import type { GetConfigScript } from "../../pages/config_script.ts";
import { HtmlFile } from "../../pages/html_file.ts";
import { isFragmentRequest } from "../../pages/page_caching.ts";
import { andThen } from "../../values/and_then.ts";
import type { RequestCounts } from "../content.ts";
import type { ContentOptions } from "../content_options.ts";
import { transferBody, Transfers } from "../transfers.ts";
import {
  DirectoryIndex,
  type Found,
  type FoundFile,
  ifAbsent,
} from "./directory_index.ts";
import { type FilePath, mayBeRoute, parseFilePath } from "./file_path.ts";
import { lookAt } from "./look.ts";
import { NeverServed } from "./never_served.ts";
import { loadFile } from "./static_file.ts";

/** Options of {@linkcode StaticContent}. */
interface StaticContentOptions extends
  Pick<
    ContentOptions,
    "neverServed" | "basePath" | "maxTransfers" | "clock" | "log"
  > {
  /** The directory to serve. */
  readonly directory: string;
  /** How many bytes of files and pages are kept in memory. */
  readonly cacheBytes: number;
  /** Compresses files and pages in memory. It is closed with the content. */
  readonly compressor: Compressor;
}

/** What a path leads to: what is at it, or in its directory, or the app's page. */
type Target = Exclude<Found, { kind: "directory" }> | {
  readonly kind: "redirect";
};

const INDEX = "index.html";

const ABSENT: Target = { kind: "absent" };
const REDIRECT: Target = { kind: "redirect" };

/**
 * Serves the files of a directory for a single-page app: a path without a file and without an extension is answered
 * with the root's `index.html`. The configuration is inserted into pages (`text/html`). All other files support
 * conditional requests, ranges, compressed variants and caching.
 */
export class StaticContent {
  readonly #options: StaticContentOptions;
  readonly #neverServed: NeverServed;
  readonly #index: DirectoryIndex;
  readonly #transfers: Transfers;
  /** The size of the last config script: each page in memory contains one. */
  #scriptBytes = 0;
  /** Whether there has been an `index.html` since the start. */
  #hasPage = false;
  #isGone = false;

  private constructor(options: StaticContentOptions) {
    this.#options = options;
    this.#neverServed = new NeverServed(options);
    this.#transfers = new Transfers(options);
    this.#index = new DirectoryIndex({
      ...options,
      directory: toAbsolute(options.directory),
      isExcluded: (file, isKnown) => this.#neverServed.includes(file, isKnown),
      load: (name, places, known) => loadFile(name, places, known, options),
      bytesOf: ({ content }) =>
        content instanceof HtmlFile
          ? content.maxBytes(this.#scriptBytes)
          : content.maxBytes,
    });
  }

  /**
   * Opens a directory.
   *
   * @throws {Error} If the directory cannot be read.
   */
  static async open(options: StaticContentOptions): Promise<StaticContent> {
    await assertReadable(options.directory);
    const content = new StaticContent(options);
    await content.#findPage();
    await content.#warnOfExcluded();
    return content;
  }

  /**
   * Responds to a GET or HEAD request: at once, if everything is in memory and was looked at within the last second.
   *
   * @throws {Problem} If there is nothing at the path, or the request cannot be satisfied.
   */
  respond(
    request: Request,
    context: RouteContext,
    getConfigScript: GetConfigScript,
  ): Response | Promise<Response> {
    const respond = () => this.#respond(request, context, getConfigScript);
    const response = respond();
    // A file that is gone is found again, since another one may have taken its place.
    return response instanceof Promise
      ? response.catch(ifAbsent(respond)).catch(ifAbsent(notFound))
      : response;
  }

  countRequests(): RequestCounts {
    return { uploads: 0, all: this.#transfers.count };
  }

  close(): void {
    this.#transfers.close();
    this.#options.compressor.close();
  }

  async #warnOfExcluded(): Promise<void> {
    const { directory, log } = this.#options;
    const paths = await this.#neverServed.findIn(await lookAt(directory));
    if (paths.length === 0) return;
    const names = paths.map((path) => `"${path}"`).join(", ");
    log.warn("rep.start.warning", {
      detail:
        `never served, although in the served directory: ${names}; expected them elsewhere`,
    });
  }

  #respond(
    request: Request,
    context: RouteContext,
    getConfigScript: GetConfigScript,
  ): Response | Promise<Response> {
    const { url } = context;
    const path = parseFilePath(url.path.slice(this.#options.basePath.length));
    if (path === undefined) return notFound();
    return andThen(this.#find(path, request.headers), (target) => {
      if (target.kind === "file") {
        const response = this.#send(target, request, getConfigScript);
        return response instanceof Promise
          ? response.then((response) => this.#count(response, context))
          : response;
      }
      if (target.kind === "redirect") {
        return redirectToDirectory(path, url.search);
      }
      return target.kind === "unreadable" ? unreadable() : notFound();
    });
  }

  #send(
    found: FoundFile,
    request: Request,
    getConfigScript: GetConfigScript,
  ): Response | Promise<Response> {
    const { content } = found.file;
    if (!(content instanceof HtmlFile)) {
      return this.#sendOf(content, found, request);
    }
    if (isFragmentRequest(request.headers)) {
      return this.#sendOf(content.represent(undefined), found, request);
    }
    return andThen(getConfigScript(), (script) => {
      this.#scriptBytes = script.bytes.length;
      return this.#sendOf(content.represent(script), found, request);
    });
  }

  #sendOf(
    representations: Representations,
    found: FoundFile,
    request: Request,
  ): Response | Promise<Response> {
    const response = send(request, representations.select(request.headers));
    if (!(response instanceof Promise)) return response;
    return response.catch((error) => {
      this.#index.forget(found); // it may have been replaced
      throw error;
    });
  }

  /** Counts a response that is read from the disk while it is sent. Those from memory are not promises. */
  #count(response: Response, { client }: RouteContext): Response {
    if (response.body === null) return response;
    try {
      return new Response(
        transferBody(response.body, this.#transfers.begin(client)),
        response,
      );
    } catch (error) {
      void response.body.cancel(); // closes the file
      throw error;
    }
  }

  #find(path: FilePath, headers: Headers): Target | Promise<Target> {
    const { names, isDirectory } = path;
    if (names.length === 0) return this.#findPage();
    return andThen(this.#index.find(names), (found) => {
      if (found.kind === "directory" && found.names.has(INDEX)) {
        return this.#findIndexOf(path, headers);
      }
      if (found.kind === "rejected" || found.kind === "unreadable") {
        return found;
      }
      return found.kind === "file" && !isDirectory
        ? found
        : this.#findFallback(path, headers);
    });
  }

  #findIndexOf(path: FilePath, headers: Headers): Target | Promise<Target> {
    return andThen(this.#index.find([...path.names, INDEX]), (found) => {
      if (found.kind !== "file") return this.#findFallback(path, headers);
      return path.isDirectory ? found : REDIRECT;
    });
  }

  /** Returns the app's page for a path at which there is nothing. */
  #findFallback(path: FilePath, headers: Headers): Target | Promise<Target> {
    return andThen(
      this.#findPage(),
      (page) => mayBeRoute(path, headers) ? page : ABSENT,
    );
  }

  /** @throws {Problem} 503 if there was a page, as while a build empties the directory. */
  #findPage(): Target | Promise<Target> {
    return andThen(this.#index.find([INDEX]), (found) => {
      const isThere = found.kind === "file" || found.kind === "unreadable";
      if (!isThere && (this.#hasPage || found.kind === "gone")) {
        return this.#rejectUntilItIsBack();
      }
      this.#hasPage ||= found.kind === "file";
      this.#isGone = false;
      return found.kind === "directory" ? ABSENT : found;
    });
  }

  #rejectUntilItIsBack(): never {
    const { directory, log } = this.#options;
    if (!this.#isGone) {
      log.error("rep.static.unavailable", {
        detail: `expected "${INDEX}" in "${directory}"`,
      });
    }
    this.#isGone = true;
    throw new Problem(503, {
      detail: "The app is not there at the moment",
      headers: { "retry-after": "1" },
    });
  }
}

/** The program may change its current directory. */
function toAbsolute(path: string): string {
  return /^(?:[/\\]|[a-z]:)/i.test(path) ? path : `${Deno.cwd()}/${path}`;
}

async function assertReadable(directory: string): Promise<void> {
  try {
    for await (const _ of Deno.readDir(directory)) break; // closes the directory, which next() alone would not
  } catch (cause) {
    const message =
      `Cannot serve staticDir "${directory}": expected a readable directory, got ${cause}`;
    throw new Error(message, { cause });
  }
}

function unreadable(): never {
  throw new Problem(500, {
    detail: "Cannot read the file; see the log of the gateway",
  });
}

/** The location is relative: it cannot lead to another host, and works behind a proxy that strips a prefix. */
function redirectToDirectory({ names }: FilePath, search: string): Response {
  const location = `./${encodeURIComponent(names.at(-1) ?? "")}/${search}`;
  return new Response(null, {
    status: 308,
    headers: { location, "cache-control": "no-cache" },
  });
}
