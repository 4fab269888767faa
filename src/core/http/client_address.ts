import type { Log } from "../observe/log.ts";
import {
  contains,
  formatIp,
  type IpBlock,
  isIPv4,
  parseIp,
  parseIpBlock,
} from "./ip_address.ts";

/** The client of a request, according to the socket and the trusted proxies. */
export interface Client {
  /** The client's IP address, for the log; `unix` for a Unix socket, `unknown` without a socket. */
  address: string;
  /**
   * The key under which a client's session keys, streams, transfers and rejections are counted: its IPv4 address, or its
   * IPv6 /64, since providers assign at least that many addresses to a customer.
   */
  clientKey: string;
  /** The gateway's own origin from the client's point of view, such as `https://app.example.com`. */
  origin: string;
}

/** The address of a socket's peer, such as a `Deno.Addr`. */
export interface PeerAddress {
  /** The kind of the connection, such as `tcp` or `unix`. */
  readonly transport: string;
  /** The IP address, if there is one. */
  readonly hostname?: string;
  /** Not used. */
  readonly port?: number;
  /** Not used. */
  readonly path?: string;
}

/** Valid proxies, for error messages. */
export const EXPECTED_PROXIES =
  "IP addresses or CIDR blocks such as 10.0.0.0/8";

/** Returns whether an IP address belongs to a trusted proxy. */
export type TrustRule = (address: string) => boolean;

/**
 * Creates the rule of `--trusted-proxies`.
 *
 * @param proxies IP addresses and CIDR blocks, such as `10.0.0.0/8` or `fd00::/8`. An empty list trusts none.
 * @throws {RangeError} If an item is neither.
 */
export function trustRule(proxies: readonly string[]): TrustRule {
  const blocks = proxies.map(parseProxy);
  if (blocks.length === 0) return () => false;
  return (text) => {
    if (text.includes("%")) return false; // a zone means nothing on another host
    const address = parseIp(text);
    if (address === undefined) return false;
    return blocks.some((block) => contains(block, address));
  };
}

function parseProxy(proxy: string): IpBlock {
  const block = parseIpBlock(proxy);
  if (block !== undefined) return block;
  throw new RangeError(
    `Cannot trust the proxy "${proxy}": expected an IP address or a CIDR block such as 10.0.0.0/8`,
  );
}

/** How a request arrived. */
interface Connection {
  readonly origin: string;
  readonly peer: string;
  readonly isTrusted: TrustRule;
}

/**
 * Resolves the client of a request.
 *
 * It uses the `X-Forwarded-…` headers only if the peer is a trusted proxy, since any client can send them. It reads
 * `X-Forwarded-For` from the right, since each proxy appends its peer, up to the first address that is not a trusted
 * proxy. `Forwarded` (RFC 7239) is not read: a proxy that does not know it passes on what the client has sent.
 *
 * @param origin The origin of the request's URL.
 * @param peer The address of the socket's peer, such as {@linkcode peerAddress} returns.
 */
export function resolveClient(
  { headers }: Request,
  { origin, peer, isTrusted }: Connection,
): Client {
  if (!isTrusted(peer)) {
    return { address: peer, clientKey: createClientKey(peer), origin };
  }
  const address = readForwardedFor(headers, peer, isTrusted);
  const clientKey = createClientKey(address);
  return { address, clientKey, origin: forwardedOrigin(headers, origin) };
}

/**
 * Returns the IP address of a socket's peer; `unix` for a Unix socket, whose peer has none. A socket for both families
 * has IPv4 clients at IPv4-mapped addresses.
 */
export function peerAddress({ hostname = "unix" }: PeerAddress): string {
  return unmapIPv4(hostname);
}

