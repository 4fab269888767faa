import { assertEquals, fail } from "@std/assert";
import {
  createRoute,
  notFound,
  type Route,
} from "../../../src/core/http/routes.ts";
import { createResponder } from "../../../src/core/http/respond.ts";
import { type Log, silentLog } from "../../../src/core/observe/log.ts";
import { type Metrics, noMetrics } from "../../../src/core/observe/metrics.ts";
import { noTelemetry } from "../../../src/core/observe/telemetry.ts";
import { type Clock, systemClock } from "../../../src/core/values/clock.ts";
import { FakeClock } from "../../../tools/fake_clock.ts";
import { captureLog } from "../../_gateway.ts";
import { connectRaw } from "../../content/proxy/_servers.ts";

function responder(
  options: {
    log?: Log;
    clock?: Clock;
    metrics?: Metrics;
    accessLog?: boolean;
  } = {},
) {
  const {
    log = silentLog,
    clock = systemClock,
    metrics = noMetrics,
    accessLog = false,
  } = options;
  return createResponder({
    scheme: undefined,
    isTrusted: () => false,
    isAllowedHost: undefined,
    warnOfProxy: undefined,
    accessLog,
    telemetry: noTelemetry,
    metrics,
    clock,
    log,
  });
}

Deno.test("every response leaves createResponder() through one place: what it records there, it records once for each", async () => {
  const recorded: string[] = [];
  const metrics: Metrics = {
    ...noMetrics,
    record: (_name, _value, label = "") => void recorded.push(label),
  };
  const respond = responder({ metrics });
  const fails = () => {
    throw new Error("a bug");
  };
  const atOnce = {
    handler: fails,
    isForAnyHost: true,
    respondAtOnce: () => new Response("at once"),
  };
  const routes: Record<string, Route> = {
    ok: createRoute({ handler: () => new Response("ok") }, "/ok"),
    error: createRoute({ handler: fails }, "/error"),
    absent: createRoute({ handler: notFound }, "/absent"),
    post: createRoute({ handler: fails, methods: ["POST"] }, "/post"),
    atOnce: createRoute(atOnce, "/at-once"),
    fails: createRoute({ ...atOnce, respondAtOnce: fails }, "/at-once-fails"),
  };
  for (const route of Object.values(routes)) {
    const request = new Request(`http://gateway.test${route.pattern}`);
    const response = await respond(request, undefined, () => route);
    await response.body?.cancel();
  }
  assertEquals(recorded, [
    "/ok GET 200",
    "/error GET 500",
    "/absent GET 404",
    "/post GET 405",
    "/at-once GET 200",
    "/at-once-fails GET 500",
  ]);
});

Deno.test("createResponder() turns whatever a handler throws into a response", async () => {
  const respond = responder();
  const answer = (handler: Route["handler"]) =>
    respond(
      new Request("http://gateway.test/"),
      undefined,
      () => createRoute({ handler }, "/*"),
    );
  const responses = [
    await answer(() => new Response()),
    await answer(() => {
      throw new Error("a bug");
    }),
    await answer(() => Promise.reject(new Error("a bug"))),
    await answer(notFound),
  ];
  assertEquals(responses.map(({ status }) => status), [200, 500, 500, 404]);
  await Promise.all(responses.map(({ body }) => body?.cancel()));
});

Deno.test("createResponder() calls a handler with the methods of its endpoint only, and the 405 has the headers of the endpoint", async () => {
  const route = createRoute({
    handler: () => new Response(),
    methods: ["GET", "OPTIONS"],
    headersOf405: () => new Headers({ vary: "Origin" }),
  }, "/*");
  const ask = (method: string) =>
    responder()(
      new Request("http://gateway.test/", { method }),
      undefined,
      () => route,
    );
  assertEquals((await ask("OPTIONS")).status, 200);
  const { status, headers, body } = await ask("PUT");
  assertEquals([status, headers.get("allow"), headers.get("vary")], [
    405,
    "GET, OPTIONS",
    "Origin",
  ]);
  await body?.cancel();
});

