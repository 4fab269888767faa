import { assert, assertEquals, assertNotEquals } from "@std/assert";
import { Transfers } from "../../src/core/http/transfers.ts";
import { createOfrepEndpoints } from "../../src/addons/ofrep.ts";
import { EMPTY_SNAPSHOT } from "../../src/core/config/variables/snapshot.ts";
import { silentLog } from "../../src/core/observe/log.ts";
import type { GatewayOptions } from "../../src/options.ts";
import { writeVariables } from "../../src/stored/write_variables.ts";
import { memoryStore } from "../../src/engines/memory.ts";
import { FakeClock, settle } from "../../tools/fake_clock.ts";
import { connectRaw } from "../content/proxy/_servers.ts";
import { setUp, type TestGateway } from "../_gateway.ts";
import { serveLocally } from "../_serve.ts";
import { readSse } from "../_sse.ts";
import { countedStore, fallibleStore, remoteStore } from "../_store.ts";
import { TempDirectory } from "../_temp.ts";

const FLAGS = "/ofrep/v1/evaluate/flags";
const CONTEXT = JSON.stringify({ context: { targetingKey: "user-1" } });

const MANIFEST = `version: 0.1.0
variables:
  API_URL: { tier: public, type: url }
  COUNT: { tier: public, type: number }
  EMPTY: { tier: public, type: string }
  LEVEL: { tier: public, type: enum, values: [low, high] }
  LIMITS: { tier: public, type: json }
  LIST: { tier: public, type: json }
  NAMES: { tier: public, type: csv }
  OFF: { tier: public, type: boolean }
  ON: { tier: public, type: boolean }
`;

const VARIABLES = {
  REP_PUBLIC_API_URL: "https://api.example.com",
  REP_PUBLIC_COUNT: "1.50",
  REP_PUBLIC_EMPTY: "",
  REP_PUBLIC_LEVEL: "low",
  REP_PUBLIC_LIMITS: '{"max":{"pages":[1,2]},"__proto__":1}',
  REP_PUBLIC_LIST: "[1, 2]",
  REP_PUBLIC_NAMES: "a,b",
  REP_PUBLIC_OFF: "false",
  REP_PUBLIC_ON: "true",
};

/** Their values, in the types of the manifest. */
const VALUES = {
  API_URL: "https://api.example.com",
  COUNT: 1.5,
  EMPTY: "",
  LEVEL: "low",
  LIMITS: JSON.parse(VARIABLES.REP_PUBLIC_LIMITS),
  LIST: "[1, 2]",
  NAMES: "a,b",
  OFF: false,
  ON: true,
};

function serve(
  variables: Record<string, string>,
  options: GatewayOptions = {},
) {
  return setUp(variables, { ofrep: true, ...options });
}

/** Asks for all flags, or with another path for what it says. */
function evaluate(
  gate: TestGateway,
  { path = FLAGS, body = CONTEXT, headers = {} }: {
    path?: string;
    body?: BodyInit;
    headers?: HeadersInit;
  } = {},
): Promise<Response> {
  return gate.ask(path, { method: "POST", body, headers });
}

async function valuesOf(response: Response): Promise<Record<string, unknown>> {
  const { flags } = await response.json() as {
    flags: { key: string; value: unknown }[];
  };
  return Object.fromEntries(flags.map(({ key, value }) => [key, value]));
}

async function etagOf(response: Promise<Response>) {
  const { headers, body } = await response;
  await body?.cancel();
  return headers.get("etag") ?? "none";
}

Deno.test("all flags are the PUBLIC variables in the types of the manifest, and nothing else", async () => {
  const others = { REP_SENSITIVE_KEY: "s3cret", REP_SERVER_DB: "s3cret" };
  await using gate = await serve({ ...VARIABLES, ...others }, {
    manifest: MANIFEST,
    hotReload: false,
  });
  const response = await evaluate(gate);
  assertEquals(response.headers.get("content-type"), "application/json");
  assertEquals(await response.json(), {
    flags: Object.entries(VALUES).map(([key, value]) => ({
      key,
      value,
      reason: "STATIC",
    })),
  });
});

