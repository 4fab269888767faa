/** The parts of a request's URL. Origin and path are normalized by the URL standard. */
export interface RequestUrl {
  /** Scheme and host, such as `http://127.0.0.1:8080`. */
  readonly origin: string;
  readonly path: string;
  /**
   * The query with its `?`, empty if there is none: as it was sent, or normalized if it has characters that are not
   * allowed in a request line.
   */
  readonly search: string;
}

/** Scheme, host, path and query, if the host has no delimiter that would belong to another part. */
const PARTS = /^([a-z][a-z+]*:\/\/[\w.:[\]%-]+)(\/[^?#]*)(\?[!"$-~]*)?(?:#|$)/;

/** A query without characters that are not allowed in a request line. */
const QUERY = /^[^?#]*(\?[!"$-~]*)?(?:#|$)/;

/**
 * Paths that normalizing leaves as they are: no character that has to be encoded, and no segment that begins with a
 * dot, encoded or not.
 */
const PLAIN_PATH = /^(?:\/(?!\.|%2e)[\w.~%@:+,=-]*)+$/i;

/**
 * Reads the URLs of requests. Parsing a URL takes longer than everything else that a short request needs. Most URLs
 * differ from the one before in the path only, and many not at all.
 */
export class RequestUrls {
  /** The last URL that was valid, and its parts. */
  #lastUrl = "";
  #last: RequestUrl | undefined;
  /** The beginning of the last URL with a plain path, and its origin. */
  #base = "";
  #origin = "";

  /** Returns `undefined` if the URL is invalid: its host is what the client sent. */
  read(url: string): RequestUrl | undefined {
    if (url === this.#lastUrl) return this.#last;
    const read = this.#readPlain(url) ?? parse(url);
    if (read === undefined) return undefined;
    this.#lastUrl = url;
    return this.#last = read;
  }

  /** Returns `undefined` if the URL has to be parsed. */
  #readPlain(url: string): RequestUrl | undefined {
    const [, base, path, search = ""] = PARTS.exec(url) ?? [];
    if (base === undefined || path === undefined || !PLAIN_PATH.test(path)) {
      return undefined;
    }
    if (base !== this.#base) {
      const parsed = parse(base);
      if (parsed === undefined) return undefined;
      this.#base = base;
      this.#origin = parsed.origin;
    }
    return { origin: this.#origin, path, search };
  }
}

function parse(text: string): RequestUrl | undefined {
  const url = URL.parse(text);
  if (url === null) return undefined;
  const { protocol, host, pathname: path } = url;
  const [, search = ""] = QUERY.exec(text) ?? ["", url.search];
  // `url.origin` is "null" for the scheme of a Unix socket.
  return { origin: `${protocol}//${host}`, path, search };
}
