import { type Clock, sleep } from "../../values/clock.ts";

/**
 * How long after the end of a body that no header announces its request may still turn out to be reset. `Deno.serve`
 * ends such a body without an error, and aborts the request's signal some milliseconds later. The pause is divided, so
 * that a process that was not running meanwhile receives what has happened before it decides.
 */
const RESET_NOTICE = { pauses: 10, pauseMs: 10 };

/**
 * Returns the body of a request, or `null` if it has none.
 *
 * `Deno.serve` creates a stream for every request other than GET and HEAD. If no body follows the headers, that stream
 * holds one empty chunk. Forwarded as a stream, it would turn a DELETE without a body into one with an empty chunked
 * body, which some servers reject. If the headers do not announce a body (HTTP/2 does not require it), this waits for
 * the first bytes.
 *
 * A request over HTTP/2 that is reset in the same instant in which its head arrives cannot be told from one without a
 * body. It is forwarded as such: waiting for the reset would cost every preflight as much time.
 *
 * @throws {DOMException} `AbortError` if the client has reset the request; so does the returned stream.
 */
export async function requestBody(
  request: Request,
  clock: Clock,
): Promise<AsyncIterable<Uint8Array> | null> {
  const { body, headers, signal } = request;
  if (body === null || headers.get("content-length") === "0") return null;
  if (headers.has("content-length") || headers.has("transfer-encoding")) {
    return body;
  }
  const beginning = await readBeginning(body);
  if (beginning === "no body") return null;
  if (beginning === "no bytes") {
    await confirmEnd(signal, clock);
    return null;
  }
  return withConfirmedEnd(beginning, body, signal, clock);
}

/** Reads the first bytes, if there are any. */
async function readBeginning(
  body: ReadableStream<Uint8Array>,
): Promise<Uint8Array | "no body" | "no bytes"> {
  const reader = body.getReader();
  try {
    let read = await reader.read();
    if (read.done) return "no bytes"; // the body has begun, and has ended since
    while (!read.done) {
      if (read.value.length > 0) return read.value;
      read = await reader.read();
    }
    return "no body";
  } finally {
    reader.releaseLock();
  }
}

async function* withConfirmedEnd(
  first: Uint8Array,
  rest: ReadableStream<Uint8Array>,
  signal: AbortSignal,
  clock: Clock,
): AsyncGenerator<Uint8Array> {
  yield first;
  yield* rest;
  await confirmEnd(signal, clock);
}

/** Makes sure that a body has ended because it is complete, and not because the client has reset its stream. */
async function confirmEnd(signal: AbortSignal, clock: Clock): Promise<void> {
  for (let pause = 0; pause < RESET_NOTICE.pauses; pause++) {
    await sleep(RESET_NOTICE.pauseMs, clock, { signal });
  }
  signal.throwIfAborted();
}