Deno.test("createResponder() logs a lack of file descriptors once a minute, and asks clients to come back", async () => {
  const { log, lines } = captureLog();
  const clock = new FakeClock();
  const respond = responder({ log, clock });
  const messages = [
    "EMFILE: too many open files, open 'a.js'",
    "Too many open files (os error 24)",
    "ENFILE: x",
  ];
  for (const message of messages) {
    const handler = () => Promise.reject(new Error(message));
    const response = await respond(
      new Request("http://gateway.test/"),
      undefined,
      () => createRoute({ handler }, "/*"),
    );
    assertEquals([response.status, response.headers.get("retry-after")], [
      503,
      "1",
    ]);
    await response.body?.cancel();
  }
  await clock.tick(60_000);
  assertEquals(
    lines.map((
      { level, msg, detail, requests },
    ) => [level, msg, detail, requests]),
    [
      ["WARN", "rep.descriptors.exhausted", messages[0], undefined],
      ["WARN", "rep.descriptors.exhausted", undefined, 2],
    ],
  );
});

Deno.test("createResponder() tells a handler the client and the URL", async () => {
  const info = {
    remoteAddr: { transport: "tcp", hostname: "192.0.2.1", port: 1 },
  } as const;
  const handler: Route["handler"] = (_request, context) =>
    Response.json([
      context.client.address,
      context.client.origin,
      context.url.search,
    ]);
  const request = new Request("http://gateway.test:8080/a?b=c");
  const response = await responder()(
    request,
    info,
    () => createRoute({ handler }, "/*"),
  );
  assertEquals(await response.json(), [
    "192.0.2.1",
    "http://gateway.test:8080",
    "?b=c",
  ]);
});

Deno.test("createResponder() responds at once to a GET that an endpoint for any host has an answer for, unless requests are logged", async () => {
  const endpoint = {
    handler: () => new Response("later"),
    respondAtOnce: () => new Response("at once", { status: 503 }),
  };
  const recorded: unknown[] = [];
  const metrics: Metrics = {
    ...noMetrics,
    record: (_name, _seconds, label) => void recorded.push(label),
  };
  const ask = (
    method: string,
    accessLog: boolean,
    isForAnyHost = true,
    search = "",
  ) => {
    const respond = responder({ metrics, accessLog });
    const route = createRoute({ ...endpoint, isForAnyHost }, "/probe");
    const url = `http://gateway.test/probe${search}`;
    const request = new Request(url, { method });
    return respond(request, undefined, () => route);
  };
  const atOnce = ask("GET", false);
  assertEquals(atOnce instanceof Response, true);
  assertEquals(await (await atOnce).text(), "at once");
  assertEquals(await (await ask("POST", false)).text(), "later");
  assertEquals(await (await ask("GET", true)).text(), "later");
  assertEquals(await (await ask("GET", false, false)).text(), "later");
  assertEquals(await (await ask("GET", false, true, "?a")).text(), "later");
  assertEquals(recorded, [
    "/probe GET 503",
    "/probe POST 200",
    "/probe GET 200",
    "/probe GET 200",
    "/probe GET 200",
  ]);
});

Deno.test("createResponder() looks at no header of a request that is answered at once", () => {
  const route = createRoute({
    handler: notFound,
    isForAnyHost: true,
    respondAtOnce: () => new Response("at once"),
  }, "/probe");
  const request = new Request("http://gateway.test/probe");
  Object.defineProperty(request, "headers", { get: () => fail() });
  const response = responder()(request, undefined, () => route);
  assertEquals((response as Response).status, 200);
});

Deno.test("the content of a CONNECT request is never read as another request", async () => {
  const methods: string[] = [];
  const route = createRoute({
    handler({ method }) {
      methods.push(method);
      return notFound();
    },
  }, "/*");
  const respond = responder();
  await using server = Deno.serve(
    { port: 0, hostname: "127.0.0.1", onListen() {} },
    (request, info) => respond(request, info, () => route),
  );
  using client = await connectRaw(server.addr.port);
  const hidden = "GET / HTTP/1.1\r\nHost: hidden.test\r\n\r\n";
  const headers = `Host: other.test:80\r\nContent-Length: ${hidden.length}`;
  await client.write(
    `CONNECT other.test:80 HTTP/1.1\r\n${headers}\r\n\r\n${hidden}`,
  );
  const head = await client.readHead();
  assertEquals(head?.split("\r\n")[0], "HTTP/1.1 404 Not Found");
  assertEquals(JSON.parse(await client.read() ?? "").status, 404);
  assertEquals(await client.read(), undefined); // closed
  assertEquals(methods, ["CONNECT"]);
});