Deno.test("without a manifest, every flag is a string", async () => {
  await using gate = await serve({ REP_PUBLIC_ON: "true", REP_PUBLIC_N: "1" });
  assertEquals(await valuesOf(await evaluate(gate)), { N: "1", ON: "true" });
});

Deno.test("a value that another deployment has published stays text if this manifest gives it another type", async () => {
  const endpoints = createOfrepEndpoints({
    pageValues: () => ({
      values: {
        public: new Map(Object.entries({ COUNT: "many", OFF: "no", L: "{" })),
        sensitive: new Map(),
      },
      cursor: 0,
    }),
    configuration: withTypes((name) =>
      ({ COUNT: "number", OFF: "boolean", L: "json" })[name]
    ),
    changes: undefined,
    basePath: "",
    transfers: createTransfers(),
  }, []);
  const response = await endpoints[FLAGS]!.handler(requestFor(FLAGS), CLIENT);
  assertEquals(await valuesOf(response), { COUNT: "many", L: "{", OFF: "no" });
});

/** A configuration whose manifest gives variables these types. */
function withTypes(typeOf: (name: string) => string | undefined) {
  const describe = (name: string) => ({
    source: "",
    type: typeOf(name) ?? "string",
  });
  const snapshot = { ...EMPTY_SNAPSHOT, describe };
  return { snapshot, changedAt: 0, rejection: undefined, digests: {} };
}

function createTransfers(): Transfers {
  const clock = new FakeClock();
  return new Transfers({ clock, log: silentLog, maxTransfers: 10 });
}

/** A client, for a handler that is called without a gateway. */
const CLIENT = {
  url: { origin: "http://gateway.test", path: FLAGS, search: "" },
  client: {
    address: "127.0.0.1",
    clientKey: "127.0.0.1",
    origin: "http://gateway.test",
  },
};

function requestFor(path: string, headers: HeadersInit = {}) {
  const init = { method: "POST", body: CONTEXT, headers };
  return new Request(`http://gateway.test${path}`, init);
}

Deno.test("the flags are built once for the values of a snapshot, and compressed once", async () => {
  let typed = 0;
  let values = {
    public: new Map([["TEXT", "a".repeat(10_000)]]),
    sensitive: new Map(),
  };
  const endpoints = createOfrepEndpoints({
    pageValues: () => ({ values, cursor: 0 }),
    configuration: withTypes(() => void typed++),
    changes: undefined,
    basePath: "",
    transfers: createTransfers(),
  }, []);
  const ask = async () => {
    const request = requestFor(FLAGS, { "accept-encoding": "br" });
    return await endpoints[FLAGS]!.handler(request, CLIENT);
  };
  const plain = await ask();
  assertEquals(plain.headers.get("content-encoding"), null);
  let compressed = await ask();
  while (compressed.headers.get("content-encoding") === null) {
    await settle(); // it is compressed in the background
    assertEquals(typed, 1);
    compressed = await ask();
  }
  const bytes = await compressed.bytes();
  assert(bytes.length < 1_000);
  assertEquals(typed, 1);
  assertEquals(compressed.headers.get("etag"), plain.headers.get("etag"));
  assertEquals(compressed.headers.get("vary"), "Accept-Encoding, Origin");
  values = { ...values, public: new Map([["TEXT", "b"]]) };
  assertEquals(await valuesOf(await ask()), { TEXT: "b" });
  assertEquals(typed, 2);
});

Deno.test("with If-None-Match and the ETag, which does not depend on the replica or the cursor, all flags are 304", async () => {
  const [a, b] = ["REP_PUBLIC_A", "REP_PUBLIC_B"];
  await using first = await serve({ [a]: "1", [b]: "1" });
  await using second = await serve({ [b]: "1", [a]: "2" });
  await second.set({ [b]: "1", [a]: "1" });
  const etag = await etagOf(evaluate(first));
  assertEquals(await etagOf(evaluate(second)), etag);
  for (const gate of [first, second]) {
    const headers = { "if-none-match": `"other", ${etag}` };
    const response = await evaluate(gate, { headers });
    assertEquals([response.status, await response.text()], [304, ""]);
    assertEquals(response.headers.get("etag"), etag);
  }
  await first.set({ [a]: "2", [b]: "1" });
  const headers = { "if-none-match": etag };
  const response = await evaluate(first, { headers });
  assertEquals(response.status, 200);
  assertEquals(await valuesOf(response), { A: "2", B: "1" });
});

