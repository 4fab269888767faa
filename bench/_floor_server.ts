/**
 * The floors of the rows, each the smallest `Deno.serve` program for its work. The arguments are a port, a kind, and
 * what the kind needs:
 *
 * - `bytes FILE`: sends the finished response in the file.
 * - `node URL`: passes the response of an upstream through with `node:http`.
 * - `streams`: opens an event stream for each request, and sends an event to all of them at SIGHUP.
 */
import http, { type IncomingMessage } from "node:http";
import { decodeBase64, encodeBase64 } from "@std/encoding/base64";
import { BareStreams } from "./_bare_streams.ts";

/** A response that is finished: only its bytes have to be sent. */
export interface FinishedResponse {
  readonly status: number;
  readonly headers: [string, string][];
  /** In base64. */
  readonly body: string;
}

/** Headers of the connection, and the date, which the server adds itself. */
const OWN_HEADERS = ["connection", "date", "keep-alive", "transfer-encoding"];

/** Reads a response to its end. */
export async function finishedResponse(
  response: Response,
): Promise<FinishedResponse> {
  return {
    status: response.status,
    headers: endToEnd(response.headers),
    body: encodeBase64(await response.bytes()),
  };
}

type Handler = (request: Request) => Response | Promise<Response>;

async function bytes(path: string): Promise<Handler> {
  const { status, headers, body }: FinishedResponse = JSON.parse(
    await Deno.readTextFile(path),
  );
  const decoded = decodeBase64(body);
  const init = { status, headers };
  return () => new Response(decoded, init);
}

function passThroughNode(upstream: string): Handler {
  const { hostname, port } = new URL(upstream);
  const agent = new http.Agent({ keepAlive: true });
  return ({ url }) => {
    const { promise, resolve, reject } = Promise.withResolvers<Response>();
    const path = url.slice(url.indexOf("/", "http://".length));
    const request = http.request({ agent, hostname, port, path });
    request.on("response", (message) => resolve(toResponse(message)));
    request.on("error", reject);
    request.end();
    return promise;
  };
}

/** Returns a response with the body and the headers of a message, as they were received. */
export function toResponse(message: IncomingMessage): Response {
  const body = new ReadableStream<Uint8Array<ArrayBuffer>>({
    start(controller) {
      message.on("data", (chunk) => controller.enqueue(chunk));
      message.on("end", () => controller.close());
      message.on("error", (error) => controller.error(error));
    },
    cancel() {
      for (const event of ["data", "end"]) message.removeAllListeners(event); // a cancelled stream rejects both
      message.destroy();
    },
  });
  const headers = new Headers();
  for (const [name, values = []] of Object.entries(message.headersDistinct)) {
    for (const value of values) headers.append(name, value);
  }
  return new Response(body, {
    status: message.statusCode ?? 0,
    headers: endToEnd(headers),
  });
}

function endToEnd(headers: Headers): [string, string][] {
  return [...headers].filter(([name]) => !OWN_HEADERS.includes(name));
}

function streams(): Handler {
  const streams = new BareStreams();
  Deno.addSignalListener("SIGHUP", () => streams.publish());
  return ({ url }) =>
    url.endsWith(READY_PATH) ? new Response() : streams.open();
}

/** The path that opens no stream. */
const READY_PATH = "/ready";

if (import.meta.main) {
  const [port, kind, argument = ""] = Deno.args;
  const handlers = {
    bytes,
    node: passThroughNode,
    streams,
  };
  const handler = await handlers[kind as keyof typeof handlers](argument);
  Deno.serve(
    { hostname: "127.0.0.1", port: Number(port), onListen() {} },
    handler,
  );
}
