import { serveLocally } from "../../_serve.ts";
import { assertEquals, assertRejects } from "@std/assert";
import { Problem } from "../../../src/core/http/problem.ts";
import { stdFlags } from "../../../tools/std.ts";
import { FakeClock } from "../../../tools/fake_clock.ts";
import { within } from "../../_relay.ts";
import { WatchedClock } from "../../_time.ts";
import {
  connectRaw,
  createProxy,
  manualClock,
  respond,
  scriptedUpstream,
  serveProxy,
} from "./_servers.ts";
import { findFreePort } from "../../../tools/free_port.ts";

/** What is known about a request for `http://host/a`. */
const CONTEXT = {
  client: {
    address: "192.0.2.7",
    clientKey: "192.0.2.7",
    origin: "https://app.example",
  },
  url: { origin: "http://host", path: "/a", search: "" },
};

/** A raw response with a `Content-Length`. */
function ok(body: string, headers = "") {
  return `HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n${headers}\r\n${body}`;
}

/** Returns what the upstream receives, head and body, for one raw request to the proxy. */
async function receivedFor(
  raw: string,
  base = "/",
) {
  const received = Promise.withResolvers<string>();
  await using upstream = scriptedUpstream(async (connection) => {
    let text = await connection.readHead() ?? "";
    const isChunked = text.includes("chunked");
    const length = Number(/^content-length: (\d+)/im.exec(text)?.[1] ?? 0);
    const isComplete = () =>
      isChunked
        ? text.endsWith("0\r\n\r\n")
        : text.length - text.indexOf("\r\n\r\n") - 4 >= length;
    while (!isComplete()) {
      text += await connection.read() ?? "<closed>0\r\n\r\n";
    }
    received.resolve(text.replaceAll(String(upstream.port), "PORT"));
    await connection.write(ok("ok"));
    await connection.readHead();
  });
  await using gateway = serveProxy(upstream, { base });
  using client = await connectRaw(
    gateway.port,
    raw.replaceAll(/\r?\n/g, "\r\n"),
  );
  await client.readHead();
  return (await received.promise).replaceAll("\r\n", "\n");
}

/** Returns what the client receives for a raw response of the upstream, without the date that the server adds. */
async function responseTo(
  raw: string,
  request = "GET / HTTP/1.1\nHost: h\nConnection: close\n\n",
) {
  await using upstream = scriptedUpstream(async (connection) => {
    await connection.readHead();
    await connection.write(raw.replaceAll(/\r?\n/g, "\r\n"));
  });
  await using gateway = serveProxy(upstream);
  using client = await connectRaw(
    gateway.port,
    request.replaceAll("\n", "\r\n"),
  );
  let text = "";
  for (
    let part = await client.read();
    part !== undefined;
    part = await client.read()
  ) text += part;
  return text.replaceAll("\r\n", "\n").replace(/^date: .*\n/im, "");
}

/** What a client that names no content coding gets from the upstream. */
const PLAIN = "accept-encoding: identity\n";
const FORWARDED =
  "x-forwarded-for: 127.0.0.1\nx-forwarded-host: h\nx-forwarded-proto: http\n";

/** How what the upstream receives ends its first line and its head. */
const TO_UPSTREAM = `HTTP/1.1\nhost: 127.0.0.1:PORT\n${PLAIN}`;
const KEPT = "Connection: keep-alive\n";

Deno.test("ReverseProxy forwards method, path, query and end-to-end headers, with the upstream's Host", async () => {
  assertEquals(
    await receivedFor(
      "PUT /a//b%2f?q=%zz&'\"| HTTP/1.1\nHost: h\nX-One: é\nConnection: x-hop\nX-Hop: 1\nContent-Length: 3\n\nabc",
      "/base/",
    ),
    `PUT /base/a//b%2f?q=%zz&'"| ${TO_UPSTREAM}content-length: 3\n${FORWARDED}x-one: é\n${KEPT}\nabc`,
  );
});

Deno.test("ReverseProxy never lets a request choose the host", async () => {
  const forwarded = FORWARDED.replace(": h\n", ": evil:1\n");
  assertEquals(
    await receivedFor("GET http://evil:1/x HTTP/1.1\nHost: h\n\n"),
    `GET /x ${TO_UPSTREAM}${forwarded}${KEPT}\n`,
  );
  for (const path of ["//evil/x", "/@evil/x", "///evil", "/.evil", "/:80/"]) {
    assertEquals(
      await receivedFor(`GET ${path} HTTP/1.1\nHost: h\n\n`),
      `GET ${path} ${TO_UPSTREAM}${FORWARDED}${KEPT}\n`,
    );
  }
});

