import { assertEquals } from "@std/assert";
import { upstreamTarget } from "../../../src/content/proxy/reverse_proxy.ts";
import { RequestUrls } from "../../../src/http/routes.ts";

function assertTarget(
  target: string,
  requestUrl: string,
  upstream = "http://up/",
): void {
  assertEquals(
    upstreamTarget(new URL(upstream), new RequestUrls().read(requestUrl)!),
    target,
  );
}

Deno.test("upstreamTarget() prepends the base path, with or without a trailing slash", () => {
  assertTarget("/a/b?c=d", "http://host/a/b?c=d", "http://up");
  assertTarget("/base/a", "http://host/a", "http://up/base");
  assertTarget("/base/a", "http://host/a", "http://up/base/");
  assertTarget("/base/", "http://host", "http://up/base/");
  assertTarget("/base/x/?y", "http://host/?y", "http://up/base/x");
});

Deno.test("upstreamTarget() does not decode or normalize a path", () => {
  for (
    const path of [
      "//evil/x",
      "/%2f/a",
      "/a%2F..%2fb",
      "/@evil",
      "/a;b=c/",
      "/a//b",
      "/%41",
      "/a:80",
    ]
  ) {
    assertTarget(path, `http://host${path}`);
    assertTarget(`/base${path}`, `http://host${path}`, "http://up/base/");
  }
});

Deno.test("upstreamTarget() resolves dot segments like URL, and never leaves the base path", () => {
  assertTarget("/base/b", "http://host/a/../../b", "http://up/base/");
  assertTarget("/base/b", "http://host/%2e%2e/%2E%2e/b", "http://up/base/");
  assertTarget("/base/", "http://host/..", "http://up/base/");
  assertTarget("/base/b", "http://host/..\\b", "http://up/base/");
});

Deno.test("upstreamTarget() keeps the query byte for byte", () => {
  for (
    const query of [
      "?",
      "?a=%2f%zz&b='\"<>|[]{}`^\\",
      "??x=http://evil/",
      "?a+b=%20",
      "?../..",
    ]
  ) {
    assertTarget(`/a${query}`, `http://host/a${query}`);
  }
});

Deno.test("upstreamTarget() encodes characters that are not allowed in a request line", () => {
  assertTarget("/caf%C3%A9?%C3%A9%20", "http://host/caf\u00e9?\u00e9%20");
  assertTarget("/?%00%7F%20x", "http://host/?\u0000\u007f x");
});

Deno.test("upstreamTarget() drops a fragment, even one that looks like a query", () => {
  assertTarget("/a", "http://host/a#b?c");
  assertTarget("/a?b", "http://host/a?b#c?d");
});

Deno.test("upstreamTarget() ignores the host of the request", () => {
  assertTarget("/x?y", "https://evil:81/x?y");
  assertTarget("/x", "http://user@evil/x");
  assertTarget("/", "odd://evil");
  assertTarget("/evil", "odd:evil");
});
