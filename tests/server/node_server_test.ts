import { assert, assertEquals, assertRejects } from "@std/assert";
import { bindNodeServer, type ConnectionLimits } from "../../src/server/node_server.ts";
import type { Server, ServerOptions } from "../../src/server/server.ts";
import { type Clock, systemClock } from "../../src/values/clock.ts";
import { captureLog } from "../_gateway.ts";
import { connectRaw } from "../content/proxy/_servers.ts";

const LIMITS: ConnectionLimits = {
  maxConnections: 100,
  backlog: 100,
  headerTimeoutMs: 5_000,
  requestTimeoutMs: 5_000,
  keepAliveTimeoutMs: 5_000,
};

interface Stage extends AsyncDisposable {
  readonly server: Server;
  readonly url: string;
  readonly errors: unknown[];
}

async function serve(handler: ServerOptions["handler"], clock = systemClock): Promise<Stage> {
  const errors: unknown[] = [];
  const onError = (error: unknown) => {
    errors.push(error);
    return new Response(null, { status: 500 });
  };
  const options = { hostname: "127.0.0.1", port: 0, tls: undefined, handler, onError };
  const server = await bindNodeServer(LIMITS, { clock, log: captureLog().log })(options);
  return { server, url: `http://127.0.0.1:${server.port}`, errors, [Symbol.asyncDispose]: () => server.shutdown() };
}

Deno.test("bindNodeServer() passes on the URL as the client sent it, all headers, and joined cookies", async () => {
  await using stage = await serve(({ method, url, headers }) =>
    Promise.resolve(Response.json([method, url, headers.get("cookie"), headers.get("x-a")]))
  );
  using client = await connectRaw(stage.server.port);
  await client.write("GET /a'b?q='%zz HTTP/1.1\r\nHost: h\r\nCookie: a=1\r\nX-A: 1\r\nCookie: b=2\r\nX-A: 2\r\n\r\n");
  await client.readHead();
  assertEquals(JSON.parse(await client.read() ?? ""), ["GET", "http://h/a'b?q='%zz", "a=1; b=2", "1, 2"]);
});

Deno.test("bindNodeServer() streams the bodies of requests and responses", async () => {
  await using stage = await serve(({ body }) => Promise.resolve(new Response(body)));
  const { readable, writable } = new TransformStream<string, string>();
  const writer = writable.getWriter();
  const body = readable.pipeThrough(new TextEncoderStream());
  const pending = fetch(stage.url, { method: "POST", body });
  await writer.write("first");
  const reader = (await pending).body!.pipeThrough(new TextDecoderStream()).getReader();
  assertEquals((await reader.read()).value, "first");
  await writer.write("second");
  assertEquals((await reader.read()).value, "second");
  await writer.close();
  assertEquals((await reader.read()).done, true);
});

Deno.test("bindNodeServer() announces the length of a body that is not a stream, also of an empty one", async () => {
  await using stage = await serve(({ url }) => Promise.resolve(new Response(url.endsWith("/a") ? "abc" : null)));
  for (const [path, length] of [["/a", "3"], ["/b", "0"]]) {
    const response = await fetch(stage.url + path);
    assertEquals([response.headers.get("content-length"), (await response.text()).length], [length, Number(length)]);
  }
});

Deno.test("bindNodeServer() sends each Set-Cookie, and no body to HEAD", async () => {
  await using stage = await serve(() => {
    const headers = new Headers([["set-cookie", "a=1"], ["set-cookie", "b=2"], ["content-length", "3"]]);
    return Promise.resolve(new Response("abc", { headers }));
  });
  const response = await fetch(stage.url, { method: "HEAD" });
  assertEquals(response.headers.getSetCookie(), ["a=1", "b=2"]);
  assertEquals([response.headers.get("content-length"), await response.text()], ["3", ""]);
});

Deno.test("bindNodeServer() cancels the body of a response whose client disconnects", async () => {
  const { promise: cancelled, resolve } = Promise.withResolvers<void>();
  const body = new ReadableStream({
    start: (controller) => controller.enqueue(new Uint8Array(1)),
    cancel: () => resolve(),
  });
  await using stage = await serve(() => Promise.resolve(new Response(body)));
  const response = await fetch(stage.url);
  await response.body?.cancel();
  await cancelled;
});

Deno.test("bindNodeServer() aborts the signal of a request whose client disconnects before the response", async () => {
  const { promise: aborted, resolve } = Promise.withResolvers<void>();
  const { promise: asked, resolve: wasAsked } = Promise.withResolvers<void>();
  await using stage = await serve(async ({ signal }) => {
    signal.addEventListener("abort", () => resolve());
    wasAsked();
    await aborted;
    return new Response();
  });
  const client = await connectRaw(stage.server.port);
  await client.write("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  await asked;
  client.close();
  await aborted;
});

Deno.test("bindNodeServer() disconnects a client that does not read for 60 s", async () => {
  let chunks = 0;
  let timeOut = () => {};
  const clock: Clock = {
    now: () => 0,
    after(ms, callback, isBackground = false) {
      if (ms !== 60_000 || isBackground) return systemClock.after(ms, callback, isBackground);
      timeOut = callback;
      return () => {};
    },
  };
  const { promise: cancelled, resolve } = Promise.withResolvers<void>();
  const body = new ReadableStream({
    pull(controller) {
      chunks++;
      controller.enqueue(new Uint8Array(65_536));
    },
    cancel: () => resolve(),
  }, { highWaterMark: 0 });
  await using stage = await serve(() => Promise.resolve(new Response(body)), clock);
  using client = await connectRaw(stage.server.port);
  await client.write("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  await client.readHead();
  let before = -1;
  while (chunks > before) { // until the kernel's buffers are full
    before = chunks;
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
  assert(chunks < 400, `${chunks} chunks`);
  timeOut();
  await cancelled;
});

Deno.test("bindNodeServer() cuts the connection if the body ends in an error, and reports it", async () => {
  const error = new Error("truncated");
  const body = () => new ReadableStream({ pull: (controller) => controller.error(error) });
  await using stage = await serve(() => Promise.resolve(new Response(body())));
  await assertRejects(async () => await (await fetch(stage.url)).text(), TypeError);
  assertEquals(stage.errors, [error]);
});

Deno.test("bindNodeServer() answers a request for another protocol as any other", async () => {
  await using stage = await serve(() => Promise.resolve(new Response("plain")));
  using client = await connectRaw(stage.server.port);
  await client.write("GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n");
  assertEquals((await client.readHead())?.split("\r\n")[0], "HTTP/1.1 200 OK");
  assertEquals(await client.read(), "plain");
  assertEquals(await client.read(), undefined);
});

Deno.test("bindNodeServer() closes silent and idle connections at its shutdown", async () => {
  const stage = await serve(() => Promise.resolve(new Response("a")));
  using silent = await connectRaw(stage.server.port);
  using idle = await connectRaw(stage.server.port);
  await idle.write("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  await idle.readHead();
  await idle.read();
  await stage.server.shutdown();
  assertEquals([await silent.read(), await idle.read()], [undefined, undefined]);
});
