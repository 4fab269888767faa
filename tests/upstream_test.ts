import { assertEquals, assertRejects } from "@std/assert";
import { Readable } from "node:stream";
import {
  brotliCompressSync,
  constants,
  createGzip,
  gzipSync,
  zstdCompressSync,
} from "node:zlib";
import { decodeContent } from "../src/content/coding/content_encoding.ts";
import type { GatewayOptions } from "../src/options.ts";
import { startCommand, startServe } from "./_command.ts";
import { setUp, type TestGateway } from "./_gateway.ts";
import { scriptedUpstream } from "./content/proxy/_servers.ts";
import { serveLocally } from "./_serve.ts";

const HTML =
  "<!doctype html><html><head><title>x</title></head><body>é</body></html>";

interface Proxied extends AsyncDisposable {
  gate: TestGateway;
  /** The requests to the upstream: method, path and some headers. */
  requests: Record<string, string | null>[];
}

function serve(handler: Deno.ServeHandler<Deno.NetAddr>) {
  const server = serveLocally(handler);
  return {
    url: server.url,
    [Symbol.asyncDispose]: () => server.shutdown(),
  };
}

/** Starts a gateway in front of an upstream. */
async function proxy(
  handler: (request: Request) => Response,
  options: GatewayOptions = {},
) {
  const requests: Proxied["requests"] = [];
  const server = serve((request) => {
    const { headers, method, url } = request;
    const { pathname, search } = new URL(url);
    const received = RECORDED_HEADERS.map((name) => [name, headers.get(name)]);
    requests.push({
      method,
      path: pathname + search,
      ...Object.fromEntries(received),
    });
    return handler(request);
  });
  const gate = await setUp({ REP_PUBLIC_A: "1" }, {
    upstream: server.url,
    ...options,
  });
  return {
    gate,
    requests,
    async [Symbol.asyncDispose]() {
      await gate.gateway.close();
      await server[Symbol.asyncDispose]();
    },
  };
}

const RECORDED_HEADERS = [
  "if-none-match",
  "if-modified-since",
  "range",
  "x-forwarded-for",
];

function withoutScript(html: string) {
  return html.replace(/<script id="__rep__".*?<\/script>/, "");
}

function page(headers: HeadersInit = {}, body: BodyInit = HTML) {
  const response = new Response(body, { headers });
  response.headers.set("content-type", "text/html; charset=utf-8");
  return response;
}

/** What an upstream sends, and the coding of the page that the client gets. */
const CODINGS = [
  ["gzip", "gzip"],
  ["br", "br"],
  ["x-gzip", "gzip"],
  ["identity, BR", "br"],
] as const;

function compress(coding: string) {
  if (/br$/i.test(coding)) return new Uint8Array(brotliCompressSync(HTML));
  return new Uint8Array(gzipSync(HTML));
}

for (const [upstream, expected] of CODINGS) {
  Deno.test(`a page that arrives as ${upstream} leaves as ${expected}`, async () => {
    const own = {
      "etag": '"v1"',
      "vary": "Cookie",
      "content-encoding": upstream,
      "content-digest": "sha-256=:x:",
    };
    await using proxied = await proxy(() => page(own, compress(upstream)));
    const headers = {
      "accept": "text/html",
      "accept-encoding": "gzip, deflate, br, zstd",
    };
    const response = await proxied.gate.ask("/", { headers });
    assertEquals(response.headers.get("content-encoding"), expected);
    for (const name of ["content-length", "content-digest"]) {
      assertEquals([name, response.headers.get(name)], [name, null]);
    }
    const vary = "Cookie, Sec-Fetch-Dest, Sec-Fetch-Mode, Accept-Encoding";
    assertEquals(response.headers.get("vary"), vary);
    const head = await proxied.gate.ask("/", { method: "HEAD", headers });
    assertEquals(await head.text(), "");
    assertEquals(
      Object.fromEntries(head.headers),
      Object.fromEntries(response.headers),
    );
    const etag = response.headers.get("etag") ?? "";
    const confirmed = await proxied.gate.ask("/", {
      headers: { ...headers, "if-none-match": etag },
    });
    assertEquals(
      [confirmed.status, confirmed.headers.get("content-encoding")],
      [304, null],
    );
    assertEquals(
      [confirmed.headers.get("etag"), confirmed.headers.get("vary")],
      [etag, vary],
    );
    const html = await decodeContent(response).text();
    assertEquals([html.includes('"A":"1"'), withoutScript(html)], [true, HTML]);
  });
}

Deno.test("a page that arrives uncompressed is sent uncompressed, since only the upstream knows its secrets", async () => {
  await using proxied = await proxy(() => page());
  const response = await proxied.gate.ask("/", {
    headers: { "accept-encoding": "gzip, deflate, br, zstd" },
  });
  response.headers.delete("date");
  assertEquals(Object.fromEntries(response.headers), {
    "cache-control": "no-cache",
    "content-type": "text/html; charset=utf-8",
    "vary": "Sec-Fetch-Dest, Sec-Fetch-Mode",
  });
  const html = await response.text();
  assertEquals([html.includes('"A":"1"'), withoutScript(html)], [true, HTML]);
});

