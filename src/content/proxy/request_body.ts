/**
 * Returns the body of a request, or `null` if it has none.
 *
 * `Deno.serve` creates a stream for every request other than GET and HEAD. If no body follows the headers, that stream
 * holds one empty chunk. Forwarded as a stream, it would turn a DELETE without a body into one with an empty chunked
 * body, which some servers reject. If the headers do not announce a body (HTTP/2 does not require it), this waits for
 * the first bytes.
 */
export async function requestBody({ body, headers }: Request): Promise<ReadableStream<Uint8Array> | null> {
  if (body === null || headers.get("content-length") === "0") return null;
  if (headers.has("content-length") || headers.has("transfer-encoding")) return body;
  const first = await readFirstBytes(body);
  return first && ReadableStream.from(prepend(first, body));
}

async function readFirstBytes(body: ReadableStream<Uint8Array>): Promise<Uint8Array | null> {
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

async function* prepend(first: Uint8Array, rest: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array> {
  yield first;
  yield* rest;
}
