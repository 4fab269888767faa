import type { IncomingMessage } from "node:http";
import { withoutHopByHop } from "./hop_by_hop.ts";

/** Statuses that go without a body (Fetch standard, null body status); `Response` takes none with them. */
const WITHOUT_BODY = [204, 205, 304];

/** How much of a body is read ahead of the client, in bytes. */
const READ_AHEAD_BYTES = 65_536;

/** What {@linkcode upstreamResponse} has to know beside the message. */
export interface UpstreamResponseOptions {
  /** The method that was asked with: a HEAD's answer has no body, whatever its headers say. */
  method: string;
  /** Is told when the body breaks off before its end; not when its reader has left it. */
  onBroken: (error: Error) => void;
}

/**
 * Makes the response out of what the upstream answered: status, headers and the bytes of the body as they came. The body
 * is read no faster than it is taken; cancelling it ends the connection, and a connection that breaks is an error of it.
 *
 * @throws {RangeError} If the status is not one from 200 to 599.
 * @throws {TypeError} If a header is none.
 */
export function upstreamResponse(message: IncomingMessage, options: UpstreamResponseOptions): Response {
  const { method, onBroken } = options;
  const { statusCode: status = 0 } = message;
  const headers = withoutHopByHop(headersOf(message));
  if (method !== "HEAD" && !WITHOUT_BODY.includes(status)) {
    // Made without the body first: a status or a header that is none must not leave a stream behind.
    const { headers: checked } = new Response(null, { status, headers });
    return new Response(bodyOf(message, onBroken), { status, headers: checked });
  }
  message.on("error", () => {}); // nobody waits for more of it
  message.resume(); // to its end, so that the connection can serve another request
  return new Response(null, { status, headers });
}

function bodyOf(message: IncomingMessage, onBroken: (error: Error) => void): ReadableStream<Uint8Array<ArrayBuffer>> {
  let isOver = false;
  function end(finish: () => void): void {
    if (isOver) return;
    isOver = true;
    finish();
  }
  return new ReadableStream<Uint8Array<ArrayBuffer>>({
    start(controller) {
      const fail = (error: Error) =>
        end(() => {
          controller.error(error);
          onBroken(error);
        });
      message.on("data", ({ buffer, byteOffset, length }: Uint8Array<ArrayBuffer>) => {
        if (isOver) return;
        controller.enqueue(new Uint8Array(buffer, byteOffset, length));
        if (controller.desiredSize! <= 0) message.pause();
      });
      message.on("end", () => end(() => controller.close()));
      message.on("error", fail);
      message.on("close", () => fail(new Error("The connection was closed before the body's end")));
    },
    pull: () => void message.resume(),
    cancel: () => end(() => message.destroy()),
  }, new ByteLengthQueuingStrategy({ highWaterMark: READ_AHEAD_BYTES }));
}

/** Not `message.headers`, which throws away what it takes for a second one. */
function headersOf({ rawHeaders }: IncomingMessage): Headers {
  const headers = new Headers();
  for (let i = 0; i < rawHeaders.length; i += 2) headers.append(rawHeaders[i]!, rawHeaders[i + 1]!);
  return headers;
}
