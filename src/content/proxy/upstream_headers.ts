import { isIP } from "node:net";
import type { Client } from "../../http/client_address.ts";
import type { ContentOptions } from "../content_options.ts";
import { withoutHopByHop } from "./hop_by_hop.ts";

/**
 * Returns the request headers for the upstream. Hop-by-hop headers are removed, and headers that describe the client
 * are replaced by the gateway's own.
 *
 * `Host` is removed, since the upstream has its own, or replaced by the host that was checked: a `Host` header beside an
 * absolute target does not count (RFC 9112 §3.2.2), nor one beside `:authority` (RFC 9113 §8.3.1). `Expect` is removed
 * because the server has already sent 100, or does so when the body is read (RFC 9110 §10.1.1).
 */
export function upstreamHeaders(
  request: Headers,
  client: Client,
  { preserveHost, basePath }: Pick<ContentOptions, "preserveHost" | "basePath">,
): Headers {
  const headers = withoutHopByHop(request, (name) => !REPLACED.test(name));
  if (isIP(client.address) !== 0) {
    headers.set("x-forwarded-for", client.address); // not for the peer of a Unix socket
  }
  const [, scheme, authority] = ORIGIN.exec(client.origin) ?? [];
  const host = scheme === "http" || scheme === "https"
    ? authority
    : request.get("host"); // a Unix socket has no host
  if (preserveHost && host) headers.set("host", host);
  if (scheme !== undefined && authority !== undefined) {
    headers.set("x-forwarded-proto", scheme);
    headers.set("x-forwarded-host", authority);
  }
  if (basePath !== "") headers.set("x-forwarded-prefix", basePath); // so that the app can make absolute links
  return headers;
}

/** A normalized origin: scheme and authority. */
const ORIGIN = /^([a-z][a-z\d+.-]*):\/\/([^/]+)$/;

/**
 * What the gateway removes or replaces. CGI and its successors do not distinguish `X_Forwarded_For` from
 * `X-Forwarded-For` (RFC 3875 §4.1.18).
 */
const REPLACED =
  /^(host|expect|forwarded|x[-_]real[-_]ip|x[-_]forwarded[-_].*)$/;
