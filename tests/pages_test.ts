import { assert, assertEquals, assertNotEquals } from "@std/assert";
import { decryptAesGcm } from "@std/crypto/aes-gcm";
import { decodeBase64 } from "@std/encoding/base64";
import type { Payload } from "../src/core/pages/payload.ts";
import { memoryStore } from "../src/engines/memory.ts";
import { FakeClock } from "../tools/fake_clock.ts";
import { startModule } from "./_command.ts";
import { setUp, type TestGateway } from "./_gateway.ts";
import { kidOf } from "./_kid.ts";
import { TempDirectory } from "./_temp.ts";
import { fallibleStore } from "./_store.ts";

const HTML =
  "<!doctype html><html><head><title>x</title></head><body>é</body></html>";

async function makeSite() {
  const directory = await TempDirectory.make();
  await Deno.writeTextFile(directory.at("index.html"), HTML);
  await Deno.writeTextFile(directory.at("app.js"), "1");
  return directory;
}

function payloadIn(html: string): Payload {
  return JSON.parse(
    /<script id="__rep__"[^>]*>([^<]*)<\/script>/.exec(html)?.[1] ?? "null",
  );
}

async function pageOf(gate: TestGateway, path = "/"): Promise<Payload> {
  return payloadIn(await (await gate.ask(path)).text());
}

/** Decrypts the SENSITIVE values of a page, as the client does. */
async function decryptPage(
  gate: TestGateway,
  { sensitive = "", _meta }: Payload,
): Promise<unknown> {
  const { key } = await (await gate.ask(_meta.key_endpoint ?? "")).json();
  const aesKey = await crypto.subtle.importKey(
    "raw",
    decodeBase64(key),
    "AES-GCM",
    false,
    ["decrypt"],
  );
  const additionalData = new TextEncoder().encode(_meta.integrity);
  return JSON.parse(
    new TextDecoder().decode(
      await decryptAesGcm(aesKey, decodeBase64(sensitive), { additionalData }),
    ),
  );
}

Deno.test("a page contains the configuration, and is otherwise the file byte for byte", async () => {
  await using directory = await makeSite();
  await using gate = await setUp({ REP_PUBLIC_A: "1", REP_SERVER_V: "x" }, {
    staticDir: directory.path,
  });
  for (const path of ["/", "/index.html", "/some/route?x=1"]) {
    const response = await gate.ask(path);
    const html = await response.text();
    assertEquals(response.status, 200);
    assertEquals(html.replace(/<script id="__rep__".*?<\/script>/, ""), HTML);
    assert(html.includes("</script></head>"));
    assertEquals(payloadIn(html).public, { A: "1" });
  }
});

Deno.test("paths under /rep/ are never served from the directory", async () => {
  await using directory = await makeSite();
  await Deno.mkdir(directory.at("rep"));
  await Deno.writeTextFile(directory.at("rep/secret.txt"), "x");
  await using gate = await setUp({}, { staticDir: directory.path });
  for (const path of ["/rep/secret.txt", "/rep/", "/rep/route"]) {
    const response = await gate.ask(path);
    assertEquals([response.status, response.headers.get("content-type")], [
      404,
      "application/problem+json",
    ]);
    await response.body?.cancel();
  }
});

Deno.test("a page's ETag changes with the configuration, and a page with SENSITIVE values has none", async () => {
  await using directory = await makeSite();
  await using gate = await setUp({ REP_PUBLIC_A: "1" }, {
    staticDir: directory.path,
  });
  const etagOf = async (headers: HeadersInit = {}) => {
    const response = await gate.ask("/", { headers });
    await response.body?.cancel();
    return [
      response.status,
      response.headers.get("etag"),
      response.headers.get("cache-control"),
    ];
  };
  const [, first, caching] = await etagOf();
  assertEquals(caching, "no-cache");
  assertEquals(await etagOf({ "if-none-match": String(first) }), [
    304,
    first,
    "no-cache",
  ]);
  await gate.set({ REP_PUBLIC_A: "2" });
  const [status, second] = await etagOf({ "if-none-match": String(first) });
  assertEquals(status, 200);
  assertNotEquals(second, first);
  await gate.set({ REP_PUBLIC_A: "2", REP_SENSITIVE_S: "x" });
  assertEquals(await etagOf({ "if-none-match": String(second) }), [
    200,
    null,
    "no-store",
  ]);
});

