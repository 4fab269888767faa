import type { Log } from "../../core/observe/log.ts";
import type { ConfigScript } from "../../core/pages/config_script.ts";
import { type DocumentBody, representHtml } from "../../core/pages/page.ts";
import {
  type Compressor,
  COMPRESSOR_CODINGS,
  Representations,
} from "../coding/representations.ts";

/** Options of {@linkcode HtmlFile}. */
interface HtmlFileOptions {
  readonly body: DocumentBody;
  /** The headers of a response with the unchanged file, without its size. */
  readonly headers: Headers;
  readonly compressor: Compressor | undefined;
  /** Whether all responses leave through `Deno.serve`, so that they may share their bytes. */
  readonly sharesBytes: boolean;
  /** Receives `rep.page.not_injected` for each page that cannot contain a script. */
  readonly log: Log;
}

/** An HTML file, and the page that consists of it and the current config script. */
export class HtmlFile {
  readonly #options: HtmlFileOptions;
  readonly #fragment: Representations;
  #page: Representations | undefined;
  #pageScript: ConfigScript | undefined;

  constructor(options: HtmlFileOptions) {
    this.#options = options;
    this.#fragment = this.#represent(undefined);
  }

  /**
   * How many bytes of memory the file takes at most: the file itself, and the fragment and the page with their compressed
   * variants. The script counts once it is known.
   */
  get maxBytes(): number {
    const { body } = this.#options;
    const length = body instanceof Uint8Array ? body.length : 0;
    const scriptBytes = this.#pageScript?.bytes.length ?? 0;
    return length + 2 * this.#fragment.maxBytes +
      (1 + COMPRESSOR_CODINGS.length) * scriptBytes;
  }

  /** Returns the page with a config script; without a script, the file as a fragment. */
  represent(script: ConfigScript | undefined): Representations {
    if (script === undefined) return this.#fragment;
    if (this.#page === undefined || this.#pageScript !== script) {
      this.#page = this.#represent(script);
      this.#pageScript = script;
    }
    return this.#page;
  }

  #represent(script: ConfigScript | undefined): Representations {
    const { headers: original, body: document } = this.#options;
    const { compressor, sharesBytes, log } = this.#options;
    const html = representHtml(original, document, script, log);
    const headers = Object.fromEntries(new Headers(html.headers));
    const { body, etag } = html;
    return new Representations(
      { isHtml: true, headers, compressor, sharesBytes },
      { coding: "identity", body, etag },
    );
  }
}
