import { BlockList, isIP, isIPv6 } from "node:net";

/** Whose request it is, as far as the socket and the proxies we trust can tell. */
export interface Client {
  /** The client's address, for the log. */
  address: string;
  /** What its requests are counted under: the address, of IPv6 the /64 that a customer is given. */
  rateKey: string;
  /** The origin the request was made to, as the client sees it: scheme and host. */
  origin: string;
}

/** Answers whether an address is one of ours to believe. */
export type TrustRule = (address: string) => boolean;

/**
 * Makes the rule for `--trusted-proxies`.
 *
 * @param proxies Addresses and CIDR blocks, such as `10.0.0.0/8` or `fd00::/8`.
 * @throws {RangeError} If one of them is neither.
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
  const most = version === 6 ? 128 : 32;
  const wrong = version === 0 || address.includes("%") || rest.length > 0 ||
    (bits !== undefined && (!/^\d{1,3}$/.test(bits) || Number(bits) > most));
  if (wrong) {
    throw new RangeError(
      `Cannot trust the proxy "${proxy}": expected an IP address or a CIDR block such as 10.0.0.0/8`,
    );
  }
  if (bits === undefined) list.addAddress(address, family);
  else list.addSubnet(address, Number(bits), family);
}

/**
 * Tells whose a request is.
 *
 * `X-Forwarded-For` and its kin count only when the socket's peer is trusted: everybody can send them. The list is then
 * read from the right, since each proxy appends the peer it saw, up to the first address that is not ours.
 */
export function clientOf(request: Request, peer: string, isTrusted: TrustRule): Client {
  const direct = unmapped(peer);
  const viaProxy = isTrusted(direct);
  const address = viaProxy ? forwardedAddress(request.headers, direct, isTrusted) : direct;
  const origin = ownOrigin(request, viaProxy);
  return { address, rateKey: rateKey(address), origin };
}

/** The peer's address; a Unix socket's peer has none. */
export function peerAddress(address: Deno.Addr): string {
  return "hostname" in address ? address.hostname : "unix";
}

function forwardedAddress(headers: Headers, peer: string, isTrusted: TrustRule): string {
  const hops = (headers.get("x-forwarded-for") ?? "").split(",").map((hop) => withoutPort(hop.trim()));
  let nearest = peer;
  for (const hop of hops.reverse()) {
    if (isIP(hop) === 0) break; // what stands left of nonsense is no better than nonsense
    nearest = unmapped(hop);
    if (!isTrusted(nearest)) break;
  }
  return nearest;
}

/** Some proxies append the port: `192.0.2.1:4711`, `[2001:db8::1]:4711`. */
function withoutPort(hop: string): string {
  const [, bracketed, plain] = /^\[([^\]]+)\](?::\d+)?$|^([\d.]+):\d+$/.exec(hop) ?? [];
  return bracketed ?? plain ?? hop;
}

/** A dual-stack listener shows IPv4 peers as `::ffff:192.0.2.1`, others as `::ffff:c000:201` (RFC 4291 §2.5.5.2). */
function unmapped(address: string): string {
  if (!isIPv6(address)) return address;
  const groups = expandIPv6(address);
  if (groups.slice(0, 6).join(":") !== "0:0:0:0:0:ffff") return address;
  return groups.slice(6).flatMap(twoBytes).join(".");
}

function twoBytes(group: string): [number, number] {
  const number = parseInt(group, 16);
  return [number >> 8, number & 255];
}

function rateKey(address: string): string {
  if (!isIPv6(address)) return address;
  return `${expandIPv6(address).slice(0, 4).join(":")}::/64`;
}

/** The eight groups of an IPv6 address, in lower case and without leading zeros. */
function expandIPv6(address: string): string[] {
  const plain = new URL(`http://[${address.replace(/%.*$/, "")}]/`).hostname.slice(1, -1);
  const [left = "", right] = plain.split("::");
  const before = left === "" ? [] : left.split(":");
  const after = right ? right.split(":") : [];
  const zeros = Array<string>(8 - before.length - after.length).fill("0");
  return right === undefined ? before : [...before, ...zeros, ...after];
}

/** What a sandboxed frame sends as its origin, and what the URL standard calls that of a scheme it does not know. */
const OPAQUE = "null";

function ownOrigin(request: Request, viaProxy: boolean): string {
  const { protocol, host } = new URL(request.url);
  const direct = `${protocol}//${host}`;
  if (!viaProxy) return direct;
  const scheme = lastOf(request.headers.get("x-forwarded-proto")) ?? protocol.slice(0, -1);
  const url = `${scheme}://${lastOf(request.headers.get("x-forwarded-host")) ?? host}`;
  const origin = URL.canParse(url) ? new URL(url).origin : OPAQUE;
  return origin === OPAQUE ? direct : origin;
}

/** Of a list that proxies append to, the nearest one's word: what stands before it may be the client's own. */
function lastOf(header: string | null): string | undefined {
  return header?.split(",").at(-1)?.trim() || undefined;
}
