import { copyHeaders } from "../http/copy_headers.ts";
import { parseList } from "../http/list_field.ts";

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
export function withoutHopByHop(headers: Headers, isKept: (name: string) => boolean = () => true): Headers {
  const listed = parseList(headers.get("connection")?.toLowerCase() ?? null);
  // Transfer-Encoding overrides Content-Length (RFC 9112 §6.3); forwarded without it, a wrong length would be trusted.
  if (headers.has("transfer-encoding")) listed.push("content-length");
  return copyHeaders(headers, (name) => !HOP_BY_HOP.has(name) && !listed.includes(name) && isKept(name));
}
