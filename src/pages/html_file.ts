import type { Compressor } from "../coding/compressor.ts";
import { COMPRESSOR_CODINGS } from "../coding/content_coding.ts";
import { type CodedBody, Representations } from "../coding/representations.ts";
import type { Log } from "../observe/log.ts";
import type { ConfigScript } from "./config_script.ts";
import { pageHead, withScript } from "./page_response.ts";

/** Options of {@linkcode HtmlFile}. */
interface HtmlFileOptions {
  readonly body: CodedBody["body"];
  /** The headers of a response with the file as it is, without its size. */
  readonly headers: Headers;
  readonly compressor: Compressor | undefined;
  /** Receives `rep.page.not_injected`. */
  readonly log: Log;
}

/** An HTML file, with the page that was made of it for the current config script. */
export class HtmlFile {
  readonly #options: HtmlFileOptions;
  readonly #fragment: Representations;
  #page: {
    readonly script: ConfigScript;
    readonly representations: Representations;
  } | undefined;

  constructor(options: HtmlFileOptions) {
    this.#options = options;
    this.#fragment = this.#represent(undefined);
  }

  /** Returns what the file takes in memory at most, in bytes: itself, the fragment and the page, each compressed. */
  maxBytes(scriptBytes: number): number {
    const { body } = this.#options;
    const length = body instanceof Uint8Array ? body.length : 0;
    return length + 2 * this.#fragment.maxBytes +
      (1 + COMPRESSOR_CODINGS.length) * scriptBytes;
  }

  /** Returns the page with a config script; without one, the file as a fragment. */
  represent(script: ConfigScript | undefined): Representations {
    if (script === undefined) return this.#fragment;
    if (this.#page?.script !== script) {
      this.#page = { script, representations: this.#represent(script) };
    }
    return this.#page.representations;
  }

  #represent(script: ConfigScript | undefined): Representations {
    const { compressor, log } = this.#options;
    const { isPage, headers, validators } = pageHead(
      this.#options.headers,
      script,
    );
    const body = script === undefined
      ? this.#options.body
      : withScript(this.#options.body, script, log);
    return new Representations(
      { isPage, headers: Object.fromEntries(headers), compressor },
      { coding: "identity", body, etag: validators.etag },
    );
  }
}