Deno.test("ReverseProxy joins cookies and drops headers in which the client describes itself", async () => {
  assertEquals(
    await receivedFor(
      "GET / HTTP/1.1\nHost: h\nCookie: a=1\nCookie: b=2\nX-Forwarded-For: 1.2.3.4\nForwarded: for=x\nX-Real-IP: 1.2.3.4\n\n",
    ),
    `GET / ${TO_UPSTREAM}cookie: a=1; b=2\n${FORWARDED}${KEPT}\n`,
  );
});

const CHUNKS = "3\nabc\n0\n\n";
const CHUNKED = `Transfer-Encoding: chunked\n\n${CHUNKS}`;
const WITHOUT_BODY = `${FORWARDED}${KEPT}\n`;

/** What a client sends after `Host`, and what the upstream receives after `Accept-Encoding`. */
const FRAMINGS = [
  ["DELETE", "\n", WITHOUT_BODY],
  ["OPTIONS", "\n", WITHOUT_BODY],
  ["POST", "\n", `${FORWARDED}content-length: 0\n${KEPT}\n`],
  ["POST", "Content-Length: 0\n\n", `content-length: 0\n${WITHOUT_BODY}`],
  ...["POST", "DELETE"].map((method) =>
    [
      method,
      CHUNKED,
      `${FORWARDED}transfer-encoding: chunked\n${KEPT}\n${CHUNKS}`,
    ] as const
  ),
  ["GET", "Content-Length: 3\n\nabc", WITHOUT_BODY],
  ["GET", CHUNKED, WITHOUT_BODY],
] as const;

Deno.test("ReverseProxy keeps the framing of a body: by length, in chunks, or none; it drops the body of a GET, and its length", async () => {
  for (const [method, sent, received] of FRAMINGS) {
    assertEquals(
      await receivedFor(`${method} / HTTP/1.1\nHost: h\n${sent}`),
      `${method} / ${TO_UPSTREAM}${received}`,
    );
  }
});

Deno.test("ReverseProxy forwards a body that the client sends only after 100 Continue", async () => {
  await using upstream = serveLocally(async (request) =>
    new Response(`${request.headers.get("expect")} ${await request.text()}`)
  );
  await using gateway = serveProxy(upstream);
  using client = await connectRaw(
    gateway.port,
    "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n",
  );
  assertEquals(await client.readHead(), "HTTP/1.1 100 Continue\r\n\r\n");
  await client.write("abc");
  await client.readHead();
  assertEquals(await client.read(), "null abc");
});

Deno.test("ReverseProxy returns status, headers and bytes of a compressed body unchanged", async () => {
  const body = "\x1f\x8b\x08 not even gzip \xff\x00";
  assertEquals(
    await responseTo(
      ok(
        body,
        'Content-Encoding: gzip\nETag: "a"\nSet-Cookie: a=1\nSet-Cookie: b=2; Expires=Thu, 1 Jan\nX: \xe9\nKeep-Alive: timeout=5\nConnection: X-Hop\nX-Hop: 1\n',
      ),
    ),
    `HTTP/1.1 200 OK\ncontent-encoding: gzip\netag: "a"\nset-cookie: a=1\nset-cookie: b=2; Expires=Thu, 1 Jan\n` +
      `x: \xe9\ncontent-length: ${body.length}\nconnection: close\n\n${body}`,
  );
});

/** What the upstream sends, and what the client receives before `Connection`. */
const RESPONSES = [
  ["204 No Content\nX: 1\n\n", "204 No Content\nx: 1\n"],
  ['304 Not Modified\nETag: "a"\n\n', '304 Not Modified\netag: "a"\n'],
  [
    "302 Found\nLocation: http://elsewhere/\nContent-Length: 0\n\n",
    "302 Found\nlocation: http://elsewhere/\ncontent-length: 0\n",
  ],
  [
    "103 Early Hints\nLink: <a>\n\nHTTP/1.1 204 No Content\n\n",
    "204 No Content\n",
  ],
] as const;

