/** What belongs to one connection even where `Connection` does not name it (RFC 9110 §7.6.1, RFC 9110 §11.7). */
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

/** A header name (RFC 9110 §5.6.2); `Headers` throws at any other. */
const TOKEN = /^[\w!#$%&'*+.^`|~-]+$/;

/**
 * Copies headers without those that belong to one connection only: the known ones, and the ones that `Connection`
 * nominates (RFC 9110 §7.6.1). What is passed on has a length of its own making, or the one that `Content-Length` says.
 */
export function withoutHopByHop(headers: Headers): Headers {
  const kept = new Headers(headers);
  // A length beside a transfer coding is void (RFC 9112 §6.3), and passed on alone it would be taken for true.
  if (headers.has("transfer-encoding")) kept.delete("content-length");
  for (const name of [...nominatedBy(headers), ...HOP_BY_HOP]) kept.delete(name);
  return kept;
}

function nominatedBy(headers: Headers): string[] {
  const options = (headers.get("connection") ?? "").split(",").map((option) => option.trim());
  return options.filter((option) => TOKEN.test(option));
}
