import { parseList, TOKEN } from "../http/list_field.ts";

/** Headers that apply to one connection even if `Connection` does not list them (RFC 9110 §7.6.1 and §11.7). */
const HOP_BY_HOP = [
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
];

/**
 * Copies headers without the hop-by-hop ones: those that are known, and those that `Connection` lists (RFC 9110
 * §7.6.1). A forwarded message is framed again, or by its `Content-Length`.
 */
export function withoutHopByHop(headers: Headers): Headers {
  const kept = new Headers(headers);
  // Transfer-Encoding overrides Content-Length (RFC 9112 §6.3); forwarded without it, a wrong length would be trusted.
  if (headers.has("transfer-encoding")) kept.delete("content-length");
  for (const name of [...listedInConnection(headers), ...HOP_BY_HOP]) kept.delete(name);
  return kept;
}

function listedInConnection(headers: Headers): string[] {
  return parseList(headers.get("connection")).filter((option) => TOKEN.test(option)); // `Headers` throws for any other
}