Deno.test("a page's stream continues from the page's cursor, and misses no event", async () => {
  await using directory = await makeSite();
  await using gate = await setUp({ REP_PUBLIC_A: "1" }, {
    staticDir: directory.path,
  });
  const page = await pageOf(gate);
  await gate.set({ REP_PUBLIC_A: "2" });
  const reader = await gate.listen(
    {},
    new URL(page._meta.hot_reload ?? "", "http://x").search,
  );
  assertEquals(await reader.takeValues(1), ["2"]);
  await reader.close();
  const next = await gate.listen(
    {},
    new URL((await pageOf(gate))._meta.hot_reload ?? "", "http://x").search,
  );
  await gate.set({ REP_PUBLIC_A: "3" });
  assertEquals(await next.takeValues(1), ["3"]);
  await next.close();
});

Deno.test("a page has no stream path without hot reload, and no key path without SENSITIVE variables", async () => {
  await using directory = await makeSite();
  await using gate = await setUp({ REP_PUBLIC_A: "1" }, {
    staticDir: directory.path,
    hotReload: false,
  });
  const { _meta, ...rest } = await pageOf(gate);
  assertEquals(Object.keys(_meta), [
    "version",
    "injected_at",
    "integrity",
    "ttl",
  ]);
  assertEquals(Object.keys(rest), ["public"]);
});

Deno.test("a page stays as it is if a reload finds no change, and otherwise has the new values at once", async () => {
  await using directory = await makeSite();
  await using gate = await setUp({ REP_PUBLIC_A: "1", REP_SENSITIVE_S: "x" }, {
    staticDir: directory.path,
  });
  const first = await pageOf(gate);
  await gate.set({ REP_SENSITIVE_S: "x", REP_PUBLIC_A: "1" });
  assertEquals(await pageOf(gate), first); // encrypted again, it would differ
  await gate.set({ REP_PUBLIC_A: "1", REP_SENSITIVE_S: "y" });
  const second = await pageOf(gate);
  assertNotEquals(second.sensitive, first.sensitive);
  await gate.set({ REP_PUBLIC_A: "2", REP_SENSITIVE_S: "y" });
  assertEquals((await pageOf(gate)).public, { A: "2" });
});

Deno.test("a config script is rendered once for a snapshot and an epoch", async () => {
  await using directory = await makeSite();
  const clock = new FakeClock(1_700_000_400_000);
  const masterKey = new Uint8Array(32).fill(7);
  const options = {
    staticDir: directory.path,
    clock,
    masterKey,
    keyRotationMs: 200_000,
  };
  await using gate = await setUp({ REP_SENSITIVE_S: "x" }, options);
  const first = await pageOf(gate);
  clock.jump(100_000);
  assertEquals(await pageOf(gate), first);
  clock.jump(100_000);
  const next = await pageOf(gate);
  assertNotEquals(next.sensitive, first.sensitive);
  assertEquals(
    [first, next].map(({ _meta }) => _meta.key_endpoint),
    [
      `/rep/session-key?kid=${await kidOf("1700000400", masterKey)}`,
      `/rep/session-key?kid=${await kidOf("1700000600", masterKey)}`,
    ],
  );
});