Deno.test("preconditions other than If-None-Match are ignored", async () => {
  await using gate = await serve({ REP_PUBLIC_A: "1" });
  const headers = { "if-match": '"other"', "range": "bytes=0-1" };
  const response = await evaluate(gate, { headers });
  assertEquals(response.status, 200);
  assertEquals(await valuesOf(response), { A: "1" });
});

Deno.test("the ETag is another one if only a type has changed, or whether there is a stream", async () => {
  const variables = { REP_PUBLIC_N: "1" };
  const manifest = (type: string) =>
    `version: 0.1.0\nvariables:\n  N: { tier: public, type: ${type} }\n`;
  const etags = new Set<string>();
  for (const type of ["string", "number"]) {
    for (const hotReload of [true, false]) {
      const options = { manifest: manifest(type), hotReload };
      await using gate = await serve(variables, options);
      etags.add(await etagOf(evaluate(gate)));
    }
  }
  assertEquals(etags.size, 4);
});

Deno.test("a single flag is evaluated by its name, and FLAG_NOT_FOUND if no PUBLIC variable has it", async () => {
  const others = { REP_SENSITIVE_KEY: "s3cret", REP_SERVER_DB: "s3cret" };
  const spaced = { "REP_PUBLIC_A B/ü": "x" };
  await using gate = await serve({ ...VARIABLES, ...spaced, ...others }, {
    manifest: MANIFEST,
  });
  const ask = async (key: string) => {
    const response = await evaluate(gate, { path: `${FLAGS}/${key}` });
    return [response.status, await response.json()];
  };
  const found = (key: string, value: unknown) => [200, {
    key,
    value,
    reason: "STATIC",
  }];
  const missing = (key: string) => [404, {
    key,
    errorCode: "FLAG_NOT_FOUND",
    errorDetails: "Cannot find a PUBLIC variable of this name",
  }];
  for (const [key, value] of Object.entries(VALUES)) {
    assertEquals(await ask(key), found(key, value));
  }
  assertEquals(
    await ask(encodeURIComponent("A B/ü")),
    found("A B/ü", "x"),
  );
  for (const key of ["KEY", "DB", "NONE", "__proto__", "on"]) {
    assertEquals(await ask(key), missing(key));
  }
  assertEquals(await ask("%ff"), missing("%ff"));
  assertEquals(await ask(""), missing(""));
});

Deno.test("the context is not used, so that no body is rejected", async () => {
  await using gate = await serve({ REP_PUBLIC_A: "1" });
  const bodies = [`{"context":{}}`, "{", "", "null", "x".repeat(1 << 20)];
  for (const body of bodies) {
    assertEquals(await valuesOf(await evaluate(gate, { body })), { A: "1" });
    const one = await evaluate(gate, { path: `${FLAGS}/A`, body });
    assertEquals((await one.json()).value, "1");
  }
});

Deno.test("a request is answered at once, and its body discarded, which may never end", async () => {
  await using gate = await serve({ REP_PUBLIC_A: "1" });
  for (const path of [FLAGS, `${FLAGS}/A`, `${FLAGS}/B`]) {
    let isCancelled = false;
    const body = new ReadableStream({
      start: (controller) => controller.enqueue(new TextEncoder().encode("{")),
      cancel: () => void (isCancelled = true),
    });
    await (await evaluate(gate, { path, body })).body?.cancel();
    assert(isCancelled, path);
  }
});

