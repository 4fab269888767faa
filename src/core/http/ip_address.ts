/**
 * The 128 bits of an IPv6 address. An IPv4 address is equal to its IPv4-mapped IPv6 address, such as `::ffff:192.0.2.1`
 * (RFC 4291 §2.5.5.2).
 *
 * This file does not use `node:net`, whose import takes half as long as the start of Deno itself.
 */
export type IpAddress = bigint;

/** Returns whether an address is an IPv4 address, or an IPv4-mapped one. */
export function isIPv4(address: IpAddress): boolean {
  return address >> 32n === 0xffffn;
}

/** The zone of a link-local address: `fe80::1%eth0`. */
const ZONE = /%[a-z\d.:-]+$/i;

/**
 * Parses an IPv4 address with four decimal numbers, or an IPv6 address (RFC 4291 §2.2), whose zone is ignored. Numbers
 * with leading zeros are invalid, since some programs read them as octal.
 *
 * `URL` does the work: it knows all forms of IPv6, is strict about an IPv4 address at the end, and returns the shortest
 * form in hexadecimal.
 *
 * @returns `undefined` if the text is neither.
 */
export function parseIp(text: string): IpAddress | undefined {
  const isIPv4 = text.includes(".") && !text.includes(":");
  const address = isIPv4 ? `::ffff:${text}` : text.replace(ZONE, "");
  if (!/^[\da-f:.]+$/i.test(address)) return undefined;
  const url = URL.parse(`http://[${address}]`);
  if (url === null) return undefined;
  const shortest = url.hostname.slice(1, -1);
  return toNumber(shortest);
}

function toNumber(address: string): bigint {
  const [before = [], after = []] = address.split("::").map(groupsOf);
  const zeros = Array<string>(8 - before.length - after.length).fill("0");
  const groups = [...before, ...zeros, ...after];
  const digits = groups.map((group) => group.padStart(4, "0"));
  return BigInt(`0x${digits.join("")}`);
}

function groupsOf(side: string): string[] {
  return side === "" ? [] : side.split(":");
}

/** Formats an address: IPv4 with dots, IPv6 as eight groups without leading zeros. */
export function formatIp(address: IpAddress): string {
  if (isIPv4(address)) {
    const bytes = [24n, 16n, 8n, 0n].map((shift) => address >> shift & 0xffn);
    return bytes.join(".");
  }
  const digits = address.toString(16).padStart(32, "0");
  const groups = digits.match(/.{4}/g) ?? [];
  return groups.map((group) => group.replace(/^0{1,3}/, "")).join(":");
}

/** A block of addresses. */
export interface IpBlock {
  readonly address: IpAddress;
  /** How many of the first 128 bits all its addresses have in common. */
  readonly bits: number;
}

/**
 * Parses an address, or a block in CIDR notation (RFC 4632 §3.1), such as `10.0.0.0/8` or `fd00::/8`.
 *
 * @returns `undefined` if the text is neither, or the address has a zone.
 */
export function parseIpBlock(text: string): IpBlock | undefined {
  const [, ip = "", bits] = /^([^/%]+)(?:\/(\d{1,3}))?$/.exec(text) ?? [];
  const address = parseIp(ip);
  const maxBits = ip.includes(":") ? 128 : 32;
  if (address === undefined || Number(bits ?? 0) > maxBits) return undefined;
  return { address, bits: 128 - maxBits + Number(bits ?? maxBits) };
}

/** Returns whether a block contains an address. A block of IPv6 addresses, such as `::/0`, contains no IPv4 address. */
export function contains(block: IpBlock, address: IpAddress): boolean {
  if (isIPv4(address) && block.bits < 96) return false;
  const otherBits = BigInt(128 - block.bits);
  return address >> otherBits === block.address >> otherBits;
}