Deno.test("a key decrypts the pages of its epoch and no others, including those of another replica", async () => {
  await using directory = await makeSite();
  const clock = new FakeClock(1_700_000_400_000);
  const store = memoryStore();
  const options = { staticDir: directory.path, clock, store };
  await using gate = await setUp({ REP_SENSITIVE_S: "s€cret" }, options);
  await using replica = await setUp({ REP_SENSITIVE_S: "s€cret" }, options);
  const earlier = await pageOf(gate);
  assertEquals(await decryptPage(replica, earlier), { S: "s€cret" });
  clock.jump(3_600_000);
  const later = await pageOf(replica);
  assertEquals(await decryptPage(gate, later), { S: "s€cret" });
  assertEquals(await decryptPage(gate, earlier), { S: "s€cret" }); // its key path names its epoch
  const mixed = {
    ...later,
    _meta: { ...later._meta, key_endpoint: earlier._meta.key_endpoint ?? "" },
  };
  assertEquals(
    await decryptPage(gate, mixed).catch((error: Error) => error.name),
    "OperationError",
  );
});

Deno.test("while the store with the master key is unavailable, pages have PUBLIC values only", async () => {
  await using directory = await makeSite();
  const inner = memoryStore();
  const clock = new FakeClock();
  let isDown = true;
  const store = fallibleStore(inner, () => isDown);
  await using gate = await setUp({ REP_PUBLIC_A: "1", REP_SENSITIVE_S: "x" }, {
    staticDir: directory.path,
    store,
    startWithoutStore: true,
    clock,
  });
  const page = await pageOf(gate);
  assertEquals([page.public, page.sensitive, page._meta.key_endpoint], [
    { A: "1" },
    undefined,
    undefined,
  ]);
  assertEquals(
    (await (await gate.ask("/rep/health")).json()).status,
    "degraded",
  );
  isDown = false;
  await clock.tick(40_000);
  assertEquals(await decryptPage(gate, await pageOf(gate)), { S: "x" });
  assertEquals(
    (await (await gate.ask("/rep/health")).json()).status,
    "healthy",
  );
});

Deno.test("a master key that was missing at the start is loaded when the store is back, before the next outage", async () => {
  await using directory = await makeSite();
  const clock = new FakeClock();
  let isDown = true;
  const store = fallibleStore(memoryStore(), () => isDown);
  await using gate = await setUp({ REP_SENSITIVE_S: "x" }, {
    staticDir: directory.path,
    store,
    clock,
  });
  isDown = false;
  await clock.tick(40_000);
  await gate.gateway.ready;
  isDown = true;
  const { sensitive } = await pageOf(gate);
  assertNotEquals(sensitive, undefined);
});

Deno.test("gateway.handle() responds to the gateway's own paths, and returns undefined for all others", async () => {
  await using gate = await setUp({ REP_PUBLIC_A: "1" });
  const handle = (path: string) =>
    gate.gateway.handle(new Request(`http://gateway.test${path}`));
  assertEquals(await handle("/"), undefined);
  assertEquals(await handle("/repeat"), undefined);
  const health = await handle("/rep/health");
  assertEquals((await health?.json()).variables.public, 1);
  assertEquals((await handle("/rep/other"))?.status, 404);
});

Deno.test("gateway.inject() inserts the configuration into any page, with or without its request", async () => {
  await using gate = await setUp({ REP_PUBLIC_A: "1" });
  const page = () =>
    new Response(HTML, {
      headers: { "content-type": "text/html", etag: '"v1"' },
    });
  const injected = await gate.gateway.inject(page());
  const etag = injected.headers.get("etag") ?? "";
  assertEquals(payloadIn(await injected.text()).public, { A: "1" });
  const request = new Request("http://gateway.test/", {
    headers: { "if-none-match": etag },
  });
  assertEquals((await gate.gateway.inject(page(), request)).status, 304);
});

Deno.test("examples/servers/deno_serve.ts serves its configuration", async () => {
  await using server = await startModule("examples/servers/deno_serve.ts", [
    "0",
  ], { REP_PUBLIC_A: "1" });
  const page = payloadIn(await (await fetch(server.url)).text());
  const health = await (await fetch(`${server.url}/rep/health`)).json();
  assertEquals([page.public, health.variables.public], [{ A: "1" }, 1]);
});