Deno.test("a compressed page that is rendered in parts arrives in parts", async () => {
  const encoder = createGzip({ flush: constants.Z_SYNC_FLUSH });
  const encoded = Readable.toWeb(encoder) as ReadableStream<
    Uint8Array<ArrayBuffer>
  >;
  await using proxied = await proxy(() =>
    page({ "content-encoding": "gzip" }, encoded)
  );
  encoder.write("<head></head><p>first");
  const response = await proxied.gate.ask("/", {
    headers: { "accept-encoding": "gzip" },
  });
  const reader = decodeContent(response).body!.pipeThrough(
    new TextDecoderStream(),
  ).getReader();
  let text = "";
  while (!text.includes("first")) text += (await reader.read()).value;
  encoder.end("second");
  while (!text.includes("second")) text += (await reader.read()).value;
  assertEquals(withoutScript(text), "<head></head><p>firstsecond");
});

Deno.test("a response that is not a page is forwarded byte for byte, and so are preconditions and ranges", async () => {
  const body = Uint8Array.from({ length: 1_000 }, (_, i) => i & 255);
  const headers = {
    "content-type": "application/octet-stream",
    "etag": '"own"',
    "content-encoding": "x-own",
  };
  await using proxied = await proxy(() => new Response(body, { headers }));
  const response = await proxied.gate.ask("/data?x=%2f", {
    headers: { "if-none-match": '"own"', range: "bytes=0-1" },
  });
  assertEquals(new Uint8Array(await response.arrayBuffer()), body);
  assertEquals([
    response.headers.get("etag"),
    response.headers.get("content-encoding"),
  ], ['"own"', "x-own"]);
  assertEquals(proxied.requests, [{
    "method": "GET",
    "path": "/data?x=%2f",
    "if-none-match": '"own"',
    "if-modified-since": null,
    "range": "bytes=0-1",
    "x-forwarded-for": "127.0.0.1",
  }]);
});

Deno.test("a page in a browser cache is revalidated against the variables: the upstream receives no preconditions", async () => {
  await using proxied = await proxy(() => page({ etag: '"v1"' }));
  const revalidate = async (etag?: string | null) => {
    const headers = {
      accept: "text/html",
      ...(etag ? { "if-none-match": etag, "if-modified-since": "x" } : {}),
    };
    const response = await proxied.gate.ask("/", { headers });
    await response.body?.cancel();
    return [response.status, response.headers.get("etag")] as const;
  };
  const [, first] = await revalidate();
  assertEquals(await revalidate(first), [304, first]);
  await proxied.gate.set({ REP_PUBLIC_A: "2" });
  assertEquals((await revalidate(first))[0], 200);
  assertEquals(
    new Set(
      proxied.requests.map((request) =>
        request["if-none-match"] ?? request["if-modified-since"]
      ),
    ),
    new Set([null]),
  );
});

Deno.test("paths under /rep/ never reach the upstream", async () => {
  await using proxied = await proxy(() => page());
  for (
    const path of ["/rep/health", "/rep/other", "/rep/", "/rep/session-key"]
  ) {
    await (await proxied.gate.ask(path)).text();
  }
  assertEquals(proxied.requests, []);
});

/** A response with a page, up to a number of bytes, as a raw text. */
function rawPage(body: string, headers: string, length = body.length) {
  return `HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n${headers}Content-Length: ${length}\r\n\r\n${body}`;
}

const GZIP = String.fromCharCode(...gzipSync(HTML));
const EMPTY_CHUNKED = "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n";

/** Responses that browsers accept, and the page that arrives, without the script. */
const ODD_RESPONSES = [
  [
    "bytes after gzip",
    "200 OK",
    `Content-Encoding: gzip\r\nContent-Length: ${
      GZIP.length + 1
    }\r\n\r\n${GZIP}\n`,
    HTML,
  ],
  [
    "an empty gzip body in chunks",
    "200 OK",
    `Content-Encoding: gzip\r\n${EMPTY_CHUNKED}`,
    "",
  ],
  [
    "a redirect with an empty gzip body",
    "302 Found",
    `Location: /x\r\nContent-Encoding: gzip\r\n${EMPTY_CHUNKED}`,
    "",
  ],
] as const;

for (const [name, status, response, html] of ODD_RESPONSES) {
  Deno.test(`a page of an upstream with ${name} arrives with the script`, async () => {
    await using upstream = scriptedUpstream(async (connection) => {
      await connection.readHead();
      await connection.write(
        `HTTP/1.1 ${status}\r\nContent-Type: text/html\r\nConnection: close\r\n${response}`,
      );
    });
    await using gate = await setUp({ REP_PUBLIC_A: "1" }, {
      upstream: `http://127.0.0.1:${upstream.port}`,
    });
    const arrived = await gate.ask("/", { headers: { accept: "text/html" } });
    assertEquals([arrived.status, arrived.headers.get("content-encoding")], [
      Number.parseInt(status),
      "gzip",
    ]);
    const page = await decodeContent(arrived).text();
    assertEquals([page.includes('"A":"1"'), withoutScript(page)], [true, html]);
  });
}

