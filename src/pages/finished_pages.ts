import { eTag } from "@std/http/etag";
import type { Compressor, CompressorCoding } from "../coding/compressor.ts";
import { fastestBody } from "../coding/fastest_body.ts";
import { isCompressible } from "../coding/is_compressible.ts";
import { codedEtag, type Representation, Representations } from "../coding/representations.ts";
import type { ConfigScript, GetConfigScript } from "./config_script.ts";
import { insertScript } from "./inject_script.ts";
import { isFragmentRequest } from "./page_caching.ts";
import { fragmentHeaders, isNotModified, notModifiedHeaders, pageHeaders } from "./page_response.ts";

/** An HTML document in memory. A new version of it is a new object. */
interface StoredDocument {
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** The headers of a response with the document as it is. */
  readonly headers: Readonly<Record<string, string>>;
  /** Called with the size of everything that is kept for the document, in bytes, when it has changed. */
  readonly countDerived: (bytes: number) => void;
}

/** What is kept for a document. */
interface Finished {
  fragment?: Representations;
  page?: { readonly script: ConfigScript; readonly representations: Representations };
}

/**
 * Keeps documents with the configuration inserted: one page for each document, as long as its config script is the
 * current one. A page is compressed once, in the background.
 */
export class FinishedPages {
  readonly #compressor: Compressor;
  readonly #finished = new WeakMap<StoredDocument, Finished>();

  constructor(compressor: Compressor) {
    this.#compressor = compressor;
  }

  /**
   * Responds to a GET or HEAD request as `injectPage()` does, but at once if the config script is there, and with a
   * `Content-Length`.
   */
  respond(
    document: StoredDocument,
    request: Request,
    getConfigScript: GetConfigScript,
  ): Response | Promise<Response> {
    if (isFragmentRequest(request.headers)) return send(request, this.#fragment(document));
    const script = getConfigScript();
    if (!(script instanceof Promise)) return send(request, this.#page(document, script));
    return script.then((script) => send(request, this.#page(document, script)));
  }

  #fragment(document: StoredDocument): Representations {
    const finished = this.#finishedOf(document);
    return finished.fragment ??= this.#represent(document, document.bytes, fragmentHeaders);
  }

  #page(document: StoredDocument, script: ConfigScript): Representations {
    const finished = this.#finishedOf(document);
    if (finished.page?.script === script) return finished.page.representations;
    const bytes = insertScript(document.bytes, script.bytes);
    const representations = this.#represent(document, bytes, (headers) => pageHeaders(headers, script));
    finished.page = { script, representations };
    this.#count(document);
    return representations;
  }

  #finishedOf(document: StoredDocument): Finished {
    const finished = this.#finished.get(document) ?? {};
    this.#finished.set(document, finished);
    return finished;
  }

  #count(document: StoredDocument): void {
    const { fragment, page } = this.#finishedOf(document);
    const fragmentBytes = (fragment?.bytes ?? document.bytes.length) - document.bytes.length; // the document's own
    document.countDerived(fragmentBytes + (page?.representations.bytes ?? 0));
  }

  #represent(
    document: StoredDocument,
    bytes: Uint8Array<ArrayBuffer>,
    headersOf: (original: Headers) => Headers,
  ): Representations {
    const compresses = isCompressible("text/html", bytes.length);
    const original = new Headers({ ...document.headers, ...(compresses ? { vary: "Accept-Encoding" } : {}) });
    const headers = Object.fromEntries(headersOf(original));
    const identity = representationOf("identity", bytes, headers);
    const compress = async (coding: CompressorCoding) => {
      const compressed = await this.#compressor.compress(bytes, coding);
      return compressed && await encodedRepresentation(identity, coding, compressed);
    };
    const onGrow = () => this.#count(document);
    const isBusy = () => this.#compressor.isBusy;
    return new Representations({ identity, compress: compresses ? compress : undefined, isBusy, onGrow });
  }
}

function representationOf(
  coding: Representation["coding"],
  bytes: Uint8Array<ArrayBuffer>,
  headers: Record<string, string>,
): Representation {
  const validators = { etag: headers["etag"], lastModified: undefined };
  const sized = { ...headers, "content-length": `${bytes.length}` };
  return { coding, bytes, body: fastestBody(bytes), validators, headers: sized };
}

/** The entity tag of a page is weak and stays; a strong one depends on the bytes. */
async function encodedRepresentation(
  { headers, validators }: Representation,
  coding: CompressorCoding,
  bytes: Uint8Array<ArrayBuffer>,
): Promise<Representation> {
  const own = validators.etag?.startsWith("W/") ? validators.etag : validators.etag && await eTag(bytes);
  const etag = codedEtag(own, coding);
  return representationOf(coding, bytes, { ...headers, "content-encoding": coding, ...(etag ? { etag } : {}) });
}

function send(request: Request, representations: Representations): Response {
  const { body, headers, validators } = representations.select(request.headers);
  if (isNotModified(request, validators.etag ?? null)) {
    return new Response(null, { status: 304, headers: notModifiedHeaders(new Headers(headers)) });
  }
  return new Response(request.method === "HEAD" ? null : body, { headers });
}
