import { isIP } from "node:net";
import type { Client } from "../http/client_address.ts";
import { withoutHopByHop } from "./hop_by_hop.ts";

/** Options of {@linkcode upstreamHeaders}. */
export interface UpstreamHeadersOptions {
  /** The `Host` header to send, if it is not the upstream's own. */
  host?: string | undefined;
  /** The path that the gateway has removed from the request's, such as `/app`. @default {""} */
  basePath?: string;
}

/**
 * Returns the request headers for the upstream. Hop-by-hop headers are removed, and headers that describe the client
 * are replaced by the gateway's own.
 *
 * `Host` is removed unless it is given, since the upstream has its own. `Expect` is removed because the server has already sent 100, or
 * does so when the body is read (RFC 9110 §10.1.1).
 */
export function upstreamHeaders(
  request: Headers,
  client: Client,
  { host, basePath = "" }: UpstreamHeadersOptions = {},
): Headers {
  const headers = withoutHopByHop(request);
  for (const name of [...headers.keys()].filter(describesClient)) headers.delete(name);
  if (host === undefined) headers.delete("host");
  else headers.set("host", host);
  headers.delete("expect");
  if (isIP(client.address) !== 0) headers.set("x-forwarded-for", client.address); // not for the peer of a Unix socket
  if (URL.canParse(client.origin)) {
    const { protocol, host } = new URL(client.origin);
    headers.set("x-forwarded-proto", protocol.slice(0, -1));
    headers.set("x-forwarded-host", host);
  }
  if (basePath !== "") headers.set("x-forwarded-prefix", basePath); // so that the app can make absolute links
  return headers;
}

/** CGI and its successors do not distinguish `X_Forwarded_For` from `X-Forwarded-For` (RFC 3875 §4.1.18). */
function describesClient(name: string): boolean {
  const normalized = name.replaceAll("_", "-");
  return normalized.startsWith("x-forwarded-") || normalized === "forwarded" || normalized === "x-real-ip";
}
