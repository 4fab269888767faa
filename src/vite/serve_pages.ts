import { Buffer } from "node:buffer";
import type { ServerResponse } from "node:http";
import {
  type NodeHandler,
  type NodeRequest,
  type NodeResponse,
  send,
  toRequest,
} from "../http/node_handler.ts";
import { headersToOmit, isHtml } from "../pages/page.ts";
import { runWithoutValues } from "../pages/server_rendering.ts";

/** The part of a gateway that {@linkcode servePages} uses. */
interface PagesGateway {
  /** Inserts the configuration into a response if it is an HTML page. */
  inject(response: Response, request: Request): Promise<Response>;
  /** Calls back; what is rendered then has the values of its page. */
  run<Result>(callback: () => Result): Result;
}

/** Options of {@linkcode servePages}. */
interface ServePagesOptions {
  /** Returns `undefined` while there is no configuration: pages are then sent as they are. */
  readonly current: () => PagesGateway | undefined;
  /** Whether there are values for browsers only, which accept HTML by name, and not for a build's own requests. */
  readonly browsersOnly: boolean;
  /** Reports that a page could not be sent to its end. */
  readonly onError: (error: unknown) => void;
}

/**
 * Returns a handler that inserts the configuration into each HTML page that a later handler sends, whoever renders it:
 * frameworks do not call `transformIndexHtml`. A streamed page stays streamed.
 */
export function servePages(
  { current, browsersOnly, onError }: ServePagesOptions,
): NodeHandler {
  return (nodeRequest, nodeResponse, next = () => {}) => {
    const gateway = current();
    const request = toRequest(nodeRequest);
    if (gateway === undefined || request === undefined) return next();
    if (browsersOnly && !acceptsHtml(request)) return runWithoutValues(next);
    omitHeaders(nodeRequest, request);
    // Node's own: the handlers after this one send with more methods than the gateway's.
    const response = nodeResponse as unknown as ServerResponse;
    const inject = (page: Response) => gateway.inject(page, request);
    interceptPage(response, inject, onError);
    gateway.run(() => next());
  };
}

function acceptsHtml({ headers }: Request): boolean {
  return headers.get("accept")?.includes("text/html") === true;
}

/** What Vite or a framework knows of a page is not what the page is sent with. */
function omitHeaders(nodeRequest: NodeRequest, request: Request): void {
  const headers = nodeRequest.headers as Record<string, unknown>;
  for (const name of headersToOmit(request)) delete headers[name];
}

/** Has a response pass through `inject` if it turns out to be a page, as soon as its head is known. */
function interceptPage(
  response: ServerResponse,
  inject: (page: Response) => Promise<Response>,
  onError: (error: unknown) => void,
): void {
  const original = originalMethods(response);
  let page: PageBody | undefined;
  let isBegun = false;

  /** Begins the response if it is a page. Node begins any other one by itself, and then knows its length. */
  function begin(): void {
    if (isBegun) return;
    isBegun = true;
    const status = response.statusCode;
    // Other handlers, such as for compression, may have replaced it, and set headers then.
    const isReplaced = response.writeHead !== writeHead;
    const headers = headersOf(response, undefined);
    if (isReplaced || isHtml({ status, headers })) response.writeHead(status);
  }

  async function sendPage(status: number, body: PageBody, headers: Headers) {
    const closed = new AbortController();
    original.on("close", () => closed.abort());
    try {
      const injected = await inject(
        new Response(body.stream, { status, headers }),
      );
      for (const name of response.getHeaderNames()) response.removeHeader(name);
      reportAsSent(response, false);
      await send(injected, original, closed.signal);
    } catch (error) {
      response.destroy();
      if (!closed.signal.aborted) onError(error);
    }
  }

  const writeHead = (status: number, ...rest: unknown[]) => {
    if (page !== undefined) return response;
    isBegun = true;
    // Wrappers pass on all arguments: the headers are the second or the third one.
    const given = rest.findLast((argument) => typeof argument === "object");
    const headers = headersOf(response, given);
    if (!isHtml({ status, headers })) {
      return original.writeHead(status, ...rest as []);
    }
    if (typeof rest[0] === "string") response.statusMessage = rest[0];
    page = new PageBody(response);
    reportAsSent(response, true);
    void sendPage(status, page, headers);
    return response;
  };
  response.writeHead = writeHead;
  response.flushHeaders = () => {
    begin();
    if (page === undefined) original.flushHeaders();
  };
  response.write = (...args: unknown[]) => {
    begin();
    return page === undefined
      ? original.write(...args as [Uint8Array])
      : page.write(...args);
  };
  response.end = (...args: unknown[]) => {
    begin();
    if (page === undefined) original.end(...args as []);
    else page.end(...args);
    return response;
  };
}