Deno.test("any number of bodies that do not end are answered, also over real connections", async () => {
  await using gate = await serve({ REP_PUBLIC_A: "1" }, { maxTransfers: 1 });
  await using server = serveLocally(gate.gateway.fetch);
  const head = `POST ${FLAGS} HTTP/1.1\r\nHost: a\r\n`;
  for (const framing of ["Content-Length: 99", "Transfer-Encoding: chunked"]) {
    for (const begun of ["", "1\r\n{\r\n"]) {
      const text = `${head}${framing}\r\n\r\n${begun}`;
      using connection = await connectRaw(server.port, text);
      assertEquals(await connection.readStatus(), 200);
    }
  }
});

Deno.test("a connection can be used again, whatever its request had for a body", async () => {
  await using gate = await serve({ REP_PUBLIC_A: "1" });
  await using server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {} },
    gate.gateway.fetch,
  );
  using connection = await Deno.connect({ port: server.addr.port });
  const bodies = [CONTEXT, "x".repeat(70_000), "{", CONTEXT];
  const request = bodies.map((body) =>
    `POST ${FLAGS}/A HTTP/1.1\r\nHost: a\r\nContent-Length: ${body.length}\r\n\r\n${body}`
  );
  const bytes = new TextEncoder().encode(request.join(""));
  const written = new Blob([bytes]).stream().pipeTo(connection.writable, {
    preventClose: true,
  });
  const decoder = new TextDecoder();
  let text = "";
  for await (const chunk of connection.readable) {
    text += decoder.decode(chunk);
    if (text.split(`"STATIC"`).length > 4) break;
  }
  await written;
  const statuses = [...text.matchAll(/HTTP\/1.1 (\d+)/g)].map((it) => it[1]);
  assertEquals(statuses, ["200", "200", "200", "200"]);
});

Deno.test("scripts of allowed origins may send what the SDKs send, and read the ETag", async () => {
  const app = "https://app.example.com";
  await using gate = await serve({ REP_PUBLIC_A: "1" }, {
    allowedOrigins: [app],
  });
  const corsOf = (response: Response) =>
    Object.fromEntries(
      [...response.headers].filter(([name]) =>
        name.startsWith("access-control-") || name === "vary"
      ),
    );
  for (const path of [FLAGS, `${FLAGS}/A`, `${FLAGS}/NONE`]) {
    for (const origin of [app, "https://elsewhere.example"]) {
      const allowed = origin === app
        ? {
          "access-control-allow-credentials": "true",
          "access-control-allow-origin": app,
        }
        : {};
      const headers = {
        origin,
        "access-control-request-headers": "content-type,traceparent",
      };
      const answer = await evaluate(gate, { path, headers });
      await answer.body?.cancel();
      assertEquals(corsOf(answer), {
        ...allowed,
        "access-control-expose-headers": "etag, retry-after",
        vary: "Origin",
      });
      const preflight = await gate.ask(path, { method: "OPTIONS", headers });
      assertEquals(preflight.status, 204);
      const permitted = {
        ...allowed,
        "access-control-allow-methods": "POST",
        "access-control-allow-headers": "content-type,traceparent",
        "access-control-max-age": "600",
      };
      assertEquals(corsOf(preflight), {
        ...(origin === app ? permitted : {}),
        vary: "Origin, Access-Control-Request-Headers",
      });
    }
  }
});

Deno.test("other methods get 405, and other paths under /ofrep/ 404", async () => {
  await using gate = await serve({ REP_PUBLIC_A: "1" });
  for (const path of [FLAGS, `${FLAGS}/A`]) {
    for (const method of ["GET", "HEAD", "PUT"]) {
      const response = await gate.ask(path, { method });
      await response.body?.cancel();
      assertEquals(
        [response.status, response.headers.get("allow")],
        [405, "POST, OPTIONS"],
      );
    }
  }
  for (const path of ["/ofrep/", "/ofrep/v1/configuration"]) {
    const response = await evaluate(gate, { path });
    assertEquals([response.status, (await response.json()).title], [
      404,
      "Not Found",
    ]);
  }
});