Deno.test("ReverseProxy returns responses without a body: 204, 304, redirects, after 1xx, to HEAD", async () => {
  const close = "connection: close\n\n";
  for (const [sent, received] of RESPONSES) {
    const response = await responseTo(`HTTP/1.1 ${sent}`);
    assertEquals(response, `HTTP/1.1 ${received}${close}`);
  }
  assertEquals(
    await responseTo(
      "HTTP/1.1 200 OK\nContent-Length: 500\n\n",
      "HEAD / HTTP/1.1\nHost: h\nConnection: close\n\n",
    ),
    `HTTP/1.1 200 OK\ncontent-length: 500\n${close}`,
  );
});

Deno.test("ReverseProxy returns the upstream's own Date", async () => {
  await using upstream = scriptedUpstream(async (connection) => {
    await connection.readHead();
    await connection.write(ok("ok", "Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n"));
  });
  await using gateway = serveProxy(upstream);
  const response = await fetch(gateway.url);
  assertEquals([await response.text(), response.headers.get("date")], [
    "ok",
    "Thu, 01 Jan 1970 00:00:00 GMT",
  ]);
});

Deno.test("ReverseProxy returns events at once, and disconnects from the upstream if the client does", async () => {
  const disconnected = Promise.withResolvers<void>();
  const events = Promise.withResolvers<
    ReadableStreamDefaultController<Uint8Array>
  >();
  const body = new ReadableStream({
    start: events.resolve,
    cancel: () => disconnected.resolve(),
  });
  await using upstream = serveLocally(() =>
    new Response(body, { headers: { "content-type": "text/event-stream" } })
  );
  await using gateway = serveProxy(upstream);
  const response = await fetch(gateway.url);
  const reader = response.body!.pipeThrough(new TextDecoderStream())
    .getReader();
  const controller = await events.promise;
  for (const event of ["data: 1\n\n", "data: 2\n\n"]) {
    controller.enqueue(new TextEncoder().encode(event));
    assertEquals(await reader.read(), { done: false, value: event });
  }
  await reader.cancel();
  await disconnected.promise;
  assertEquals(gateway.warnings, []);
});

Deno.test("ReverseProxy streams the body of a request", async () => {
  await using upstream = serveLocally((request) => new Response(request.body));
  await using gateway = serveProxy(upstream);
  const { readable, writable } = new TransformStream<
    Uint8Array<ArrayBuffer>,
    Uint8Array<ArrayBuffer>
  >();
  const writer = writable.getWriter();
  const responding = fetch(gateway.url, { method: "POST", body: readable });
  await writer.write(new TextEncoder().encode("first"));
  const reader = (await responding).body!.pipeThrough(new TextDecoderStream())
    .getReader();
  assertEquals(await reader.read(), { done: false, value: "first" });
  await writer.write(new TextEncoder().encode("second"));
  assertEquals(await reader.read(), { done: false, value: "second" });
  await writer.close();
  assertEquals((await reader.read()).done, true);
});

Deno.test("ReverseProxy reads an upload no faster than the upstream", async () => {
  const end = Promise.withResolvers<void>();
  await using upstream = scriptedUpstream(async (connection) => {
    await connection.readHead();
    await end.promise; // reads nothing more
  });
  let produced = 0;
  const body = new ReadableStream({
    pull(controller) {
      produced += CHUNK_BYTES;
      if (produced <= MAX_BYTES) {
        controller.enqueue(new Uint8Array(CHUNK_BYTES));
      } else controller.close();
    },
  });
  const clock = new FakeClock(); // the end of the request is logged after close()
  const url = new URL(`http://127.0.0.1:${upstream.port}/`);
  const proxy = createProxy(url, { clock });
  const responding = respond(
    proxy,
    new Request("http://host/a", { method: "POST", body }),
    CONTEXT,
  );
  await settled(() => produced);
  assertEquals(produced < MAX_BYTES, true);
  proxy.close();
  end.resolve();
  await assertRejects(() => responding, Problem);
});

