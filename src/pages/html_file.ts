import type { Compressor } from "../coding/compressor.ts";
import { COMPRESSOR_CODINGS } from "../coding/content_coding.ts";
import { Representations } from "../coding/representations.ts";
import { send, type SendRequest } from "../coding/send.ts";
import type { Log } from "../observe/log.ts";
import type { ConfigScript } from "./config_script.ts";
import { insertIntoBytes, pageHead } from "./page_response.ts";

/** Options of {@linkcode HtmlFile}. */
interface HtmlFileOptions {
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** The headers of a response with the file as it is, without its size. */
  readonly headers: Headers;
  readonly compressor: Compressor | undefined;
  /** Receives `rep.page.not_injected`. */
  readonly log: Log;
}

/** An HTML file in memory, with the page that was made of it for the current config script. */
export class HtmlFile {
  readonly #options: HtmlFileOptions;
  readonly #fragment: Representations;
  #page: { readonly script: ConfigScript; readonly representations: Representations } | undefined;

  constructor(options: HtmlFileOptions) {
    this.#options = options;
    this.#fragment = this.#represent(options.bytes, undefined);
  }

  /** Returns what the file takes in memory at most, in bytes, with a config script of this size. */
  maxBytes(scriptBytes: number): number {
    const { length } = this.#options.bytes;
    return length + 2 * this.#fragment.maxBytes + (1 + COMPRESSOR_CODINGS.length) * scriptBytes;
  }

  /** Responds to a GET or HEAD request with the page, or, without a config script, with the file as a fragment. */
  respond(request: SendRequest, script: ConfigScript | undefined): Response {
    const representations = script === undefined ? this.#fragment : this.#pageWith(script);
    return send(request, representations.select(request.headers));
  }

  #pageWith(script: ConfigScript): Representations {
    if (this.#page?.script !== script) {
      const bytes = insertIntoBytes(this.#options.bytes, script, this.#options.log);
      this.#page = { script, representations: this.#represent(bytes, script) };
    }
    return this.#page.representations;
  }

  #represent(bytes: Uint8Array<ArrayBuffer>, script: ConfigScript | undefined): Representations {
    const { headers, validators: { etag } } = pageHead(this.#options.headers, script);
    const resource = { isPage: true, headers: Object.fromEntries(headers), lastModified: undefined };
    return new Representations(resource, { coding: "identity", bytes, etag }, { compressor: this.#options.compressor });
  }
}
