/** The codings that can be undone, and what `DecompressionStream` calls them (RFC 9110 §8.4.1). */
const FORMATS: Readonly<Record<string, CompressionFormat>> = {
  "br": "brotli",
  "deflate": "deflate",
  "gzip": "gzip",
  "x-gzip": "gzip",
};

/** What is only true of the bytes as they were sent (RFC 9110 §8.6, RFC 9530 §2 and §3). */
const TRUE_OF_CODED_BYTES = ["content-encoding", "content-length", "content-digest", "repr-digest", "digest"];

/**
 * Undoes the content codings of a response: gzip, deflate and br, one or several. The body streams.
 *
 * A strong `ETag` becomes a weak one: the bytes are others now (RFC 9110 §8.8.1). A response that is not coded, that is
 * a part of a coded one, or that is coded by something else as well (zstd, for one) is given back as it is. Faults in
 * the coded bytes are errors of the body's stream, an early end as well (but not of deflate, where Deno overlooks it). So
 * is a gzip file of several members, which `DecompressionStream` does not take.
 *
 * @param response Its body is used up; go on with the one returned.
 */
export function decodeContent(response: Response): Response {
  const codings = listed(response.headers.get("content-encoding")).filter((coding) => coding !== "identity");
  const isUndoable = codings.every((coding) => Object.hasOwn(FORMATS, coding));
  if (codings.length === 0 || !isUndoable || response.headers.has("content-range")) return response;
  const { status, statusText } = response;
  // Some servers name a coding and send nothing; nothing is no gzip, but it is what they mean.
  const isEmpty = response.headers.get("content-length") === "0";
  // The coding that was applied last is listed last (RFC 9110 §8.4).
  const body = isEmpty ? response.body : codings.reverse().reduce(undo, response.body);
  return new Response(body, { status, statusText, headers: headersOfDecoded(response.headers) });
}

/**
 * Takes the codings that {@linkcode decodeContent} cannot undo out of an `Accept-Encoding` header (RFC 9110 §12.5.3).
 *
 * @param accepted The header's value; `null` if there is none, which permits any coding.
 */
export function filterAcceptEncoding(accepted: string | null): string {
  const kept = listed(accepted).filter((item) => {
    const [coding = ""] = item.split(";", 1).map((name) => name.trim());
    return coding === "identity" || Object.hasOwn(FORMATS, coding);
  });
  return kept.join(", ") || "identity";
}

function listed(header: string | null): string[] {
  return (header ?? "").toLowerCase().split(",").map((item) => item.trim()).filter((item) => item !== "");
}

function undo(body: ReadableStream<Uint8Array<ArrayBuffer>> | null, coding: string) {
  return body && body.pipeThrough(new DecompressionStream(FORMATS[coding]!));
}

function headersOfDecoded(coded: Headers): Headers {
  const headers = new Headers(coded);
  for (const name of TRUE_OF_CODED_BYTES) headers.delete(name);
  const tag = headers.get("etag");
  if (tag?.startsWith('"')) headers.set("etag", `W/${tag}`);
  return headers;
}