Deno.test("ReverseProxy reads a response no faster than its client", async () => {
  let produced = 0;
  const stream = new ReadableStream({
    pull(controller) {
      produced += CHUNK_BYTES;
      controller.enqueue(new Uint8Array(CHUNK_BYTES));
    },
  });
  await using upstream = serveLocally(() => new Response(stream));
  const proxy = createProxy(new URL(`http://127.0.0.1:${upstream.port}/`));
  const request = new Request("http://host/a");
  const { body } = await respond(proxy, request, CONTEXT);
  await settled(() => produced);
  assertEquals(produced < MAX_BYTES, true);
  const reader = body!.getReader();
  for (let read = 0; read < MAX_BYTES;) {
    read += (await reader.read()).value!.length;
  }
  assertEquals(produced >= MAX_BYTES, true);
  await reader.cancel();
  proxy.close();
});

Deno.test("ReverseProxy ends a body that breaks off in an error, and logs it", async () => {
  for (const framing of ["Content-Length: 9", "Transfer-Encoding: chunked"]) {
    await using upstream = scriptedUpstream(async (connection) => {
      await connection.readHead();
      await connection.write(
        `HTTP/1.1 200 OK\r\n${framing}\r\n\r\n3\r\nabc\r\n`.slice(0, -1),
      );
    });
    await using gateway = serveProxy(upstream);
    const response = await fetch(`${gateway.url}/a?secret`);
    assertEquals(response.status, 200);
    await assertRejects(() => response.text(), TypeError);
    const request = { method: "GET", path: "/a" };
    const failure = { reason: "broken_body", detail: "aborted", ...request };
    assertEquals(gateway.warnings, [["rep.upstream.failed", failure]]);
  }
});

Deno.test("ReverseProxy aborts the request to the upstream if the client disconnects before the response", async () => {
  for (
    const head of [
      "GET / HTTP/1.1",
      "POST / HTTP/1.1\r\nContent-Length: 9",
      "POST / HTTP/1.1\r\nTransfer-Encoding: chunked",
    ]
  ) {
    const received = Promise.withResolvers<void>();
    const disconnected = Promise.withResolvers<unknown>();
    await using upstream = scriptedUpstream(async (connection) => {
      await connection.readHead();
      received.resolve();
      disconnected.resolve(await connection.readHead());
    });
    await using gateway = serveProxy(upstream);
    using client = await connectRaw(gateway.port, `${head}\r\nHost: h\r\n\r\n`);
    await received.promise;
    client.close();
    assertEquals(await disconnected.promise, undefined);
    assertEquals(gateway.warnings, []);
  }
});

Deno.test("ReverseProxy never completes an upload that broke off", async () => {
  const started = Promise.withResolvers<void>();
  const seen = Promise.withResolvers<string>();
  await using upstream = scriptedUpstream(async (connection) => {
    let text = "";
    for (
      let part = await connection.read();
      part !== undefined;
      part = await connection.read()
    ) {
      text += part;
      if (text.includes("abc")) started.resolve();
    }
    seen.resolve(text);
  });
  await using gateway = serveProxy(upstream);
  using client = await connectRaw(
    gateway.port,
    "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
  );
  await started.promise;
  client.close();
  assertEquals((await seen.promise).split("\r\n\r\n").slice(1), [
    "3\r\nabc\r\n",
  ]);
});

Deno.test("ReverseProxy returns a response that arrives before the upload is complete", async () => {
  await using upstream = scriptedUpstream(async (connection) => {
    await connection.readHead();
    await connection.write(
      "HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno",
    );
  });
  await using gateway = serveProxy(upstream);
  using client = await connectRaw(
    gateway.port,
    "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nabc",
  );
  assertEquals(await client.readStatus(), 413);
  assertEquals(await client.read(), "no");
  assertEquals(gateway.warnings, []);
});

Deno.test("ReverseProxy responds with 502 if the upstream is down, without its address", async () => {
  const port = findFreePort();
  await using gateway = serveProxy({ port });
  const response = await fetch(`${gateway.url}/a?secret`, {
    method: "POST",
    body: "x",
  });
  assertEquals(await response.json(), {
    title: "Bad Gateway",
    status: 502,
    detail: "The upstream could not be reached, or its response was invalid",
  });
  const detail = `connect ECONNREFUSED 127.0.0.1:${port}`;
  assertEquals(gateway.warnings, [
    ["rep.upstream.failed", {
      reason: "unreachable",
      detail,
      method: "POST",
      path: "/a",
    }],
  ]);
});