Deno.test("a broken body is a line of the log, or counted if it breaks like another one, and an error for the client", async () => {
  const gzip = "Content-Encoding: gzip\r\n";
  const bytes = await new Response(
    new Blob([HTML]).stream().pipeThrough(new CompressionStream("gzip")),
  ).bytes();
  const compressed = String.fromCharCode(...bytes);
  const corrupt = compressed.slice(0, 20) +
    "\xff".repeat(compressed.length - 20);
  const broken = [
    ["/cut", rawPage("<html>", "", 100)],
    ["/cut-gzip", rawPage(compressed.slice(0, 20), gzip, 100)],
    ["/not-gzip", rawPage(HTML, gzip)],
    ["/corrupt", rawPage(corrupt, gzip)],
  ] as const;
  await using upstream = scriptedUpstream(async (connection) => {
    const [, path] = (await connection.readHead())?.split(" ") ?? [];
    await connection.write(broken.find(([name]) => name === path)?.[1] ?? "");
  });
  await using command = await startCommand([
    "--kv",
    ":memory:",
    "--upstream",
    `http://127.0.0.1:${upstream.port}`,
  ]);
  for (const [path] of broken) {
    const response = await fetch(command.url + path);
    assertEquals(response.status, 200);
    await assertRejects(() => response.text(), TypeError);
  }
  command.signal("SIGTERM");
  await command.ended();
  assertEquals(command.output.filter((line) => !line.startsWith("{")), []);
  const lines = command.output.map((line) => JSON.parse(line)).filter((
    { level },
  ) => level !== "INFO");
  const failures = lines.map(({ msg, method, path, reason, detail }) => [
    msg,
    method,
    path,
    reason,
    detail.replace(/:.*/, ""),
  ]);
  const failed = "rep.upstream.failed";
  const request = (path: string) => [failed, "GET", path, "broken_body"];
  assertEquals(failures, [
    [...request("/cut"), "aborted"],
    [...request("/not-gzip"), "Cannot decode the content"],
    [...request("/corrupt"), "Cannot decode the content"],
    [failed, undefined, undefined, undefined, "aborted"], // counts that of /cut-gzip
  ]);
  assertEquals(lines.at(-1).broken_body, 1);
});

Deno.test("the command in front of an upstream logs no warning, run from a registry and with deno serve", async () => {
  await using upstream = serve(() => page());
  const options = {
    REP_GATEWAY_KV: ":memory:",
    REP_GATEWAY_UPSTREAM: upstream.url,
  };
  for (const start of [startCommand, startServe]) {
    await using command = await start([], options);
    for (const path of ["/", "/a"]) {
      await (await fetch(command.url + path)).text();
    }
    command.signal("SIGTERM");
    await command.ended();
    assertEquals(
      command.output.filter((line) => !line.includes('"level":"INFO"')),
      [],
    );
  }
});

Deno.test("/livez, /readyz and /metrics on the public port are those of the upstream, with or without a health port", async () => {
  const paths = ["/livez", "/metrics", "/readyz"];
  for (const separateHealth of [false, true]) {
    await using proxied = await proxy(
      () => new Response("upstream", { status: 503 }),
      { separateHealth },
    );
    const responses = await Promise.all(
      paths.map((path) => proxied.gate.ask(path)),
    );
    const texts = await Promise.all(
      responses.map(async (
        response,
      ) => [response.status, await response.text()]),
    );
    assertEquals(texts, paths.map(() => [503, "upstream"]));
    assertEquals(proxied.requests.map(({ path }) => path).toSorted(), paths);
  }
});

Deno.test("an upstream may send parts of a page in any coding, but not what may be a page itself", async () => {
  const asked: (string | null)[] = [];
  const zstd = new Uint8Array(zstdCompressSync("let a;"));
  await using proxied = await proxy(({ headers }) => {
    asked.push(headers.get("accept-encoding"));
    return new Response(zstd, {
      headers: {
        "content-type": "text/javascript",
        "content-encoding": "zstd",
      },
    });
  });
  const requests = [
    ["script", "no-cors", "gzip, br, zstd"],
    ["image", "no-cors", "gzip, br, zstd"],
    ["empty", "cors", "gzip, br, zstd"],
    ["empty", "navigate", "gzip, br"], // a service worker passes a navigation on
    ["document", "navigate", "gzip, br"],
    ["iframe", "navigate", "gzip, br"],
    [undefined, "no-cors", "gzip, br"],
  ] as const;
  for (const [destination, mode] of requests) {
    const headers = {
      "accept-encoding": "gzip, br, zstd",
      "sec-fetch-mode": mode,
    };
    const response = await proxied.gate.ask("/a.js", {
      headers: destination === undefined
        ? headers
        : { ...headers, "sec-fetch-dest": destination },
    });
    assertEquals([
      await response.bytes(),
      response.headers.get("content-encoding"),
    ], [zstd, "zstd"]);
  }
  assertEquals(asked, requests.map(([, , expected]) => expected));
});
