/**
 * An IP address: the eight groups of 16 bits of IPv6. An IPv4 address has those of its IPv4-mapped address, such as
 * `::ffff:192.0.2.1` (RFC 4291 §2.5.5.2), so that the two are equal.
 *
 * Parsed here and not with `node:net`, whose import takes half as long as the start of Deno itself.
 */
export type IpAddress = readonly number[];

/** The groups before those of an IPv4 address. */
const MAPPED_PREFIX: readonly number[] = [0, 0, 0, 0, 0, 0xffff];

/** Whether an address is an IPv4 address, or an IPv4-mapped one. */
export function isIPv4(address: IpAddress): boolean {
  return MAPPED_PREFIX.every((group, index) => address[index] === group);
}

/**
 * Parses an IPv4 address with four decimal numbers, or an IPv6 address (RFC 4291 §2.2) with or without a zone, which is
 * ignored. Numbers with leading zeros are invalid, since some programs read them as octal.
 *
 * @returns `undefined` if the text is neither.
 */
export function parseIp(text: string): IpAddress | undefined {
  const ipv4 = parseIPv4(text);
  return ipv4 ? [...MAPPED_PREFIX, ...ipv4] : parseIPv6(text);
}

/** Returns the two groups of an IPv4 address. */
function parseIPv4(text: string): [number, number] | undefined {
  const bytes = text.split(".");
  if (bytes.length !== 4 || !bytes.every(isByte)) return undefined;
  const [a, b, c, d] = bytes.map(Number) as [number, number, number, number];
  return [a << 8 | b, c << 8 | d];
}

function isByte(text: string): boolean {
  return /^(?:0|[1-9]\d{0,2})$/.test(text) && Number(text) <= 255;
}

/** The zone of a link-local address: `fe80::1%eth0`. */
const ZONE = /%[a-z\d.:-]+$/i;

function parseIPv6(text: string): IpAddress | undefined {
  const [left = "", right, ...rest] = text.replace(ZONE, "").split("::");
  if (rest.length > 0) return undefined;
  const before = parseGroups(left, right === undefined);
  if (right === undefined) return before?.length === 8 ? before : undefined;
  const after = parseGroups(right, true);
  const zeros = 8 - (before?.length ?? 8) - (after?.length ?? 8);
  if (before === undefined || after === undefined || zeros < 1) {
    return undefined; // `::` stands for at least one group
  }
  return [...before, ...Array<number>(zeros).fill(0), ...after];
}

/** Parses one side of `::`. The last two groups of an address may be written as an IPv4 address. */
function parseGroups(
  text: string,
  isEnd: boolean,
): readonly number[] | undefined {
  if (text === "") return [];
  const parts = text.split(":");
  const ipv4 = isEnd ? parseIPv4(parts.at(-1) ?? "") : undefined;
  const hex = ipv4 ? parts.slice(0, -1) : parts;
  if (!hex.every((part) => /^[\da-f]{1,4}$/i.test(part))) return undefined;
  return [...hex.map((part) => parseInt(part, 16)), ...ipv4 ?? []];
}

/** Formats an address: IPv4 with dots, IPv6 as eight groups without leading zeros. */
export function formatIp(address: IpAddress): string {
  if (!isIPv4(address)) {
    return address.map((group) => group.toString(16)).join(":");
  }
  return address.slice(6).flatMap((group) => [group >> 8, group & 255]).join(
    ".",
  );
}

/** A block of addresses. */
export interface IpBlock {
  readonly address: IpAddress;
  /** How many bits of the 128 are the same in all of its addresses. */
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

/** Whether a block contains an address. A block of IPv6 addresses, such as `::/0`, contains no IPv4 address. */
export function contains(
  { address: start, bits }: IpBlock,
  address: IpAddress,
): boolean {
  if (isIPv4(address) && bits < 96) return false;
  return start.every((group, index) => {
    const mask = 0xffff << Math.max(0, Math.min(16, 16 * (index + 1) - bits));
    return ((group ^ address[index]!) & mask & 0xffff) === 0;
  });
}