Deno.test("ReverseProxy responds with 502 if the response is not HTTP, keeps working, and logs the first failure with each detail, and how many followed", async () => {
  const responses = [
    "SSH-2.0-OpenSSH\r\n\r\n",
    "",
    "HTTP/1.1 200 OK\r\n",
    "HTTP/1.1 999 Odd\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 099 Odd\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n",
    ok("", "bad name: 1\r\n"),
    ok("", "name: \u0001\r\n"),
    ok("", `big: ${"x".repeat(70_000)}\r\n`),
    "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\nab",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
  ];
  await using upstream = scriptedUpstream(async (connection, index) => {
    await connection.readHead();
    await connection.write(responses[index % responses.length]!);
    connection.closeWriting();
    await connection.read();
  });
  await using gateway = serveProxy(upstream);
  for (const response of [...responses, ...responses]) {
    const { status, body } = await fetch(gateway.url);
    await body?.cancel();
    assertEquals(status, 502, response.slice(0, 60));
  }
  const first = gateway.warnings.splice(0);
  const details = first.map(([, fields]) => fields?.["detail"]);
  assertEquals(details, [...new Set(details)]);
  gateway.proxy.close();
  const counts = gateway.warnings.map(([, fields]) => fields?.["unreachable"]);
  const following = counts.reduce<number>((sum, n) => sum + Number(n), 0);
  assertEquals(following, 2 * responses.length - first.length);
});

Deno.test("ReverseProxy accepts a response head as large as Deno.serve accepts in a request", async () => {
  await using upstream = serveLocally(() =>
    new Response("ok", { headers: { big: "x".repeat(60_000) } })
  );
  await using gateway = serveProxy(upstream);
  const response = await fetch(gateway.url);
  assertEquals([await response.text(), response.headers.get("big")?.length], [
    "ok",
    60_000,
  ]);
});

Deno.test("ReverseProxy responds with 504 if the headers do not arrive in time, and aborts the request", async () => {
  const clock = manualClock();
  const disconnected = Promise.withResolvers<unknown>();
  await using upstream = scriptedUpstream(async (connection) => {
    await connection.readHead();
    clock.fire();
    disconnected.resolve(await connection.readHead());
  });
  await using gateway = serveProxy(upstream, { clock });
  const response = await fetch(`${gateway.url}/slow`);
  assertEquals(await response.json(), {
    title: "Gateway Timeout",
    status: 504,
    detail: "The upstream did not respond in time",
  });
  assertEquals(await disconnected.promise, undefined);
  const detail = "No response headers within 30000 ms";
  assertEquals(gateway.warnings, [
    ["rep.upstream.failed", {
      reason: "timeout",
      detail,
      method: "GET",
      path: "/slow",
    }],
  ]);
});

Deno.test("ReverseProxy responds with 504 if the TLS handshake does not complete in time", async () => {
  const clock = manualClock();
  const end = Promise.withResolvers<void>();
  await using upstream = scriptedUpstream(async (connection) => {
    await connection.read();
    clock.fire();
    await end.promise;
  });
  const proxy = createProxy(new URL(`https://127.0.0.1:${upstream.port}/`), {
    clock,
  });
  const { status } = await assertRejects(
    () => respond(proxy, new Request("http://host/a"), CONTEXT),
    Problem,
  );
  assertEquals(status, 504);
  proxy.close();
  end.resolve();
});

Deno.test("ReverseProxy measures the timeout from the last byte of the request", async () => {
  const clock = manualClock();
  const started = Promise.withResolvers<void>();
  await using upstream = scriptedUpstream(async (connection) => {
    let text = "";
    while (!text.includes("cd")) {
      text += await connection.read();
      if (text.includes("ab")) started.resolve();
    }
    await connection.write(ok("ok", "Connection: close\r\n")); // an idle connection has a timer
    await connection.read();
  });
  await using gateway = serveProxy(upstream, { clock });
  using client = await connectRaw(
    gateway.port,
    "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nab",
  );
  await started.promise;
  assertEquals(clock.pending, 1);
  const before = clock.started;
  await client.write("cd");
  assertEquals(await client.readStatus(), 200);
  assertEquals([clock.pending, clock.started > before], [0, true]);
});

