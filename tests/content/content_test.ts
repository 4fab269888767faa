import { assertEquals, assertRejects } from "@std/assert";
import {
  type Content,
  type ContentSettings,
  openContent,
} from "../../src/content/content.ts";
import { silentLog } from "../../src/observe/log.ts";
import { noMetrics } from "../../src/observe/metrics.ts";
import { systemClock } from "../../src/values/clock.ts";

const CONTEXT = {
  client: {
    address: "127.0.0.1",
    clientKey: "127.0.0.1",
    origin: "http://gateway.test",
  },
  url: { origin: "http://gateway.test", path: "/", search: "" },
};

const SCRIPT = {
  bytes: new TextEncoder().encode("<SCRIPT>"),
  revision: "r1",
  isSecret: false,
};

function open(changed: Partial<ContentSettings>): Promise<Content | undefined> {
  const settings: ContentSettings = {
    staticDir: undefined,
    staticCacheBytes: 1_000_000,
    neverServed: () => Promise.resolve([]),
    upstream: undefined,
    immutable: [],
    basePath: "",
    preserveHost: false,
    upstreamTimeoutMs: 1_000,
    maxTransfers: 10,
    rejectWebsockets: false,
  };
  const services = { clock: systemClock, log: silentLog, metrics: noMetrics };
  return openContent({ ...settings, ...changed }, services);
}

Deno.test("openContent() returns undefined if there is nothing to serve", async () => {
  assertEquals(await open({}), undefined);
});

Deno.test("openContent() rejects a directory and an upstream at once", async () => {
  const message =
    "Cannot serve a directory and an upstream at once: expected one of them";
  await assertRejects(
    () => open({ staticDir: ".", upstream: new URL("http://127.0.0.1:9/") }),
    TypeError,
    message,
  );
});

Deno.test("drain() of an upstream waits for a body, and close() ends it", async () => {
  const server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {} },
    () => new Response(new ReadableStream()),
  );
  const content = await open({
    upstream: new URL(`http://127.0.0.1:${server.addr.port}/`),
  });
  const response = await content?.respond(
    new Request("http://gateway.test/"),
    CONTEXT,
    () => Promise.resolve(SCRIPT),
  );
  let isDrained = false;
  const drained = content?.drain?.().then(() => isDrained = true);
  await new Promise(setImmediate);
  assertEquals(isDrained, false);
  content?.close();
  await drained;
  await assertRejects(() => response?.text() ?? Promise.resolve());
  await server.shutdown();
});
