import { isIP } from "node:net";
import type { Client } from "../http/client_address.ts";
import { withoutHopByHop } from "./hop_by_hop.ts";

/**
 * The headers of a request as the upstream gets them: what belongs to the client's connection is taken out, and what is
 * said about the client is the gateway's own word.
 *
 * `Host` is left out, the upstream's own takes its place. `Expect` is, too: the server has told the client to go on
 * already, or does so when the body is read (RFC 9110 §10.1.1).
 */
export function upstreamHeaders(request: Headers, client: Client): Headers {
  const headers = withoutHopByHop(request);
  for (const name of [...headers.keys()].filter(isSaidAboutClient)) headers.delete(name);
  headers.delete("host");
  headers.delete("expect");
  if (isIP(client.address) !== 0) headers.set("x-forwarded-for", client.address); // a Unix socket's peer has none
  if (URL.canParse(client.origin)) {
    const { protocol, host } = new URL(client.origin);
    headers.set("x-forwarded-proto", protocol.slice(0, -1));
    headers.set("x-forwarded-host", host);
  }
  return headers;
}

/** CGI and its heirs do not tell `X_Forwarded_For` from `X-Forwarded-For` (RFC 3875 §4.1.18): so neither do we. */
function isSaidAboutClient(name: string): boolean {
  const plain = name.replaceAll("_", "-");
  return plain.startsWith("x-forwarded-") || plain === "forwarded" || plain === "x-real-ip";
}
