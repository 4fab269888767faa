import { assertEquals, assertRejects } from "@std/assert";
import {
  requestBody,
  upstreamHeaders,
  upstreamTarget,
  withoutHopByHop,
} from "../../../src/content/proxy/forwarded_request.ts";
import { readUrl } from "../../../src/core/http/routes.ts";
import { endToEndHeaders } from "../../../src/content/proxy/upstream.ts";
import type { Client } from "../../../src/core/http/client_address.ts";
import { systemClock } from "../../../src/core/values/clock.ts";

function assertTarget(
  target: string,
  requestUrl: string,
  upstream = "http://up/",
) {
  assertEquals(
    upstreamTarget(new URL(upstream), readUrl(requestUrl)!, ""),
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

/** Filters headers, and the same headers of a message of `node:http`. */
function filtered(headers: Record<string, string>): [string, string][] {
  const fromMessage = [
    ...endToEndHeaders({ rawHeaders: Object.entries(headers).flat() }),
  ];
  const copied = [...withoutHopByHop(new Headers(headers))];
  assertEquals(fromMessage, copied);
  return copied;
}

Deno.test("withoutHopByHop() removes hop-by-hop headers, and no others", () => {
  assertEquals(
    filtered({
      "Connection": "keep-alive",
      "Keep-Alive": "timeout=5",
      "Proxy-Authenticate": "Basic",
      "Proxy-Authentication-Info": "x",
      "Proxy-Authorization": "Basic eDp5",
      "Proxy-Connection": "close",
      "TE": "trailers",
      "Trailer": "x-sum",
      "Transfer-Encoding": "chunked",
      "Upgrade": "h2c",
      "Authorization": "Basic eDp5",
      "X-Other": "1",
    }),
    [["authorization", "Basic eDp5"], ["x-other", "1"]],
  );
});

Deno.test("withoutHopByHop() removes headers that Connection lists, in any case and between invalid names", () => {
  assertEquals(
    filtered({
      "connection": "Close, X-One,, a b, é ,x-TWO",
      "x-one": "1",
      "x-two": "2",
      "x-three": "3",
    }),
    [
      ["x-three", "3"],
    ],
  );
});

Deno.test("withoutHopByHop() keeps Content-Length only without Transfer-Encoding", () => {
  assertEquals(filtered({ "content-length": "3" }), [["content-length", "3"]]);
  assertEquals(
    filtered({ "content-length": "3", "transfer-encoding": "chunked" }),
    [],
  );
});

Deno.test("endToEndHeaders() keeps each Set-Cookie, and removes what any of several Connection headers lists", () => {
  const cookies = ["Set-Cookie", "a=1", "set-cookie", "b=2"];
  const others = [
    "X-One",
    "1",
    "Connection",
    "x-one",
    "connection",
    "X-Two",
    "x-two",
    "2",
    "X-Two",
    "3",
  ];
  assertEquals([...endToEndHeaders({ rawHeaders: [...cookies, ...others] })], [
    ["set-cookie", "a=1"],
    ["set-cookie", "b=2"],
  ]);
});

const CLIENT = {
  address: "192.0.2.7",
  clientKey: "192.0.2.7",
  origin: "https://app.example:8443",
};

function headersFor(
  request: Headers,
  client: Client,
  options: { preserveHost?: boolean; basePath?: string } = {},
) {
  const { preserveHost = false, basePath = "" } = options;
  return upstreamHeaders(request, client, preserveHost, basePath);
}

Deno.test("upstreamHeaders() replaces all headers that describe the client", () => {
  const headers = new Headers({
    "forwarded": "for=evil",
    "x-forwarded-for": "evil",
    "x-forwarded-host": "evil",
    "x-forwarded-port": "1",
    "x-forwarded-proto": "evil",
    "X_Forwarded_For": "evil",
    "x-real-ip": "evil",
    "x_real_ip": "evil",
    "x-forward": "kept",
  });
  assertEquals([...headersFor(headers, CLIENT)], [
    ["x-forward", "kept"],
    ["x-forwarded-for", "192.0.2.7"],
    ["x-forwarded-host", "app.example:8443"],
    ["x-forwarded-proto", "https"],
  ]);
});

Deno.test("upstreamHeaders() keeps the gateway's own headers even if Connection lists them", () => {
  const headers = new Headers({
    connection: "x-forwarded-for, cookie",
    cookie: "a=1",
  });
  assertEquals([...headersFor(headers, CLIENT).keys()], [
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
  ]);
});

Deno.test("upstreamHeaders() omits an address or an origin that is invalid", () => {
  assertEquals([
    ...headersFor(new Headers(), {
      ...CLIENT,
      address: "unix",
      origin: "null",
    }),
  ], []);
});

Deno.test("upstreamHeaders() removes Host and Expect, and adds nothing", () => {
  const headers = new Headers({
    host: "evil",
    expect: "100-continue",
    accept: "*/*",
    cookie: "a=1",
  });
  assertEquals([
    ...headersFor(headers, { ...CLIENT, address: "unix", origin: "null" }),
  ], [
    ["accept", "*/*"],
    ["cookie", "a=1"],
  ]);
});

Deno.test("upstreamHeaders() sends the host that was checked, even if Connection lists Host, or else none", () => {
  const headers = new Headers({ host: "internal.example", connection: "host" });
  assertEquals(headersFor(headers, CLIENT).get("host"), null);
  assertEquals(
    headersFor(headers, CLIENT, { preserveHost: true }).get("host"),
    "app.example:8443",
  );
  const onSocket = { ...CLIENT, origin: "http+unix://localhost" };
  assertEquals(
    headersFor(headers, onSocket, { preserveHost: true }).get("host"),
    "internal.example",
  );
});

Deno.test("upstreamHeaders() names the base path in X-Forwarded-Prefix", () => {
  const headers = new Headers({ "x-forwarded-prefix": "/forged" });
  assertEquals(headersFor(headers, CLIENT).get("x-forwarded-prefix"), null);
  assertEquals(
    headersFor(headers, CLIENT, { basePath: "/app" }).get("x-forwarded-prefix"),
    "/app",
  );
});

function streamOf(...parts: string[]) {
  return ReadableStream.from(parts).pipeThrough(new TextEncoderStream());
}

async function chunksOf(
  headers: HeadersInit,
  body: ReadableStream<Uint8Array<ArrayBuffer>> | null,
) {
  const result = await requestBody(
    new Request("http://host/", { method: "DELETE", headers, body }),
    systemClock,
  );
  if (result === null) return null;
  const chunks = await Array.fromAsync(result);
  return chunks.map((chunk) => new TextDecoder().decode(chunk));
}

Deno.test("requestBody() returns null if nothing follows the headers", async () => {
  assertEquals(await chunksOf({}, null), null);
  assertEquals(await chunksOf({}, streamOf()), null);
  assertEquals(
    await chunksOf({}, ReadableStream.from([new Uint8Array()])),
    null,
  ); // as from Deno.serve
  assertEquals(await chunksOf({ "content-length": "0" }, streamOf()), null);
});

Deno.test("requestBody() returns all chunks, whether the headers announce a body or not", async () => {
  assertEquals(await chunksOf({}, streamOf("a", "b", "c")), ["a", "b", "c"]);
  assertEquals(await chunksOf({ "content-length": "2" }, streamOf("a", "b")), [
    "a",
    "b",
  ]);
  assertEquals(
    await chunksOf({ "transfer-encoding": "chunked" }, streamOf("a", "b")),
    ["a", "b"],
  );
  assertEquals(
    await chunksOf({ "transfer-encoding": "chunked" }, streamOf()),
    [],
  );
});

Deno.test("requestBody() forwards an error of the body", async () => {
  const broken = new ReadableStream<Uint8Array<ArrayBuffer>>({
    start: (controller) => controller.error(new Error("gone")),
  });
  await assertRejects(() => chunksOf({}, broken), Error, "gone");
});

Deno.test("requestBody() rejects a body without a length that ends because its request was reset", async () => {
  for (const parts of [[], ["a"]]) {
    const controller = new AbortController();
    const init = {
      method: "POST",
      body: streamOf(...parts),
      signal: controller.signal,
    };
    const request = new Request("http://host/", init);
    setTimeout(() => controller.abort(), 1); // after the end of the body, as Deno.serve does
    await assertRejects(
      async () => {
        const body = await requestBody(request, systemClock);
        await Array.fromAsync(body ?? []);
      },
      DOMException,
      "aborted",
    );
  }
});