function readForwardedFor(
  headers: Headers,
  peer: string,
  isTrusted: TrustRule,
): string {
  const items = (headers.get("x-forwarded-for") ?? "").split(",");
  let address = peer;
  for (const item of items.reverse()) {
    const hop = stripPort(item.trim());
    if (parseIp(hop) === undefined) break; // items to the left of an invalid one cannot be trusted
    address = unmapIPv4(hop);
    if (!isTrusted(address)) break;
  }
  return address;
}

/** Strips the port that some proxies append: `192.0.2.1:4711`, `[2001:db8::1]:4711`. */
function stripPort(hop: string): string {
  const [, bracketed, plain] =
    /^\[([^\]]+)\](?::\d+)?$|^([\d.]+):\d+$/.exec(hop) ?? [];
  return bracketed ?? plain ?? hop;
}

/**
 * Converts an IPv4-mapped IPv6 address, such as `::ffff:192.0.2.1` or `::ffff:c000:201`, to IPv4 (RFC 4291 §2.5.5.2).
 */
function unmapIPv4(text: string): string {
  if (!text.includes(":")) return text;
  const address = parseIp(text);
  if (address === undefined || !isIPv4(address)) return text;
  return formatIp(address);
}

function createClientKey(text: string): string {
  if (!text.includes(":")) return text;
  const address = parseIp(text);
  if (address === undefined) return text;
  const groups = formatIp(address).split(":", 4);
  return `${groups.join(":")}::/64`;
}

/** The default port of the other scheme: that of a proxy behind the one that decrypts, or before it. */
const PORTS_OF_OTHERS = ["https:80", "http:443"];

/** Returns the origin that the proxy received, as far as the headers contain it and are valid. */
function forwardedOrigin(headers: Headers, requestOrigin: string): string {
  const [protocol = "", host = ""] = requestOrigin.split("://");
  const scheme = lastItem(headers.get("x-forwarded-proto")) ?? protocol;
  const authority = lastItem(headers.get("x-forwarded-host")) ?? host;
  const url = URL.parse(`${scheme}://${authority}`);
  // Browsers send any other port than the default one in `Host`, but some proxies remove it there.
  const port = lastItem(headers.get("x-forwarded-port")) ?? "";
  const hosts = [host, headers.get("host") ?? "", authority];
  const counts = /^[1-9]\d*$/.test(port) &&
    !hosts.some((host) => /:\d*$/.test(host));
  if (url && counts && !PORTS_OF_OTHERS.includes(url.protocol + port)) {
    url.port = port;
  }
  const origin = url?.origin ?? "null";
  return origin === "null" ? requestOrigin : origin; // "null" stands for an unknown scheme
}

/** Returns the last item of a list, which the trusted proxy appended. The client may have sent the items before it. */
function lastItem(header: string | null): string | undefined {
  return header?.split(",").at(-1)?.trim() || undefined;
}

/** Warns if a request shows that the peer is an untrusted proxy. */
export type ProxyWarning = (request: Request, peer: string) => void;

/**
 * Creates a function that logs a warning for the first request with `X-Forwarded-For` from a peer that is not a trusted
 * proxy. All clients of that peer share one rate limit, unlike with REP's Go gateway, which trusts any such header. It
 * warns only once, since any client can send the header.
 */
export function createProxyWarning(
  { isTrusted, log }: { isTrusted: TrustRule; log: Log },
): ProxyWarning {
  let hasWarned = false;
  return (request, peer) => {
    if (hasWarned) return;
    // For has(), Deno would copy the names of all headers, and keep them for as long as the response is a stream.
    const forwardedFor = request.headers.get("x-forwarded-for");
    if (forwardedFor === null || isTrusted(peer)) return;
    // Without a proxy, the server of Next.js adds the address of the peer itself.
    if (unmapIPv4(forwardedFor) === peer) return;
    hasWarned = true;
    const detail =
      "X-Forwarded-For is ignored, and all clients of this peer share one rate limit; " +
      "if it is your proxy, add it to the trusted proxies";
    log.warn("rep.proxy.untrusted", { peer, detail });
  };
}
