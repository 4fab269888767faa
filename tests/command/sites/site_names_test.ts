import { assertEquals } from "@std/assert";
import { hostIn, isSiteName } from "../../../src/command/sites/site_names.ts";

Deno.test("isSiteName() accepts hosts exactly as browsers send them", () => {
  const valid = [
    "shop.example.com",
    "localhost",
    "default",
    "xn--bcher-kva.example",
    "127.0.0.1",
    "[::1]",
    "a_b.example",
    `${"a".repeat(63)}.example`,
  ];
  assertEquals(valid.filter((name) => !isSiteName(name)), []);
});

Deno.test("isSiteName() rejects what no request could reach, or several names for one host", () => {
  const invalid = [
    "",
    "Shop.example.com",
    "bücher.example",
    "shop.example.com.",
    "shop.example.com:8080",
    "*.example.com",
    "a b",
    "a/b",
    "a@b",
    "a?b",
    "a#b",
    "a%62",
    "-a.example",
    "127.1",
    "::1",
    "[::0:1]",
    "..",
    "http:",
    "\u0000",
    "a".repeat(254),
  ];
  assertEquals(invalid.filter(isSiteName), []);
});

Deno.test("hostIn() returns the host of an origin without its port and the dot of the root", () => {
  const hosts = [
    "http://shop.example.com",
    "https://SHOP.example.com.:8443",
    "http://[::1]:80",
    "http://bücher.example",
  ].map(hostIn);
  assertEquals(hosts, [
    "shop.example.com",
    "shop.example.com",
    "[::1]",
    "xn--bcher-kva.example",
  ]);
});
