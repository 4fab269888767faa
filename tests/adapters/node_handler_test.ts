import { assertEquals, assertRejects } from "@std/assert";
import { once } from "node:events";
import http from "node:http";
import http2 from "node:http2";
import { createGateway } from "../../src/gateway.ts";
import { FakeClock } from "../../tools/fake_clock.ts";
import {
  type NodeHandler,
  type NodeRequest,
  type NodeResponse,
  toNodeHandler,
} from "../../src/adapters/node_handler.ts";

const VARIABLES: Record<string, string> = {
  REP_PUBLIC_A: "1",
  REP_SENSITIVE_B: "2",
};

/** Serves a handler with `node:http` for the time of a test. */
async function serve(
  handler: NodeHandler,
  test: (url: string) => Promise<void>,
) {
  const server = http.createServer((request, response) =>
    handler(request, response)
  );
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  try {
    await test(
      `http://127.0.0.1:${(server.address() as { port: number }).port}`,
    );
  } finally {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
}

Deno.test("toNodeHandler() answers the gateway's own paths, and leaves others to the next handler", async () => {
  await using gateway = await createGateway({ variables: VARIABLES });
  await serve(toNodeHandler(gateway), async (url) => {
    const health = await fetch(`${url}/rep/health`);
    assertEquals([health.status, (await health.json()).variables], [200, {
      public: 1,
      sensitive: 1,
      server: 0,
    }]);
    const rejected = await fetch(`${url}/rep/session-key`, {
      headers: { origin: "https://elsewhere.example" },
    });
    assertEquals([rejected.status, (await rejected.json()).title], [
      403,
      "Forbidden",
    ]);
    const own = await fetch(`${url}/rep/session-key`, {
      headers: { origin: url },
    });
    assertEquals([own.status, own.headers.get("access-control-allow-origin")], [
      200,
      url,
    ]);
    await own.body?.cancel();
    const other = await fetch(`${url}/`);
    assertEquals([other.status, await other.text()], [404, ""]);
  });
});

Deno.test("toNodeHandler() hands the body of a POST to the gateway, or leaves it to the next handler", async () => {
  await using gateway = await createGateway({
    variables: VARIABLES,
    ofrep: true,
  });
  const handler = toNodeHandler(gateway);
  const echo: NodeHandler = (request, response) =>
    handler(request, response, () => {
      const rest = request as http.IncomingMessage;
      rest.pipe(response as http.ServerResponse);
    });
  await serve(echo, async (url) => {
    const init = { method: "POST", body: `{"context":{}}` };
    const own = await fetch(`${url}/ofrep/v1/evaluate/flags`, init);
    assertEquals([own.status, (await own.json()).flags.length], [200, 1]);
    const other = await fetch(`${url}/echo`, init);
    assertEquals(await other.text(), init.body);
  });
});

Deno.test("toNodeHandler() receives a body that nobody uses, and answers the next request on its connection", async () => {
  await using gateway = await createGateway({
    variables: VARIABLES,
    ofrep: true,
  });
  await serve(toNodeHandler(gateway), async (url) => {
    const bodies = ["x".repeat(1 << 20), `{"context":{}}`];
    const requests = bodies.map((body) =>
      "POST /ofrep/v1/evaluate/flags HTTP/1.1\r\nHost: a\r\n" +
      `Content-Length: ${body.length}\r\n\r\n${body}`
    );
    const port = Number(new URL(url).port);
    using connection = await Deno.connect({ port });
    const sent = new Blob(requests).stream()
      .pipeTo(connection.writable, { preventClose: true });
    let text = "";
    for await (
      const part of connection.readable.pipeThrough(new TextDecoderStream())
    ) {
      text += part;
      if (text.split(`"STATIC"`).length > 2) break;
    }
    await sent;
    const statuses = [...text.matchAll(/HTTP\/1.1 (\d+)/g)].map((it) => it[1]);
    assertEquals(statuses, ["200", "200"]);
  });
});

Deno.test("toNodeHandler() streams changes, and ends the stream of a client that disconnects", async () => {
  const variables = { ...VARIABLES };
  await using gateway = await createGateway({
    variables: () => variables,
    hotReload: true,
  });
  const openStreams = async () => {
    const metrics = await gateway.fetchHealth(
      new Request("http://localhost/metrics"),
    );
    return /^rep_streams_open (\d)/m.exec(await metrics.text())?.[1];
  };
  await serve(toNodeHandler(gateway), async (url) => {
    const abort = new AbortController();
    const stream = await fetch(`${url}/rep/changes`, { signal: abort.signal });
    assertEquals(stream.headers.get("content-type"), "text/event-stream");
    const reader = stream.body!.pipeThrough(new TextDecoderStream())
      .getReader();
    await reader.read(); // the opening bytes
    variables.REP_PUBLIC_A = "changed";
    await gateway.reload();
    let text = "";
    while (!text.includes("changed")) text += (await reader.read()).value;
    assertEquals(await openStreams(), "1");
    abort.abort();
    while (await openStreams() !== "0") {
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    await reader.cancel().catch(() => {});
  });
});

/** A response that takes whatever is written. */
const SINK: NodeResponse = {
  writeHead() {},
  write: () => true,
  end() {},
  on() {},
  off() {},
};

Deno.test("toNodeHandler() ends the streams of a server that has been closed, and nothing else", async () => {
  const clock = new FakeClock();
  const ended: string[] = [];
  const server = { listening: true };
  for (const type of ["text/event-stream", "text/javascript"]) {
    const body = new ReadableStream({ cancel: () => void ended.push(type) });
    const response = new Response(body, { headers: { "content-type": type } });
    const gateway = { handle: () => Promise.resolve(response) };
    const request = { headers: {}, socket: { server } };
    toNodeHandler(gateway, { clock })(request, SINK);
  }
  await clock.tick(1_000);
  assertEquals(ended, []);
  server.listening = false;
  await clock.tick(1_000);
  assertEquals([ended, clock.waiting], [["text/event-stream"], 0]);
});

Deno.test("toNodeHandler() ends the stream of a client that has disconnected before it began", async () => {
  const answer = Promise.withResolvers<Response>();
  const cancelled = Promise.withResolvers<void>();
  const closing = new EventTarget();
  const on: NodeResponse["on"] = (event, listener) =>
    closing.addEventListener(event, listener);
  const request = { url: "/rep/changes", headers: {}, socket: {} };
  const handler = toNodeHandler({ handle: () => answer.promise });
  handler(request, { ...SINK, write: () => false, on });
  closing.dispatchEvent(new Event("close"));
  answer.resolve(
    new Response(new ReadableStream({ cancel: () => cancelled.resolve() })),
  );
  await cancelled.promise;
});

/** Calls a handler with a request that no client can send, and returns the status of its response. */
async function statusOf(
  handler: NodeHandler,
  request: Partial<NodeRequest>,
) {
  const { promise, resolve } = Promise.withResolvers<number>();
  const response: NodeResponse = { ...SINK, writeHead: resolve };
  handler({ headers: {}, socket: {}, ...request }, response);
  return await promise;
}

/** Requests that no client can send, and the status. */
const REQUESTS: [
  what: string,
  request: Partial<NodeRequest>,
  status: number,
][] = [
  ["an invalid host", { headers: { host: "a b<>" } }, 400],
  ["a method that Request does not accept", { method: "TRACE" }, 400],
  ["the path that a framework has received, not the rest of it", {
    url: "/health",
    originalUrl: "/rep/health",
  }, 200],
];

for (const [what, request, status] of REQUESTS) {
  Deno.test(`toNodeHandler() answers ${status} to ${what}`, async () => {
    await using gateway = await createGateway({ variables: VARIABLES });
    const handler = toNodeHandler(gateway);
    const answer = await statusOf(handler, { url: "/rep/health", ...request });
    assertEquals(answer, status);
  });
}

Deno.test("toNodeHandler() answers 500 if the gateway fails, or hands the error on", async () => {
  const failing = { handle: () => Promise.reject(new Error("broken")) };
  assertEquals(
    await statusOf(toNodeHandler(failing), { url: "/rep/health" }),
    500,
  );
  const request = { url: "/", headers: {}, socket: {} };
  const error = await new Promise((resolve) =>
    toNodeHandler(failing)(request, SINK, resolve)
  );
  assertEquals(String(error), "Error: broken");
});

Deno.test("toNodeHandler() cuts a body that fails after its head was sent", async () => {
  const headArrived = Promise.withResolvers<void>();
  const body = ReadableStream.from(async function* () {
    yield new TextEncoder().encode("a");
    await headArrived.promise;
    throw new Error("broken");
  }());
  const gateway = { handle: () => Promise.resolve(new Response(body)) };
  await serve(toNodeHandler(gateway), async (url) => {
    const response = await fetch(url);
    headArrived.resolve();
    await assertRejects(() => response.text());
  });
});

Deno.test("toNodeHandler() serves HTTP/2", async () => {
  await using gateway = await createGateway({
    variables: VARIABLES,
    allowedHosts: ["app.example.com"],
  });
  const handler = toNodeHandler(gateway);
  const server = http2.createServer((request, response) =>
    handler(request, response as NodeResponse)
  );
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const session = http2.connect(
    `http://127.0.0.1:${(server.address() as { port: number }).port}`,
  );
  for (
    const [authority, status] of [["app.example.com", 404], [
      "other.example.com",
      421,
    ]] as const
  ) {
    const request = session.request({
      ":path": "/rep/changes",
      ":authority": authority,
    });
    const [headers] = await once(request, "response");
    assertEquals(headers[":status"], status);
    request.resume();
    await once(request, "end");
  }
  session.close();
  await new Promise((resolve) => server.close(resolve));
});
