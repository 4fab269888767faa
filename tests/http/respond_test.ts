import { assertEquals, assertInstanceOf } from "@std/assert";
import { createGateway } from "../../src/gateway.ts";
import { RequestUrls } from "../../src/http/request_urls.ts";
import { createResponder, type Responder } from "../../src/http/respond.ts";
import { createRoute, type Route } from "../../src/http/routes.ts";
import { type Log, silentLog } from "../../src/observe/log.ts";
import {
  type Metrics,
  noMetrics,
  noTelemetry,
} from "../../src/observe/metrics.ts";
import { type Clock, systemClock } from "../../src/values/clock.ts";
import { answerOf } from "../_answer.ts";
import { FakeClock } from "../../tools/fake_clock.ts";
import { captureLog, setUp } from "../_gateway.ts";

/** Fails the test if a handler or the responder looks at the headers or the client. */
function bareRequest(path: string): Request {
  const request = new Request(`http://gateway.test${path}`);
  Object.defineProperty(request, "headers", {
    get() {
      throw new Error("the headers were read");
    },
  });
  return request;
}

const INFO = {
  get remoteAddr(): Deno.Addr {
    throw new Error("the peer was looked up");
  },
};

function responder(
  { log = silentLog, clock = systemClock, metrics = noMetrics }: {
    log?: Log;
    clock?: Clock;
    metrics?: Metrics;
  } = {},
): Responder {
  return createResponder({
    urls: new RequestUrls(),
    isTrusted: () => false,
    allowedOrigins: [],
    isAllowedHost: undefined,
    onRequest: undefined,
    accessLog: false,
    telemetry: noTelemetry,
    metrics,
    clock,
    log,
  });
}

Deno.test("GET /rep/health is answered without a promise, and without a look at the headers or the peer", async () => {
  await using gateway = await createGateway({ variables: {} });
  const response = gateway.fetch(bareRequest("/rep/health"), INFO);
  assertInstanceOf(response, Response);
  assertEquals((await (response as Response).json()).status, "healthy");
});

Deno.test("createResponder() returns a response as it is, and a promise only for a promise", async () => {
  const respond = responder();
  const route = (handler: Route["handler"]): () => Route => () =>
    createRoute({ handler }, "/*");
  const request = new Request("http://gateway.test/");
  assertInstanceOf(
    respond(request, undefined, route(() => new Response())),
    Response,
  );
  assertInstanceOf(
    respond(
      request,
      undefined,
      route(() => {
        throw new Error("a bug");
      }),
    ),
    Response,
  );
  const rejected = respond(
    request,
    undefined,
    route(() => Promise.reject(new Error("a bug"))),
  );
  assertInstanceOf(rejected, Promise);
  assertEquals((await rejected).status, 500);
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

Deno.test("a request with an invalid Host header is 400, and the answer says what was expected", async () => {
  await using test = await setUp({});
  const { status, body } = await answerOf(
    await test.ask("/", { headers: { host: "a/b" } }),
  );
  const detail =
    "Cannot read the URL of the request: expected a valid Host header";
  assertEquals([status, body], [400, {
    title: "Bad Request",
    status: 400,
    detail,
  }]);
});