Deno.test("ReverseProxy responds with 408 if the client pauses its upload for too long, and does not blame the upstream", async () => {
  const clock = manualClock();
  const started = Promise.withResolvers<void>();
  const disconnected = Promise.withResolvers<unknown>();
  await using upstream = scriptedUpstream(async (connection) => {
    let text = "";
    while (!text.includes("ab")) text += await connection.read();
    started.resolve();
    disconnected.resolve(await connection.read());
  });
  await using gateway = serveProxy(upstream, { clock });
  using client = await connectRaw(
    gateway.port,
    "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nab",
  );
  await started.promise;
  clock.fire();
  assertEquals(await client.readStatus(), 408);
  assertEquals(await disconnected.promise, undefined);
  assertEquals(gateway.warnings, []);
});

Deno.test("ReverseProxy lets the upstream pause a body for less than 5 minutes, and then ends it, and logs that", async () => {
  const clock = new WatchedClock();
  const paused = Promise.withResolvers<void>();
  await using upstream = scriptedUpstream(async (connection) => {
    await connection.readHead();
    await connection.write("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab");
    await paused.promise;
    await connection.write("c");
    await connection.readHead();
  });
  await using gateway = serveProxy(upstream, { clock });
  const response = await fetch(gateway.url);
  const reader = response.body!.pipeThrough(new TextDecoderStream())
    .getReader();
  assertEquals((await reader.read()).value, "ab");
  await clock.waits();
  await clock.tick(299_000);
  paused.resolve();
  assertEquals((await reader.read()).value, "c");
  await clock.waits();
  await clock.tick(299_000);
  assertEquals([gateway.transfers.requests, gateway.warnings], [1, []]);
  await clock.tick(1_000);
  await assertRejects(() => reader.read(), TypeError);
  const detail = "The body paused for 5 minutes";
  const request = { method: "GET", path: "/" };
  const failure = { reason: "broken_body", detail, ...request };
  assertEquals([gateway.transfers.requests, gateway.warnings], [0, [
    ["rep.upstream.failed", failure],
  ]]);
});

Deno.test("ReverseProxy connects only to an https: upstream with a trusted certificate", async () => {
  const [cert, key] = await Promise.all(
    ["crt", "key"].map((end) =>
      Deno.readTextFile(new URL(`./tls/localhost.${end}`, import.meta.url))
    ),
  );
  const ports: number[] = [];
  const disconnected = Promise.withResolvers<void>();
  const events = () =>
    new ReadableStream({
      start: (controller) =>
        controller.enqueue(new TextEncoder().encode("event")),
      cancel: () => disconnected.resolve(),
    });
  const server = Deno.serve(
    { port: 0, hostname: "127.0.0.1", cert: cert!, key: key!, onListen() {} },
    ({ url, body }, { remoteAddr }) => {
      const { pathname } = new URL(url);
      ports.push(remoteAddr.port);
      return new Response(
        pathname === "/base/events" ? events() : body ?? pathname,
      );
    },
  );
  const { success, stdout, stderr } = await requestInProcess(
    `https://127.0.0.1:${server.addr.port}/base`,
  );
  assertEquals([success, stdout], [true, "/base/get 300000 event"], stderr);
  assertEquals(new Set(ports.slice(0, 3)).size, 1); // the upload's connection may not be idle yet
  await disconnected.promise;
  const proxy = createProxy(
    new URL(`https://127.0.0.1:${server.addr.port}/base`),
  );
  const { status } = await assertRejects(
    () => respond(proxy, new Request("http://host/a"), CONTEXT),
    Problem,
  );
  assertEquals(status, 502);
  proxy.close();
  await server.shutdown();
});

/** Runs a process that trusts the certificate's authority, whose own key was discarded. */
async function requestInProcess(upstream: string) {
  const script =
    new URL("./tls/request_through_proxy.ts", import.meta.url).pathname;
  const ca = new URL("./tls/ca.crt", import.meta.url).pathname;
  const args = [
    "run",
    "--quiet",
    ...await stdFlags(),
    "--allow-net",
    `--cert=${ca}`,
    script,
    upstream,
  ];
  const { success, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args,
  }).output();
  const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
  return { success, stdout: text(stdout), stderr: text(stderr) };
}

