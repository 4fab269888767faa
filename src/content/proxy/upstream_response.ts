import type { IncomingMessage } from "node:http";
import type { ResponseContent } from "../../coding/response_content.ts";
import { concat } from "../../values/chunks.ts";
import type { Transfer } from "../transfers.ts";
import { BrokenBodyError } from "./upstream_failure.ts";
import { endToEndHeaders } from "./hop_by_hop.ts";

/** Statuses without a body (Fetch standard, null body status). `Response` rejects a body for them. */
const NULL_BODY_STATUSES = [204, 304];

const [NO_CONTENT, RESET_CONTENT] = [204, 205];

/** How many bytes of the body are read before the client asks for them. */
const READ_AHEAD_BYTES = 65_536;

/** Options of {@linkcode upstreamResponse}. */
interface UpstreamResponseOptions {
  /** The method of the request: a response to HEAD has no body, whatever its headers say. */
  method: string;
  /** Hears whether the client reads. */
  transfer: Transfer;
  /**
   * Called once, when the body has been received or cancelled.
   *
   * @param error Why the body ended early, if it did and was not cancelled.
   */
  onEnd: (error?: Error) => void;
}

/**
 * Converts the upstream's message to a response with the same status, end-to-end headers and bytes. A 205 becomes a 204,
 * to which browsers react alike: `Deno.serve` sends a 205 without its length, and HTTP/1 clients wait for an end. A small body that has
 * arrived with the headers is known as a whole; any other is read with backpressure. Cancelling it closes the connection,
 * and it ends in a {@linkcode BrokenBodyError} if the connection breaks.
 *
 * @throws {RangeError} If the status is not between 200 and 599.
 * @throws {TypeError} If a header is invalid.
 */
export function upstreamResponse(
  message: IncomingMessage,
  { method, transfer, onEnd }: UpstreamResponseOptions,
): ResponseContent {
  const { statusCode = 0 } = message;
  const headers = endToEndHeaders(message);
  const status = statusCode === RESET_CONTENT ? NO_CONTENT : statusCode;
  if (status === NO_CONTENT) headers.delete("content-length"); // RFC 9110 §8.6
  requireStatus(status);
  const hasBody = method !== "HEAD" && !NULL_BODY_STATUSES.includes(status);
  if (hasBody && !hasArrived(message)) {
    return { status, headers, body: bodyOf(message, transfer, onEnd) };
  }
  const body = hasBody ? readBuffered(message) : null;
  message.on("error", () => {}); // the response is complete without the rest of the message
  message.resume(); // reads the message to its end, so that the connection can be reused
  onEnd();
  return { status, headers, body };
}

/** Returns whether the whole body has arrived together with the headers, as most small ones do. */
function hasArrived({ complete, readableLength }: IncomingMessage): boolean {
  return complete && readableLength <= READ_AHEAD_BYTES;
}

/** @throws {RangeError} As `Response` does, but before there is a stream. */
function requireStatus(status: number): void {
  if (status < 200 || status > 599) {
    throw new RangeError(
      `Cannot respond: expected a status of 200 to 599, got ${status}`,
    );
  }
}

const EMPTY = new Uint8Array();

/** Reads what has arrived. `read()` may return one chunk only, and takes long if nothing is left. */
function readBuffered(message: IncomingMessage): Uint8Array<ArrayBuffer> {
  const { readableLength } = message;
  const first: Uint8Array<ArrayBuffer> = message.read() ?? EMPTY;
  // Not copied. A Buffer would be seen as such by whoever reads the body of a response with it.
  if (first.length === readableLength) {
    return new Uint8Array(first.buffer, first.byteOffset, first.length);
  }
  const chunks = [first];
  for (let chunk = message.read(); chunk !== null; chunk = message.read()) {
    chunks.push(chunk);
  }
  return concat(chunks);
}

function bodyOf(
  message: IncomingMessage,
  transfer: Transfer,
  onEnd: (error?: Error) => void,
): ReadableStream<Uint8Array<ArrayBuffer>> {
  let hasEnded = false;
  function end(finish: () => void, error?: Error): void {
    if (hasEnded) return;
    hasEnded = true;
    finish();
    onEnd(error);
  }
  return new ReadableStream<Uint8Array<ArrayBuffer>>({
    start(controller) {
      const fail = (error: Error) =>
        end(() => controller.error(new BrokenBodyError(error.message)), error);
      message.on(
        "data",
        ({ buffer, byteOffset, length }: Uint8Array<ArrayBuffer>) => {
          if (hasEnded) return;
          controller.enqueue(new Uint8Array(buffer, byteOffset, length));
          if (controller.desiredSize! > 0) return;
          message.pause();
          transfer.waits(() => {
            message.destroy();
            fail(new Error("The client has not read for a minute"));
          });
        },
      );
      message.on("end", () => end(() => controller.close()));
      message.on("error", fail);
      message.on(
        "close",
        () =>
          fail(
            new Error("The connection was closed before the end of the body"),
          ),
      );
    },
    pull() {
      if (!message.isPaused()) return;
      transfer.reads();
      message.resume();
    },
    cancel: () => end(() => message.destroy()),
  }, new ByteLengthQueuingStrategy({ highWaterMark: READ_AHEAD_BYTES }));
}