Deno.test("/ofrep/ is the gateway's own with the option, and the app's without it", async () => {
  await using site = await TempDirectory.make({
    "index.html": "<head></head>",
  });
  for (const ofrep of [true, false]) {
    await using gate = await setUp({ REP_PUBLIC_A: "1" }, {
      ofrep,
      staticDir: site.path,
    });
    const page = await gate.ask("/ofrep/page");
    await page.body?.cancel();
    assertEquals(page.status, ofrep ? 404 : 200);
    const handled = await gate.gateway.handle(requestFor(FLAGS));
    await handled?.body?.cancel();
    assertEquals(handled?.status, ofrep ? 200 : undefined);
  }
});

/** The stream that the flags name. */
async function streamOf(
  response: Response,
) {
  const { eventStreams: [stream, ...others] } = await response.json();
  const { type, endpoint: { requestUri, ...rest }, inactivityDelaySec } =
    stream;
  assertEquals({ type, rest, others }, { type: "sse", rest: {}, others: [] });
  return { path: requestUri, inactivityDelaySec };
}

Deno.test("the flags name their stream, without an origin, below the base path", async () => {
  await using gate = await serve({ REP_PUBLIC_A: "1" }, { basePath: "/app" });
  const { path, inactivityDelaySec } = await streamOf(
    await evaluate(gate, { path: `/app${FLAGS}` }),
  );
  assertEquals(inactivityDelaySec, 10);
  const url = new URL(path, "http://gateway.test");
  assertEquals(
    [url.pathname, [...url.searchParams.keys()]],
    ["/app/rep/changes", ["last_event_id", "state", "format"]],
  );
});

Deno.test("the stream has one message for all changes since the flags, then one for each publication", async () => {
  const variables = { REP_PUBLIC_A: "1", REP_PUBLIC_B: "1" };
  await using gate = await serve(variables);
  const { path } = await streamOf(await evaluate(gate));
  await gate.set({ REP_PUBLIC_A: "2", REP_PUBLIC_B: "2" });
  await gate.set({ REP_PUBLIC_A: "3" });
  const stream = readSse(await gate.ask(path));
  const [missed] = await stream.take(1);
  await gate.set({ REP_PUBLIC_A: "4", REP_PUBLIC_B: "4", REP_PUBLIC_C: "4" });
  const [changed] = await stream.take(1);
  await gate.set({ REP_PUBLIC_A: "4" });
  const [removed] = await stream.take(1);
  assertEquals(stream.arrived(), []);
  await stream.close();
  const ids = gate.logged("rep.config.changed")
    .map(({ id }) => Number(id));
  assertEquals(
    [missed, changed, removed].map((message) => ({ ...message })),
    [missed!.id, changed!.id, removed!.id].map((id) => ({
      event: "message",
      data: { type: "refetchEvaluation", etag: String(id) } as never,
      id,
    })),
  );
  assertEquals(ids.includes(missed!.id), true);
  assertEquals(removed!.id, ids.at(-1));
  const headers = { "last-event-id": String(changed!.id) };
  const resumed = readSse(await gate.ask(path, { headers }));
  assertEquals(await resumed.take(1), [removed]);
  await resumed.close();
});

/** Two replicas on a store, of which the second one has not read what the first one has just published. */
async function lateReplica(isDown = () => false) {
  const store = memoryStore();
  const clock = new FakeClock();
  const options = { clock };
  const first = await serve({ REP_PUBLIC_A: "1" }, {
    ...options,
    store: remoteStore(store),
  });
  const late = await serve({ REP_PUBLIC_A: "1" }, {
    ...options,
    store: fallibleStore(store, isDown),
  });
  const before = await etagOf(evaluate(late));
  const { path } = await streamOf(await evaluate(first));
  const stream = readSse(await first.ask(path));
  await first.set({ REP_PUBLIC_A: "2" });
  const [message] = await stream.take(1);
  await stream.close();
  return {
    clock,
    first,
    late,
    /** The `ETag` before the change. */
    before,
    /** What the stream says has changed. */
    etag: (message?.data as unknown as { etag: string }).etag,
    async [Symbol.asyncDispose]() {
      await first.gateway.close();
      await late.gateway.close();
    },
  };
}