Deno.test("ReverseProxy reuses a connection", async () => {
  const ports = new Set<number>();
  await using upstream = serveLocally((_request, { remoteAddr }) => {
    ports.add(remoteAddr.port);
    return new Response("ok");
  });
  await using gateway = serveProxy(upstream);
  for (const method of ["GET", "HEAD", "POST", "GET"]) {
    await (await fetch(gateway.url, { method })).text();
  }
  assertEquals(ports.size, 1);
});

/** An upstream that responds once on each connection, and closes it at the second request. */
function closingUpstream(secondRequests: string[]) {
  return scriptedUpstream(async (connection, index) => {
    const head = await connection.readHead();
    await connection.write(head?.startsWith("HEAD") ? ok("") : ok(`${index}`));
    secondRequests.push(
      (await connection.readHead())?.split(" ")[0] ?? "closed",
    );
  });
}

Deno.test("ReverseProxy repeats an idempotent request without a body in a new connection if a reused one was closed", async () => {
  for (const method of ["GET", "HEAD", "DELETE", "OPTIONS", "PUT"]) {
    const secondRequests: string[] = [];
    await using upstream = closingUpstream(secondRequests);
    await using gateway = serveProxy(upstream);
    assertEquals(await (await fetch(gateway.url)).text(), "0");
    const { status, body } = await fetch(gateway.url, { method });
    await body?.cancel();
    assertEquals([status, secondRequests[0], gateway.warnings], [
      200,
      method,
      [],
    ]);
  }
});

Deno.test("ReverseProxy repeats no request that is not idempotent, or has a body", async () => {
  const requests: [method: string, body: string | null][] = [
    ["POST", null],
    ["POST", "abc"],
    ["PATCH", null],
    ["DELETE", "abc"],
    ["PUT", "abc"],
  ];
  const secondRequests: string[] = [];
  await using upstream = closingUpstream(secondRequests);
  await using gateway = serveProxy(upstream);
  for (const [method, body] of requests) {
    assertEquals((await (await fetch(gateway.url)).text()).length, 1);
    const response = await fetch(gateway.url, { method, body });
    await response.body?.cancel();
    assertEquals(response.status, 502);
  }
  assertEquals(secondRequests, requests.map(([method]) => method));
});

Deno.test("ReverseProxy does not retry a request if a reused connection fails for another reason", async () => {
  let connections = 0;
  await using upstream = scriptedUpstream(async (connection, index) => {
    connections++;
    await connection.readHead();
    await connection.write(ok(`${index}`));
    if (await connection.readHead() !== undefined) {
      await connection.write("SSH-2.0-OpenSSH\r\n\r\n");
    }
  });
  await using gateway = serveProxy(upstream);
  assertEquals(await (await fetch(gateway.url)).text(), "0");
  const { status, body } = await fetch(gateway.url);
  await body?.cancel();
  assertEquals([status, connections], [502, 1]);
});

Deno.test("ReverseProxy closes the connection of a response that it cannot pass on", async () => {
  const { promise: ended, resolve } = Promise.withResolvers<void>();
  await using upstream = scriptedUpstream(async (connection) => {
    await connection.readHead();
    await connection.write("HTTP/1.1 999 Odd\r\nContent-Length: 100\r\n\r\n");
    await connection.read().catch(() => {}); // until the end of the connection
    resolve();
  });
  await using gateway = serveProxy(upstream);
  const { status, body } = await fetch(gateway.url);
  await body?.cancel();
  assertEquals(status, 502);
  await within(ended);
});

Deno.test("ReverseProxy rejects CONNECT and TRACE", async () => {
  await using gateway = serveProxy({ port: findFreePort() });
  for (const request of ["CONNECT evil:80", "TRACE /"]) {
    using client = await connectRaw(
      gateway.port,
      `${request} HTTP/1.1\r\nHost: h\r\n\r\n`,
    );
    assertEquals(await client.readStatus(), 501);
  }
});

Deno.test("ReverseProxy sends nothing for a request that is already aborted", async () => {
  const proxy = createProxy(new URL("http://127.0.0.1:9/"));
  const request = new Request("http://host/a", { signal: AbortSignal.abort() });
  await assertRejects(
    () => respond(proxy, request, CONTEXT),
    Problem,
    "The request was aborted before the upstream responded",
  );
  proxy.close();
});

