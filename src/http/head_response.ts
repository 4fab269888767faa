/** Statuses for which `Response` permits no body. */
const NULL_BODY_STATUSES: readonly number[] = [101, 204, 205, 304];

/**
 * Prepares a response to HEAD for `Deno.serve`, which adds `Content-Length: 0` to a response with the body `null`. The
 * length has to be that of the response to GET, or be absent (RFC 9110 §8.6). To a stream, Deno adds no length and
 * sends none of it.
 */
export function headResponse(response: Response): Response {
  const hasLength = response.body !== null ||
    response.headers.has("content-length");
  if (hasLength || NULL_BODY_STATUSES.includes(response.status)) {
    return response;
  }
  return new Response(ReadableStream.from([]), response);
}
