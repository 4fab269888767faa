import { assertEquals } from "@std/assert";
import { redactUrl } from "../../src/values/redact_url.ts";
import { parseUpstream } from "../../src/values/upstream_url.ts";

Deno.test("parseUpstream() returns an http: or https: URL with a host, a port and a path", () => {
  for (
    const upstream of [
      "http://up/",
      "https://up:8443/base/",
      new URL("http://[::1]:3000/"),
    ]
  ) {
    assertEquals(parseUpstream(upstream)?.href, String(upstream));
  }
});

/** Invalid upstreams, and how messages show them. */
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
  ["http://up/?a", "http://up/?…"],
  ["http://up/#a", "http://up/?…"],
  ["http://me:pw@no host/?token", "http://…@no host/?…"],
  ["me:pw@up", "…@up"],
];

for (const [upstream, shown] of REJECTED) {
  Deno.test(`parseUpstream() rejects "${upstream}", and redactUrl() shows it without its secrets`, () => {
    assertEquals([parseUpstream(upstream), redactUrl(upstream)], [
      undefined,
      shown,
    ]);
  });
}
