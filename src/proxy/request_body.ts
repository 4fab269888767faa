/**
 * Gives the body that a request really has.
 *
 * `Deno.serve` gives every request that is not a GET or a HEAD a stream, also where nothing follows the headers: it then
 * holds one empty chunk. Passed on as a stream, that would turn a DELETE without a body into one with an empty body in
 * chunks, which some servers refuse. Where the headers do not announce a body (HTTP/2 need not), its first bytes have to
 * be awaited.
 */
export async function requestBody({ body, headers }: Request): Promise<ReadableStream<Uint8Array> | null> {
  if (body === null || headers.get("content-length") === "0") return null;
  if (headers.has("content-length") || headers.has("transfer-encoding")) return body;
  const first = await firstBytes(body);
  return first && ReadableStream.from(preceded(first, body));
}

async function firstBytes(body: ReadableStream<Uint8Array>): Promise<Uint8Array | null> {
  const reader = body.getReader();
  try {
    for (let read = await reader.read(); !read.done; read = await reader.read()) {
      if (read.value.length > 0) return read.value;
    }
    return null;
  } finally {
    reader.releaseLock();
  }
}

async function* preceded(first: Uint8Array, rest: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array> {
  yield first;
  yield* rest;
}