Deno.test("who asks again after an event gets the change, also from a replica that has not read it", async () => {
  await using replicas = await lateReplica();
  const { late, before, etag } = replicas;
  const headers = { "if-none-match": before };
  const stale = await evaluate(late, { headers });
  assertEquals(stale.status, 304); // or else the next lines would show nothing
  const path = `${FLAGS}?flagConfigEtag=${etag}`;
  const response = await evaluate(late, { path, headers });
  assertEquals(response.status, 200);
  assertEquals(await valuesOf(response), { A: "2" });
});

Deno.test("who has newer flags gets them again from a replica that has not read them", async () => {
  await using replicas = await lateReplica();
  const { first, late } = replicas;
  const headers = { "if-none-match": await etagOf(evaluate(first)) };
  assertEquals((await evaluate(late, { headers })).status, 304);
});

Deno.test("who asks after an event that cannot be read, since the store is down, gets 503 instead of older flags", async () => {
  let isDown = false;
  await using replicas = await lateReplica(() => isDown);
  const { clock, late, before, etag } = replicas;
  isDown = true;
  const path = `${FLAGS}?flagConfigEtag=${etag}`;
  const headers = { "if-none-match": before };
  const response = await evaluate(late, { path, headers });
  assertEquals(response.status, 503);
  assertEquals(await response.json(), {
    errorCode: "GENERAL",
    errorDetails: "The store is unavailable; try again later",
  });
  const without = evaluate(late, { headers: { "if-none-match": "a" } });
  await clock.tick(50);
  assertEquals(await valuesOf(await without), { A: "1" });
});

Deno.test("a client whose flags never match causes at most one read of the store in 50 ms", async () => {
  const clock = new FakeClock();
  const store = countedStore(memoryStore());
  await using gate = await serve({ REP_PUBLIC_A: "1" }, { clock, store });
  const headers = { "if-none-match": '"never"' };
  await evaluate(gate, { headers });
  store.reset();
  const asked = Array.from({ length: 100 }, () => evaluate(gate, { headers }));
  await clock.tick(0); // their bodies are read
  await clock.tick(50);
  const statuses = (await Promise.all(asked)).map(({ status }) => status);
  assertEquals(new Set(statuses), new Set([200]));
  assertEquals(store.counts.list, 1);
});

Deno.test("an event of another log, or none, is ignored", async () => {
  await using gate = await serve({ REP_PUBLIC_A: "1" });
  for (const etag of ["9999999999999999", "1", "x", "99999999999999999999"]) {
    const path = `${FLAGS}?flagConfigEtag=${etag}`;
    assertEquals(await valuesOf(await evaluate(gate, { path })), { A: "1" });
  }
  assertNotEquals(await etagOf(evaluate(gate)), "none");
});

Deno.test("a replica that cannot write has the flags that others publish, and none of its own", async () => {
  const store = memoryStore();
  const clock = new FakeClock();
  let isReadOnly = false;
  const operations = ["commit"] as const;
  const first = await serve({ REP_PUBLIC_A: "1" }, {
    clock,
    store: remoteStore(store),
  });
  const late = await serve({ REP_PUBLIC_A: "1" }, {
    clock,
    store: fallibleStore(store, () => isReadOnly, { operations }),
  });
  isReadOnly = true;
  const options = { clock, random: () => 0, ifId: undefined };
  await writeVariables(store, new Map([["A", "2"]]), options);
  await late.gateway.reload();
  await first.gateway.reload();
  assertEquals(late.gateway.get("A"), "2");
  const { path } = await streamOf(await evaluate(first));
  const stream = readSse(await first.ask(path));
  await writeVariables(store, new Map([["A", "3"]]), options);
  await first.gateway.reload();
  const [message] = await stream.take(1);
  await stream.close();
  const { etag } = message?.data as unknown as { etag: string };
  const response = await evaluate(late, {
    path: `${FLAGS}?flagConfigEtag=${etag}`,
  });
  assertEquals(await valuesOf(response), { A: "3" });
  await first.gateway.close();
  await late.gateway.close();
});