/** Returns the methods of a response as they are now. */
function originalMethods(response: ServerResponse) {
  const { writeHead, write, end, flushHeaders, on, off } = response;
  return {
    writeHead: writeHead.bind(response),
    write: write.bind(response),
    end: end.bind(response),
    flushHeaders: flushHeaders.bind(response),
    on: on.bind(response),
    off: off.bind(response),
  } satisfies NodeResponse & Record<string, unknown>;
}

/** Has a response say that its head was sent although the page is only being made, so that nobody sends another one. */
function reportAsSent(response: ServerResponse, isSent: boolean): void {
  if (!isSent) {
    Reflect.deleteProperty(response, "headersSent");
    return;
  }
  Object.defineProperty(response, "headersSent", {
    value: true,
    configurable: true,
  });
}

/** Returns the headers that were set, and those that `writeHead()` is given, which take precedence. */
function headersOf(response: ServerResponse, given: unknown): Headers {
  const headers = new Headers();
  for (const [name, value] of Object.entries(response.getHeaders())) {
    append(headers, name, value);
  }
  if (typeof given !== "object" || given === null) return headers;
  const entries = entriesOf(given);
  for (const [name] of entries) headers.delete(name);
  for (const [name, value] of entries) append(headers, name, value);
  return headers;
}

function append(headers: Headers, name: string, value: unknown): void {
  const isPseudoHeader = name.startsWith(":");
  if (value === undefined || isPseudoHeader) return;
  for (const item of [value].flat()) headers.append(name, String(item));
}

/** Returns the headers of an object, or of a list of names and values in turn. */
function entriesOf(given: object): [name: string, value: unknown][] {
  if (!Array.isArray(given)) return Object.entries(given);
  const list = given.flat();
  const names = list.filter((_, index) => index % 2 === 0);
  return names.map((name, index) => [name, list[2 * index + 1]]);
}

/** How much of a page may wait, in bytes: as much as in a stream of Node.js. */
const MAX_WAITING_BYTES = 16_384;

/** The body of a page, between the handler that writes it and the stream that the gateway reads. */
class PageBody {
  readonly stream: ReadableStream<Uint8Array>;
  readonly #response: ServerResponse;
  #controller!: ReadableStreamDefaultController<Uint8Array>;
  #isEnded = false;
  #isFull = false;

  constructor(response: ServerResponse) {
    this.#response = response;
    const source: UnderlyingDefaultSource<Uint8Array> = {
      start: (controller) => {
        this.#controller = controller;
      },
      pull: () => this.#drain(),
      cancel: () => this.#stop(),
    };
    this.stream = new ReadableStream(source, {
      highWaterMark: MAX_WAITING_BYTES,
      size: (chunk) => chunk.length,
    });
  }

  /** Takes the arguments of `ServerResponse.write()`. Returns whether more may be written before `drain`. */
  write(...args: unknown[]): boolean {
    const [chunk, encoding] = args;
    const callback = args.find((argument) => typeof argument === "function");
    if (callback !== undefined) queueMicrotask(callback as () => void);
    if (this.#isEnded) return true; // a response to HEAD has no body, and a page may be known to the browser
    const bytes = toBytes(chunk, encoding);
    if (bytes.length > 0) this.#controller.enqueue(bytes);
    this.#isFull = (this.#controller.desiredSize ?? 0) <= 0;
    return !this.#isFull;
  }

  /** Takes the arguments of `ServerResponse.end()`. */
  end(...args: unknown[]): void {
    const [chunk, encoding] = args;
    const callback = args.find((argument) => typeof argument === "function");
    if (callback !== undefined) {
      this.#response.once("finish", callback as () => void);
    }
    const hasChunk = typeof chunk !== "function" && chunk != null;
    if (hasChunk) this.write(chunk, encoding);
    if (this.#isEnded) return;
    this.#isEnded = true;
    this.#controller.close();
  }

  #stop(): void {
    this.#isEnded = true;
    this.#drain();
  }

  #drain(): void {
    if (!this.#isFull) return;
    this.#isFull = false;
    this.#response.emit("drain");
  }
}

function toBytes(chunk: unknown, encoding: unknown): Uint8Array {
  if (chunk instanceof Uint8Array) return chunk;
  const name = typeof encoding === "string" ? encoding : "utf8";
  return Buffer.from(String(chunk), name as "utf8");
}
