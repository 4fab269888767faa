import type { IncomingMessage } from "node:http";
import { UpgradableRequest, type UpgradedConnection } from "../http/upgradable_request.ts";

/** Options of {@linkcode NodeRequest}. */
interface NodeRequestOptions {
  scheme: "http" | "https";
  /** Host and port of the server, for a request without a `Host` header. */
  authority: string;
  /** The connection of a request for another protocol. */
  upgrade?: UpgradedConnection;
}

/** `Request` needs a valid URL; the one of the request may be invalid, and has to be as the client sent it. */
const ANY_URL = "http://localhost/";

/**
 * A request of `node:http`. As with `Deno.serve`, its URL is not normalized and may be invalid, its headers are
 * complete, and it has no body if it is a GET or a HEAD.
 */
export class NodeRequest extends UpgradableRequest {
  readonly #message: IncomingMessage;
  readonly #options: NodeRequestOptions;
  #headers: Headers | undefined;
  #abort: AbortController | undefined;
  #isDisconnected = false;
  #isTakenOver = false;

  constructor(message: IncomingMessage, options: NodeRequestOptions) {
    const hasBody = options.upgrade === undefined && message.method !== "GET" && message.method !== "HEAD";
    super(ANY_URL, hasBody ? { method: "POST", body: bodyOf(message) } : undefined);
    this.#message = message;
    this.#options = options;
  }

  override get method(): string {
    return this.#message.method ?? "";
  }

  /** The target in origin form after scheme and host, or the one in absolute form (RFC 9112 §3.2). */
  override get url(): string {
    const { scheme, authority } = this.#options; // two Host headers make the URL invalid (RFC 9112 §3.2)
    const target = this.#message.url ?? "";
    return /^https?:\/\//i.test(target) ? target : `${scheme}://${this.headers.get("host") ?? authority}${target}`;
  }

  override get headers(): Headers {
    return this.#headers ??= headersOf(this.#message.rawHeaders);
  }

  override get signal(): AbortSignal {
    this.#abort ??= new AbortController();
    if (this.#isDisconnected) this.#abort.abort();
    return this.#abort.signal;
  }

  /** Whether {@linkcode takeOver} was called. */
  get isTakenOver(): boolean {
    return this.#isTakenOver;
  }

  override takeOver(): UpgradedConnection {
    const { upgrade } = this.#options;
    if (upgrade === undefined) throw new TypeError("Cannot take over the connection of a request without Upgrade");
    this.#isTakenOver = true;
    return upgrade;
  }

  /** Aborts the signal: the client has gone before its response was complete. */
  disconnected(): void {
    this.#isDisconnected = true;
    this.#abort?.abort();
  }
}

/** `Cookie` is joined as RFC 6265 §5.4 says, all others by commas. */
function headersOf(rawHeaders: readonly string[]): Headers {
  const headers = new Headers();
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const [name = "", value = ""] = rawHeaders.slice(i, i + 2);
    const isFurtherCookie = name.toLowerCase() === "cookie" && headers.has(name);
    if (isFurtherCookie) headers.set(name, `${headers.get(name)}; ${value}`);
    else headers.append(name, value);
  }
  return headers;
}

/** The body, read on demand. It ends in an error if the client leaves. */
function bodyOf(message: IncomingMessage): ReadableStream<Uint8Array<ArrayBuffer>> {
  const chunks = message.iterator({ destroyOnReturn: false });
  return new ReadableStream<Uint8Array<ArrayBuffer>>({
    async pull(controller) {
      const { done, value } = await chunks.next();
      if (done) return controller.close();
      const { buffer, byteOffset, length }: Uint8Array<ArrayBuffer> = value;
      controller.enqueue(new Uint8Array(buffer, byteOffset, length));
    },
    cancel: () => void chunks.return?.(),
  }, { highWaterMark: 0 });
}
