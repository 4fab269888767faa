import { assertEquals } from "@std/assert";
import { BlockList, isIP } from "node:net";
import {
  contains,
  formatIp,
  isIPv4,
  parseIp,
  parseIpBlock,
} from "../../../src/core/http/ip_address.ts";

/** Parts that addresses are put together from, valid and invalid. */
const PARTS = [
  " ",
  ..."0 1 00 01 255 256 a ffff FFFF fffff g 12.3 1.2.3.4 1.2.3.256".split(" "),
  ...": :: ::: . % %eth0 %e_0 -1 / /8 x".split(" "),
];

const ADDRESSES = [
  "",
  " 1.2.3.4",
  "1.2.3.4\n",
  "fe80::1%a b",
  ..."1.2.3.4 0.0.0.0 255.255.255.255 01.2.3.4 1.2.3 1.2.3.4.5 1.2.3.4%1"
    .split(" "),
  ...":: ::1 1:: 1:2:3:4:5:6:7:8 1:2:3:4:5:6:7:: ::2:3:4:5:6:7:8".split(" "),
  ..."1::2:3:4:5:6:7:8 1:2:3:4:5:6:7:8:: 1::2::3 12345:: :1 1: :::".split(" "),
  ..."::1.2.3.4 1:2:3:4:5:6:1.2.3.4 1.2.3.4:: ::1.2.3.4:5".split(" "),
  ..."::ffff:1.2.3.256 ::FFFF:1.2.3.4 fe80::1%eth0 fe80::1% %eth0 unix"
    .split(" "),
];

/** All texts of up to three of {@linkcode PARTS}, and what is listed. */
function candidates(): string[] {
  const pairs = PARTS.flatMap((a) => PARTS.map((b) => a + b));
  return [
    ...ADDRESSES,
    ...PARTS,
    ...pairs,
    ...pairs.flatMap((pair) => PARTS.map((part) => pair + part)),
  ];
}

Deno.test("parseIp() accepts what node:net accepts", () => {
  const accepted = candidates().filter((text) => parseIp(text) !== undefined);
  assertEquals(accepted, candidates().filter((text) => isIP(text) !== 0));
  assertEquals(accepted.length > 50, true);
});

Deno.test("parseIp() reads the same address from all of its forms", () => {
  const address = 0x2001_0db8_0000_0000_0000_0000_0000_0001n;
  for (
    const text of [
      "2001:db8::1",
      "2001:DB8:0:0:0:0:0:1",
      "2001:0db8::0.0.0.1",
      "2001:db8::1%eth0",
    ]
  ) {
    assertEquals(parseIp(text), address);
  }
  for (const text of ["192.0.2.1", "::ffff:192.0.2.1", "::FFFF:c000:201"]) {
    assertEquals(parseIp(text), 0xffff_c000_0201n);
  }
});

Deno.test("isIPv4() and formatIp() take an IPv4-mapped address for an IPv4 address", () => {
  const texts = ["192.0.2.1", "::ffff:c000:201", "2001:db8::1", "::192.0.2.1"];
  assertEquals(texts.map((text) => isIPv4(parseIp(text)!)), [
    true,
    true,
    false,
    false,
  ]);
  assertEquals(texts.map((text) => formatIp(parseIp(text)!)), [
    "192.0.2.1",
    "192.0.2.1",
    "2001:db8:0:0:0:0:0:1",
    "0:0:0:0:0:0:c000:201",
  ]);
});

Deno.test("contains() decides as the BlockList of node:net does, for every prefix length", () => {
  const addresses = [
    ..."0.0.0.0 10.1.2.3 10.1.2.2 11.0.0.1 255.255.255.255".split(" "),
    ...":: ::1 2001:db8:0:ffff:: 2001:db8:1:: 2001:db8:1:2::1".split(" "),
    ..."2001:db9:: ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff".split(" "),
  ];
  for (const address of ["10.1.2.3", "0.0.0.0", "2001:db8:1:2::1", "::1"]) {
    const isV6 = address.includes(":");
    for (let bits = 0; bits <= (isV6 ? 128 : 32); bits++) {
      const list = new BlockList();
      list.addSubnet(address, bits, isV6 ? "ipv6" : "ipv4");
      const block = parseIpBlock(`${address}/${bits}`)!;
      const expected = addresses.filter((it) =>
        list.check(it, it.includes(":") ? "ipv6" : "ipv4")
      );
      assertEquals(
        addresses.filter((it) => contains(block, parseIp(it)!)),
        expected,
        `${address}/${bits}`,
      );
    }
  }
});

Deno.test("parseIpBlock() accepts an address or a CIDR block only", () => {
  const valid = [
    "10.0.0.1",
    "10.0.0.0/0",
    "10.0.0.0/32",
    "::/0",
    "fd00::/8",
    "::1/128",
    "::ffff:10.0.0.0/104",
  ];
  assertEquals(valid.filter((text) => parseIpBlock(text) === undefined), []);
  const invalid = [
    "10.0.0.0/33",
    "::/129",
    "10.0.0.0/",
    "10.0.0.0/-1",
    "10.0.0.0/8/8",
    "/8",
    "",
    "fe80::1%eth0",
    "x/8",
  ];
  assertEquals(invalid.filter((text) => parseIpBlock(text) !== undefined), []);
});
