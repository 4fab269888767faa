import { assertEquals, assertThrows } from "@std/assert";
import { parseUpstreamUrl } from "../../src/proxy/upstream_url.ts";
import { EXPECTED_UPSTREAM } from "../../src/upstream_url.ts";

Deno.test("parseUpstreamUrl() returns an http: or https: URL with a host, a port and a path", () => {
  for (const upstream of ["http://up/", "https://up:8443/base/", new URL("http://[::1]:3000/")]) {
    assertEquals(parseUpstreamUrl(upstream).href, String(upstream));
  }
});

const REJECTED: [upstream: string, shown: string][] = [
  ["nonsense", "nonsense"],
  ["", ""],
  ["127.0.0.1:3000", "127.0.0.1:3000"],
  ["localhost:3000", "localhost:3000"],
  ["http://", "http://"],
  ["ftp://up/", "ftp://up/"],
  ["ws://up/", "ws://up/"],
  ["http://me:pw@up/", "http://…@up/"],
  ["http://me@up/", "http://…@up/"],
  ["http://me:p?w#x@up/", "http://…@up/"],
  ["http://up/?a", "http://up/?…"],
  ["http://up/#a", "http://up/?…"],
  ["http://me:pw@no host/?token", "http://…@no host/?…"],
  ["me:pw@up", "…@up"],
];

for (const [upstream, shown] of REJECTED) {
  Deno.test(`parseUpstreamUrl() rejects "${upstream}" without its credentials`, () => {
    const error = assertThrows(() => parseUpstreamUrl(upstream), TypeError);
    assertEquals(error.message, `Cannot proxy to "${shown}": expected ${EXPECTED_UPSTREAM}`);
  });
}
