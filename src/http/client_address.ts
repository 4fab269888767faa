import { BlockList, isIP, isIPv6 } from "node:net";

/** The client of a request, according to the socket and the trusted proxies. */
export interface Client {
  /** The client's IP address, for the log; `unix` for a Unix socket, `unknown` without a socket. */
  address: string;
  /** The key of the client's rate limit: its IPv4 address or IPv6 /64, the smallest block that a customer gets. */
  rateKey: string;
  /** The gateway's own origin as the client sees it: scheme and host, such as `https://app.example.com`. */
  origin: string;
}

/** Returns whether an IP address belongs to a trusted proxy. */
export type TrustRule = (address: string) => boolean;

/**
 * Creates the rule of `--trusted-proxies`.
 *
 * @param proxies IP addresses and CIDR blocks, such as `10.0.0.0/8` or `fd00::/8`. An empty list trusts none.
 * @throws {RangeError} If an item is neither.
 */
export function trustRule(proxies: readonly string[]): TrustRule {
  const list = new BlockList();
  for (const proxy of proxies) addProxy(list, proxy);
  return (address) => {
    const version = isIP(address);
    return version !== 0 && list.check(address, version === 6 ? "ipv6" : "ipv4");
  };
}

function addProxy(list: BlockList, proxy: string): void {
  const [address = "", bits, ...rest] = proxy.split("/");
  const version = isIP(address);
  const family = version === 6 ? "ipv6" : "ipv4";
  const maxBits = version === 6 ? 128 : 32;
  const isInvalid = version === 0 || address.includes("%") || rest.length > 0 ||
    (bits !== undefined && (!/^\d{1,3}$/.test(bits) || Number(bits) > maxBits));
  if (isInvalid) {
    throw new RangeError(
      `Cannot trust the proxy "${proxy}": expected an IP address or a CIDR block such as 10.0.0.0/8`,
    );
  }
  if (bits === undefined) list.addAddress(address, family);
  else list.addSubnet(address, Number(bits), family);
}

/**
 * Resolves the client of a request.
 *
 * The `X-Forwarded-…` headers count only if the peer is a trusted proxy, since any client can send them.
 * `X-Forwarded-For` is read from the right, since each proxy appends the peer it saw, up to the first address that is
 * not a trusted proxy.
 *
 * @param peer The address of the socket's peer, such as {@linkcode peerAddress} returns.
 */
export function resolveClient(request: Request, peer: string, isTrusted: TrustRule): Client {
  const direct = unmapIPv4(peer);
  const viaProxy = isTrusted(direct);
  const address = viaProxy ? readForwardedFor(request.headers, direct, isTrusted) : direct;
  const origin = resolveOrigin(request, viaProxy);
  return { address, rateKey: createRateKey(address), origin };
}

/** Returns the IP address of a socket's peer; `unix` for a Unix socket, whose peer has none. */
export function peerAddress(address: Deno.Addr): string {
  return "hostname" in address ? address.hostname : "unix";
}

function readForwardedFor(headers: Headers, peer: string, isTrusted: TrustRule): string {
  const hops = (headers.get("x-forwarded-for") ?? "").split(",").map((hop) => stripPort(hop.trim()));
  let address = peer;
  for (const hop of hops.reverse()) {
    if (isIP(hop) === 0) break; // entries to the left of an invalid one cannot be trusted
    address = unmapIPv4(hop);
    if (!isTrusted(address)) break;
  }
  return address;
}

/** Strips the port that some proxies append: `192.0.2.1:4711`, `[2001:db8::1]:4711`. */
function stripPort(hop: string): string {
  const [, bracketed, plain] = /^\[([^\]]+)\](?::\d+)?$|^([\d.]+):\d+$/.exec(hop) ?? [];
  return bracketed ?? plain ?? hop;
}

/**
 * Converts an IPv4-mapped IPv6 address, such as `::ffff:192.0.2.1` or `::ffff:c000:201`, to IPv4 (RFC 4291 §2.5.5.2).
 */
function unmapIPv4(address: string): string {
  if (!isIPv6(address)) return address;
  const groups = expandIPv6(address);
  if (groups.slice(0, 6).join(":") !== "0:0:0:0:0:ffff") return address;
  return groups.slice(6).flatMap(toBytes).join(".");
}

function toBytes(group: string): [number, number] {
  const number = parseInt(group, 16);
  return [number >> 8, number & 255];
}

function createRateKey(address: string): string {
  if (!isIPv6(address)) return address;
  return `${expandIPv6(address).slice(0, 4).join(":")}::/64`;
}

/** Returns the eight groups of an IPv6 address, in lower case and without leading zeros. */
function expandIPv6(address: string): string[] {
  const canonical = new URL(`http://[${address.replace(/%.*$/, "")}]/`).hostname.slice(1, -1);
  const [left = "", right] = canonical.split("::");
  const before = left === "" ? [] : left.split(":");
  const after = right ? right.split(":") : [];
  const zeros = Array<string>(8 - before.length - after.length).fill("0");
  return right === undefined ? before : [...before, ...zeros, ...after];
}

/** The opaque origin: sandboxed frames send it, and the URL standard returns it for unknown schemes. */
const OPAQUE = "null";

function resolveOrigin(request: Request, viaProxy: boolean): string {
  const { protocol, host } = new URL(request.url);
  const direct = `${protocol}//${host}`;
  if (!viaProxy) return direct;
  const scheme = lastItem(request.headers.get("x-forwarded-proto")) ?? protocol.slice(0, -1);
  const url = `${scheme}://${lastItem(request.headers.get("x-forwarded-host")) ?? host}`;
  const origin = URL.canParse(url) ? new URL(url).origin : OPAQUE;
  return origin === OPAQUE ? direct : origin;
}

/** Returns the last item of a list, which the trusted proxy appended. Earlier ones may be the client's. */
function lastItem(header: string | null): string | undefined {
  return header?.split(",").at(-1)?.trim() || undefined;
}
