import type { ServerResponse } from "node:http";
import { PassThrough } from "node:stream";
import type { Gateway } from "../gateway_interface.ts";
import {
  type NodeHandler,
  type NodeRequest,
  send,
  toRequest,
} from "../adapters/node_handler.ts";
import { headersToOmit, isHtml } from "../core/pages/page.ts";
import { runWithoutValues } from "../addons/server_rendering.ts";

/** Options of {@linkcode servePages}. */
interface ServePagesOptions {
  /** Returns `undefined` while there is no configuration. Pages are then sent unchanged. */
  readonly current: () => Pick<Gateway, "inject" | "run"> | undefined;
  /**
   * Whether only browsers get values. They name `text/html` in the header `Accept`; the requests of a build that
   * prerenders pages do not.
   */
  readonly browsersOnly: boolean;
  /** Reports that a page could not be sent completely. */
  readonly onError: (error: unknown) => void;
}

/**
 * Returns a handler that inserts the configuration into each HTML page that a later handler sends. So it also works for
 * pages of frameworks, which do not call `transformIndexHtml`. A streamed page stays streamed.
 */
export function servePages(
  { current, browsersOnly, onError }: ServePagesOptions,
): NodeHandler {
  return (nodeRequest, nodeResponse, next = () => {}) => {
    const gateway = current();
    const request = toRequest(nodeRequest);
    if (gateway === undefined || request === undefined) return next();
    const accept = request.headers.get("accept") ?? "";
    if (browsersOnly && !accept.includes("text/html")) {
      return runWithoutValues(next);
    }
    omitHeaders(nodeRequest, request);
    // It is the response of Node.js. Later handlers call more of its methods than the gateway does.
    const response = nodeResponse as unknown as ServerResponse;
    const inject = (page: Response) => gateway.inject(page, request);
    interceptPage(response, inject, onError);
    gateway.run(() => next());
  };
}

/** Removes conditions that Vite or a framework would compare with its own page, which has no configuration. */
function omitHeaders(nodeRequest: NodeRequest, request: Request): void {
  const headers = nodeRequest.headers as Record<string, unknown>;
  for (const name of headersToOmit(request)) delete headers[name];
}

/** Replaces the methods of a response so that, if its head says that it is a page, it passes through `inject`. */
function interceptPage(
  response: ServerResponse,
  inject: (page: Response) => Promise<Response>,
  onError: (error: unknown) => void,
): void {
  const original = originalMethods(response);
  let page: PassThrough | undefined;
  let isBegun = false;

  /**
   * Begins the response if it is a page. Node.js itself begins any other response, once it knows the length of the body.
   */
  function begin(): void {
    if (isBegun) return;
    isBegun = true;
    const status = response.statusCode;
    // Another handler, such as one for compression, may have replaced `writeHead()`, and sets headers in it.
    const isReplaced = response.writeHead !== writeHead;
    const headers = headersOf(response);
    if (isReplaced || isHtml({ status, headers })) response.writeHead(status);
  }

  async function sendPage(status: number, body: PassThrough, headers: Headers) {
    const closed = new AbortController();
    original.on("close", () => closed.abort());
    try {
      const stream = ReadableStream.from(body);
      const injected = await inject(new Response(stream, { status, headers }));
      for (const name of response.getHeaderNames()) response.removeHeader(name);
      Reflect.deleteProperty(response, "headersSent");
      await send(injected, original, closed.signal);
    } catch (error) {
      response.destroy();
      if (!closed.signal.aborted) onError(error);
    } finally {
      body.destroy(); // its handler may still be writing
    }
  }

  const writeHead = (status: number, ...rest: unknown[]) => {
    if (page !== undefined) return response;
    isBegun = true;
    // The headers are the second or the third argument of `writeHead()`. Wrappers also pass missing arguments.
    const given = rest.findLast((it): it is object | null =>
      typeof it === "object"
    );
    const headers = headersOf(response, given);
    if (!isHtml({ status, headers })) {
      return original.writeHead(status, ...rest as []);
    }
    page = createPageBody(response);
    // While the gateway prepares the page, no handler may send another head.
    Object.defineProperty(response, "headersSent", {
      value: true,
      configurable: true,
    });
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
    if (page === undefined) return original.write(...args as [Uint8Array]);
    if (page.writableEnded) return true; // PassThrough would lose the whole page
    return page.write(...args as [Uint8Array]) || page.destroyed;
  };
  response.end = (...args: unknown[]) => {
    begin();
    if (page === undefined) original.end(...args as []);
    else if (!page.writableEnded) page.end(...args as []);
    return response;
  };
}

/**
 * Returns the stream to which a handler writes a page, and from which the gateway reads it. Once it is destroyed, it drops
 * what is written: the gateway needs no body for HEAD, nor for a page that the browser already has.
 */
function createPageBody(response: ServerResponse): PassThrough {
  const body = new PassThrough();
  const resume = () => response.emit("drain");
  body.on("drain", resume);
  body.on("close", resume);
  body.on("error", () => {}); // the gateway gets it as the reader
  return body;
}

/** Returns the methods that a response has now. */
function originalMethods(response: ServerResponse) {
  const { writeHead, write, end, flushHeaders, on, off } = response;
  return {
    writeHead: writeHead.bind(response),
    write: write.bind(response),
    end: end.bind(response),
    flushHeaders: flushHeaders.bind(response),
    on: on.bind(response),
    off: off.bind(response),
  };
}

/** Returns the headers that were set before, and the arguments of `writeHead()`, which take precedence. */
function headersOf(response: ServerResponse, given?: object | null): Headers {
  const headers = new Headers();
  for (const [name, value] of Object.entries(response.getHeaders())) {
    append(headers, name, value);
  }
  const entries = entriesOf(given ?? {});
  for (const [name] of entries) headers.delete(name);
  for (const [name, value] of entries) append(headers, name, value);
  return headers;
}

function append(headers: Headers, name: string, value: unknown): void {
  const isPseudoHeader = name.startsWith(":");
  if (value === undefined || isPseudoHeader) return;
  for (const item of [value].flat()) headers.append(name, String(item));
}

/** Returns the entries of an object, or of a list in which each name precedes its value. */
function entriesOf(given: object): [name: string, value: unknown][] {
  if (!Array.isArray(given)) return Object.entries(given);
  const list = given.flat();
  const names = list.filter((_, index) => index % 2 === 0);
  return names.map((name, index) => [name, list[2 * index + 1]]);
}