Deno.test("idle() resolves at once if no request is in flight", async () => {
  await using upstream = serveLocally(() => new Response("ok"));
  await using gateway = serveProxy(upstream);
  await gateway.transfers.idle();
  for (const method of ["GET", "HEAD", "POST"]) {
    await (await fetch(gateway.url, { method })).text();
    await gateway.transfers.idle();
  }
});

Deno.test("idle() does not wait for a request that failed", async () => {
  await using gateway = serveProxy({ port: findFreePort() });
  await (await fetch(gateway.url)).text();
  await gateway.transfers.idle();
});

Deno.test("idle() waits for the response and its body, which close() leaves intact after that", async () => {
  const received = Promise.withResolvers<void>();
  const respond = Promise.withResolvers<void>();
  const body = Promise.withResolvers<
    ReadableStreamDefaultController<Uint8Array>
  >();
  const stream = new ReadableStream({ start: body.resolve });
  await using upstream = serveLocally(async () => {
    received.resolve();
    await respond.promise;
    return new Response(stream);
  });
  await using gateway = serveProxy(upstream);
  const responding = fetch(gateway.url);
  await received.promise;
  const drained = track(gateway.transfers.idle());
  respond.resolve();
  const response = await responding;
  const controller = await body.promise;
  controller.enqueue(new TextEncoder().encode("first "));
  const reader = response.body!.pipeThrough(new TextDecoderStream())
    .getReader();
  assertEquals((await reader.read()).value, "first ");
  assertEquals(drained.isResolved, false);
  controller.enqueue(new TextEncoder().encode("last"));
  controller.close();
  await drained.promise;
  gateway.proxy.close();
  assertEquals([(await reader.read()).value, (await reader.read()).done], [
    "last",
    true,
  ]);
});

Deno.test("idle() does not wait for a response whose client has disconnected", async () => {
  await using upstream = serveLocally(() => new Response(new ReadableStream()));
  await using gateway = serveProxy(upstream);
  const response = await fetch(gateway.url);
  await response.body?.cancel();
  await gateway.transfers.idle();
});

Deno.test("close() ends a body that is still streaming in an error, and idle() resolves", async () => {
  await using upstream = scriptedUpstream(async (connection) => {
    await connection.readHead();
    await connection.write("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc");
    await connection.readHead();
  });
  await using gateway = serveProxy(upstream);
  const response = await fetch(gateway.url);
  const drained = gateway.transfers.idle();
  gateway.proxy.close();
  await assertRejects(() => response.text(), TypeError);
  await drained;
});

Deno.test("close() ends requests in flight", async () => {
  const received = Promise.withResolvers<void>();
  await using upstream = scriptedUpstream(async (connection) => {
    await connection.readHead();
    received.resolve();
    await connection.readHead();
  });
  await using gateway = serveProxy(upstream);
  const responding = fetch(gateway.url);
  await received.promise;
  gateway.proxy.close();
  const { status, body } = await responding;
  await body?.cancel();
  assertEquals(status, 502);
});

const CHUNK_BYTES = 65_536;

/** More than all buffers between client and upstream can hold. */
const MAX_BYTES = 64 * 1024 * 1024;

/** Waits until a number has not changed for 200 ms. That nothing happens any more can only be observed by waiting. */
async function settled(value: () => number) {
  for (let last = -1, same = 0; same < 20; last = value()) {
    await new Promise((resolve) => setTimeout(resolve, 10));
    same = value() === last ? same + 1 : 0;
  }
}

/** Follows a promise without waiting for it. */
function track(promise: Promise<void>) {
  const tracked = { promise, isResolved: false };
  void promise.then(() => tracked.isResolved = true);
  return tracked;
}

Deno.test("ReverseProxy ignores interim responses, but only a limited number", async () => {
  for (
    const [count, status] of [[16, 200], [17, 502], [10_000, 502]] as const
  ) {
    await using upstream = scriptedUpstream(async (connection) => {
      await connection.readHead();
      await connection.write(
        "HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n".repeat(count),
      ).catch(() => {});
      await connection.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        .catch(() => {}); // the proxy may have left
    });
    await using gateway = serveProxy(upstream);
    const response = await fetch(gateway.url);
    await response.body?.cancel();
    assertEquals(response.status, status);
    const details = gateway.warnings.map(([, fields]) => fields?.detail);
    assertEquals(
      details,
      status === 200 ? [] : ["Too many interim responses (1xx)"],
    );
  }
});
