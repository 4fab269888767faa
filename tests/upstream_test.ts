import { assertEquals } from "@std/assert";
import type { GatewayOptions } from "../src/gateway_options.ts";
import { setUp, type TestGateway } from "./_gateway.ts";

const HTML = "<!doctype html><html><head><title>x</title></head><body>é</body></html>";

interface Upstream extends AsyncDisposable {
  gate: TestGateway;
  /** What was asked of the upstream: method, path and the headers that matter here. */
  asked: Record<string, string | null>[];
}

/** A gateway before a server of the test's own. */
async function before(handler: (request: Request) => Response, options: GatewayOptions = {}): Promise<Upstream> {
  const asked: Upstream["asked"] = [];
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, (request) => {
    const { headers, method, url } = request;
    const { pathname, search } = new URL(url);
    const seen = ["if-none-match", "if-modified-since", "range", "x-forwarded-for"].map((
      name,
    ) => [name, headers.get(name)]);
    asked.push({ method, path: pathname + search, ...Object.fromEntries(seen) });
    return handler(request);
  });
  const upstream = `http://127.0.0.1:${server.addr.port}/`;
  const gate = await setUp({ REP_PUBLIC_A: "1" }, { upstream, ...options });
  return {
    gate,
    asked,
    async [Symbol.asyncDispose]() {
      await gate.gateway.close();
      await server.shutdown();
    },
  };
}

function withoutTag(html: string): string {
  return html.replace(/<script id="__rep__".*?<\/script>/, "");
}

function page(headers: HeadersInit = {}, body: BodyInit = HTML): Response {
  const response = new Response(body, { headers });
  response.headers.set("content-type", "text/html; charset=utf-8");
  return response;
}

Deno.test("an upstream's page gets the configuration, and is otherwise what it was, compressed or not", async () => {
  const gzip = () => new Blob([HTML]).stream().pipeThrough(new CompressionStream("gzip"));
  await using set = await before(({ url }) =>
    url.endsWith("/gzip") ? page({ "content-encoding": "gzip" }, gzip()) : page()
  );
  for (const path of ["/plain", "/gzip"]) {
    const response = await set.gate.ask(path, { headers: { "accept-encoding": "gzip, br, zstd" } });
    const html = await response.text();
    assertEquals([html.includes('"A":"1"'), withoutTag(html)], [true, HTML], path);
    assertEquals([response.headers.get("content-encoding"), response.headers.get("content-length")], [null, null]);
  }
});

Deno.test("what is no page comes through the gateway byte for byte, with its coding, ranges and conditions", async () => {
  const body = Uint8Array.from({ length: 1_000 }, (_, i) => i & 255);
  const headers = { "content-type": "application/octet-stream", "etag": '"own"', "content-encoding": "x-own" };
  await using set = await before(() => new Response(body, { headers }));
  const response = await set.gate.ask("/data?x=%2f", { headers: { "if-none-match": '"own"', range: "bytes=0-1" } });
  assertEquals(new Uint8Array(await response.arrayBuffer()), body);
  assertEquals([response.headers.get("etag"), response.headers.get("content-encoding")], ['"own"', "x-own"]);
  assertEquals(set.asked, [{
    "method": "GET",
    "path": "/data?x=%2f",
    "if-none-match": '"own"',
    "if-modified-since": null,
    "range": "bytes=0-1",
    "x-forwarded-for": "127.0.0.1",
  }]);
});

Deno.test("a page that a browser kept is not kept on old variables: the upstream is not asked for a 304", async () => {
  await using set = await before(() => page({ etag: '"v1"' }));
  const ask = async (etag?: string | null) => {
    const headers = { accept: "text/html", ...(etag ? { "if-none-match": etag, "if-modified-since": "x" } : {}) };
    const response = await set.gate.ask("/", { headers });
    await response.body?.cancel();
    return [response.status, response.headers.get("etag")] as const;
  };
  const [, first] = await ask();
  assertEquals(await ask(first), [304, first]);
  await set.gate.set({ REP_PUBLIC_A: "2" });
  assertEquals((await ask(first))[0], 200);
  assertEquals(new Set(set.asked.map((one) => one["if-none-match"] ?? one["if-modified-since"])), new Set([null]));
});

Deno.test("paths under /rep/ never reach the upstream", async () => {
  await using set = await before(() => page());
  for (const path of ["/rep/health", "/rep/other", "/rep/", "/rep/session-key"]) {
    await (await set.gate.ask(path)).text();
  }
  assertEquals(set.asked, []);
});

Deno.test("the upstream's own event stream comes through at once, and ends with its client", async () => {
  const left = Promise.withResolvers<void>();
  const events = () =>
    new ReadableStream({
      start: (controller) => controller.enqueue(new TextEncoder().encode("data: x\n\n")),
      cancel: () => left.resolve(),
    });
  await using set = await before(() => new Response(events(), { headers: { "content-type": "text/event-stream" } }));
  const response = await set.gate.ask("/events");
  const reader = response.body?.getReader();
  assertEquals(new TextDecoder().decode((await reader?.read())?.value), "data: x\n\n");
  await reader?.cancel();
  await left.promise;
});

Deno.test("an upstream that is down is a 502, and the log says of which path", async () => {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const upstream = `http://127.0.0.1:${listener.addr.port}/`;
  listener.close();
  await using gate = await setUp({}, { upstream });
  const response = await gate.ask("/page");
  assertEquals([response.status, response.headers.get("content-type")], [502, "application/problem+json"]);
  assertEquals((await response.text()).includes(upstream), false);
  assertEquals(gate.lines.find(({ msg }) => msg === "rep.upstream.failed")?.path, "/page");
});
