import { messageOf } from "../../observe/log.ts";
import { parseList } from "../../http/headers.ts";
import type { IncomingMessage } from "node:http";
import type { ResponseContent } from "../../pages/page.ts";
import { concat } from "../../values/chunks.ts";
import type { Transfer } from "../transfers.ts";
import { withoutHopByHop } from "./forwarded_request.ts";
import { BrokenBodyError } from "./upstream_failure.ts";

/** Statuses without a body (Fetch standard, null body status). `Response` rejects a body for them. */
const NULL_BODY_STATUSES = [204, 304];

const [NO_CONTENT, RESET_CONTENT] = [204, 205];

/** How many bytes of the body are read before the client asks for them. */
const READ_AHEAD_BYTES = 65_536;

/** Options of {@linkcode upstreamResponse}. */
interface UpstreamResponseOptions {
  /** The method of the request: a response to HEAD has no body, whatever its headers say. */
  readonly method: string;
  /** Hears whether the client reads. */
  readonly transfer: Transfer;
  /**
   * Called when the body has been received or cancelled, and when it cannot be decoded.
   *
   * @param error Why the body ended early, if it did and was not cancelled.
   */
  readonly onEnd: (error?: Error) => void;
}

/**
 * Converts the upstream's message to a response with the same status, end-to-end headers and bytes. A 205 becomes a 204,
 * to which browsers react alike: `Deno.serve` sends a 205 without its length, and HTTP/1 clients wait for an end.
 *
 * A small body that has arrived with the headers is known as a whole; any other is read with backpressure. Cancelling it
 * closes the connection, and it ends in a {@linkcode BrokenBodyError} if the connection breaks.
 *
 * @throws {RangeError} If the status is not between 200 and 599.
 * @throws {TypeError} If a header is invalid.
 */
export function upstreamResponse(
  message: IncomingMessage,
  { method, transfer, onEnd }: UpstreamResponseOptions,
): ResponseContent {
  const { statusCode = 0 } = message;
  const status = statusCode === RESET_CONTENT ? NO_CONTENT : statusCode;
  if (status < 200 || status > 599) {
    throw new RangeError(
      `Cannot respond: expected a status of 200 to 599, got ${status}`,
    );
  }
  const headers = endToEndHeaders(message);
  if (status === NO_CONTENT) headers.delete("content-length"); // RFC 9110 §8.6
  const hasBody = method !== "HEAD" && !NULL_BODY_STATUSES.includes(status);
  const hasArrived = message.complete &&
    message.readableLength <= READ_AHEAD_BYTES;
  if (hasBody && !hasArrived) {
    const body = bodyOf(message, transfer, onEnd);
    return { status, headers, body, toDecodingError };
  }
  const body = hasBody ? readBuffered(message) : null;
  message.on("error", () => {}); // the response is complete without the rest of the message
  message.resume(); // reads the message to its end, so that the connection can be reused
  onEnd();
  return { status, headers, body, toDecodingError };

  function toDecodingError(error: unknown): Error {
    const detail = `Cannot decode the body: ${messageOf(error)}`;
    const broken = new BrokenBodyError(detail);
    onEnd(broken);
    return broken;
  }
}

/**
 * Returns the headers of a message without the hop-by-hop ones. Reads `rawHeaders`, since `message.headers` drops
 * duplicates of some headers.
 *
 * `node:http` decodes the transfer coding `chunked` only. Others, such as gzip, become the content coding that was
 * applied last: the codings are the same, and clients decode them.
 *
 * @throws {TypeError} If a header is invalid.
 */
export function endToEndHeaders(
  { rawHeaders }: Pick<IncomingMessage, "rawHeaders">,
): Headers {
  const received = new Headers();
  for (let i = 0; i < rawHeaders.length; i += 2) {
    received.append(rawHeaders[i]!, rawHeaders[i + 1]!);
  }
  const headers = withoutHopByHop(received);
  for (const coding of parseList(received.get("transfer-encoding"))) {
    if (coding.toLowerCase() === "chunked") continue;
    headers.append("content-encoding", coding);
  }
  return headers;
}

/** Reads what has arrived. A Buffer would be seen as such by whoever reads the body of a response with it. */
function readBuffered(message: IncomingMessage): Uint8Array<ArrayBuffer> {
  const chunks: Uint8Array<ArrayBuffer>[] = [];
  for (let chunk = message.read(); chunk !== null; chunk = message.read()) {
    chunks.push(chunk);
  }
  const { buffer, byteOffset, length } = concat(chunks);
  return new Uint8Array(buffer, byteOffset, length);
}

/** Streams what arrives. The message emits events; exactly one of them ends the stream. */
function bodyOf(
  message: IncomingMessage,
  transfer: Transfer,
  onEnd: (error?: Error) => void,
): ReadableStream<Uint8Array<ArrayBuffer>> {
  let controller: ReadableStreamDefaultController<Uint8Array<ArrayBuffer>>;
  let hasEnded = false;
  /** Returns `false` if the body has ended already. */
  function end(error?: Error): boolean {
    if (hasEnded) return false;
    hasEnded = true;
    onEnd(error);
    return true;
  }
  function fail(error: Error): void {
    if (end(error)) controller.error(new BrokenBodyError(error.message));
  }
  function forward(chunk: Uint8Array<ArrayBuffer>): void {
    if (hasEnded) return;
    const { buffer, byteOffset, length } = chunk;
    controller.enqueue(new Uint8Array(buffer, byteOffset, length));
    if (controller.desiredSize! > 0) return;
    message.pause();
    transfer.waits(() => {
      message.destroy();
      fail(new Error("The client has not read for a minute"));
    });
  }
  function goOn(): void {
    if (!message.isPaused()) return;
    transfer.reads();
    message.resume();
  }
  function cancel(): void {
    if (end()) message.destroy();
  }
  function start(created: typeof controller): void {
    controller = created;
    message.on("data", forward);
    message.on("end", () => {
      if (end()) controller.close();
    });
    message.on("error", fail);
    message.on("close", () => {
      fail(new Error("The connection was closed before the end of the body"));
    });
  }
  const readAhead = { highWaterMark: READ_AHEAD_BYTES };
  return new ReadableStream(
    { start, pull: goOn, cancel },
    new ByteLengthQueuingStrategy(readAhead),
  );
}
