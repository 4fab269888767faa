import { copyHeaders, parseList, TOKEN } from "../../http/headers.ts";

/** Headers that apply to one connection even if `Connection` does not list them (RFC 9110 §7.6.1 and §11.7). */
const HOP_BY_HOP: ReadonlySet<string> = new Set([
  "connection",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authentication-info",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
]);

/**
 * Copies headers without the hop-by-hop ones: those that are known, and those that `Connection` lists (RFC 9110
 * §7.6.1). A forwarded message is framed again, or by its `Content-Length`.
 *
 * @param isKept Selects the end-to-end headers by name, which is in lower case.
 */
export function withoutHopByHop(
  headers: Headers,
  isKept: (name: string) => boolean = () => true,
): Headers {
  const listed = listedNames(
    headers.get("connection"),
    headers.has("transfer-encoding"),
  );
  return copyHeaders(
    headers,
    (name) => !HOP_BY_HOP.has(name) && !listed.includes(name) && isKept(name),
  );
}

/**
 * Returns the headers of a message of `node:http` without the hop-by-hop ones. Reads `rawHeaders`, since
 * `message.headers` drops duplicates of some headers.
 *
 * `node:http` decodes the transfer coding `chunked` only. Others, such as gzip, become the content coding that was
 * applied last: the codings are the same, and clients decode them.
 *
 * @throws {TypeError} If a header is invalid.
 */
export function endToEndHeaders(
  { rawHeaders }: { readonly rawHeaders: readonly string[] },
): Headers {
  const headers = new Headers();
  const connection: string[] = [];
  const transferCodings: string[] = [];
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const [name, value] = [rawHeaders[i]!.toLowerCase(), rawHeaders[i + 1]!];
    if (name === "connection") connection.push(value);
    else if (name === "transfer-encoding") transferCodings.push(value);
    if (!HOP_BY_HOP.has(name)) headers.append(name, value);
  }
  for (
    const name of listedNames(connection.join(), transferCodings.length > 0)
  ) {
    if (TOKEN.test(name)) headers.delete(name);
  }
  for (const coding of parseList(transferCodings.join())) {
    if (coding.toLowerCase() !== "chunked") {
      headers.append("content-encoding", coding);
    }
  }
  return headers;
}

/** Returns the names that `Connection` lists, and that of `Content-Length` if it does not count. */
function listedNames(
  connection: string | null,
  hasTransferEncoding: boolean,
): string[] {
  const listed = parseList(connection?.toLowerCase() ?? null);
  // Transfer-Encoding overrides Content-Length (RFC 9112 §6.3); forwarded without it, a wrong length would be trusted.
  return hasTransferEncoding ? [...listed, "content-length"] : listed;
}
