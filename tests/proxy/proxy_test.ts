import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import { createProxy } from "../../src/proxy/proxy.ts";
import { Problem } from "../../src/http/problem.ts";
import { stdFlags } from "../../tools/std.ts";
import { dialed, manualClock, proxied, scripted, served } from "./_proxied.ts";

const CLIENT = { address: "192.0.2.7", rateKey: "192.0.2.7", origin: "https://app.example" };

/** A response as raw text with the headers that say where it ends. */
function ok(body: string, headers = ""): string {
  return `HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n${headers}\r\n${body}`;
}

/** What the upstream is sent, head and body, for one raw request to the proxy. */
async function seenFor(raw: string, base = "/"): Promise<string> {
  const seen = Promise.withResolvers<string>();
  await using upstream = scripted(async (line) => {
    let text = await line.head() ?? "";
    const isChunked = text.includes("chunked");
    const length = Number(/^content-length: (\d+)/im.exec(text)?.[1] ?? 0);
    const whole = () => isChunked ? text.endsWith("0\r\n\r\n") : text.length - text.indexOf("\r\n\r\n") - 4 >= length;
    while (!whole()) text += await line.read() ?? "<closed>0\r\n\r\n";
    seen.resolve(text.replaceAll(String(upstream.port), "PORT"));
    await line.write(ok("ok"));
    await line.head();
  });
  await using gateway = proxied(upstream, { base });
  using client = await dialed(gateway.port);
  await client.write(raw.replaceAll(/\r?\n/g, "\r\n"));
  await client.head();
  return (await seen.promise).replaceAll("\r\n", "\n");
}

/** What the client is sent for a raw answer of the upstream, without the date that the server adds. */
async function answerTo(raw: string, request = "GET / HTTP/1.1\nHost: h\nConnection: close\n\n"): Promise<string> {
  await using upstream = scripted(async (line) => {
    await line.head();
    await line.write(raw.replaceAll(/\r?\n/g, "\r\n"));
  });
  await using gateway = proxied(upstream);
  using client = await dialed(gateway.port);
  await client.write(request.replaceAll("\n", "\r\n"));
  let text = "";
  for (let part = await client.read(); part !== undefined; part = await client.read()) text += part;
  return text.replaceAll("\r\n", "\n").replace(/^date: .*\n/im, "");
}

const FORWARDED = "x-forwarded-for: 127.0.0.1\nx-forwarded-host: h\nx-forwarded-proto: http\n";

Deno.test("createProxy() sends method, path, query and end-to-end headers, with the upstream's own Host", async () => {
  assertEquals(
    await seenFor(
      "PUT /a//b%2f?q=%zz&'\"| HTTP/1.1\nHost: h\nX-One: é\nConnection: x-hop\nX-Hop: 1\nContent-Length: 3\n\nabc",
      "/base/",
    ),
    `PUT /base/a//b%2f?q=%zz&'"| HTTP/1.1\nhost: 127.0.0.1:PORT\ncontent-length: 3\n${FORWARDED}x-one: é\n` +
      "Connection: keep-alive\n\nabc",
  );
});

Deno.test("createProxy() lets no request choose the host", async () => {
  const rest = "Connection: keep-alive\n\n";
  assertEquals(
    await seenFor("GET http://evil:1/x HTTP/1.1\nHost: h\n\n"),
    `GET /x HTTP/1.1\nhost: 127.0.0.1:PORT\n${FORWARDED.replace(": h\n", ": evil:1\n")}${rest}`,
  );
  for (const path of ["//evil/x", "/@evil/x", "///evil", "/.evil", "/:80/"]) {
    assertEquals(
      await seenFor(`GET ${path} HTTP/1.1\nHost: h\n\n`),
      `GET ${path} HTTP/1.1\nhost: 127.0.0.1:PORT\n${FORWARDED}${rest}`,
    );
  }
});

Deno.test("createProxy() joins cookies and believes nothing that the client says about itself", async () => {
  assertEquals(
    await seenFor(
      "GET / HTTP/1.1\nHost: h\nCookie: a=1\nCookie: b=2\nX-Forwarded-For: 1.2.3.4\nForwarded: for=x\nX-Real-IP: 1.2.3.4\n\n",
    ),
    `GET / HTTP/1.1\nhost: 127.0.0.1:PORT\ncookie: a=1; b=2\n${FORWARDED}Connection: keep-alive\n\n`,
  );
});

Deno.test("createProxy() frames a body as it is: by length, in chunks, or not at all", async () => {
  const tail = `${FORWARDED}Connection: keep-alive\n`;
  const start = "HTTP/1.1\nhost: 127.0.0.1:PORT\n";
  const chunked = "Transfer-Encoding: chunked\n\n3\nabc\n0\n\n";
  assertEquals(await seenFor("DELETE / HTTP/1.1\nHost: h\n\n"), `DELETE / ${start}${tail}\n`);
  assertEquals(await seenFor("OPTIONS / HTTP/1.1\nHost: h\n\n"), `OPTIONS / ${start}${tail}\n`);
  assertEquals(
    await seenFor("POST / HTTP/1.1\nHost: h\n\n"),
    `POST / ${start}${FORWARDED}Connection: keep-alive\nContent-Length: 0\n\n`,
  );
  assertEquals(
    await seenFor("POST / HTTP/1.1\nHost: h\nContent-Length: 0\n\n"),
    `POST / ${start}content-length: 0\n${tail}\n`,
  );
  for (const method of ["POST", "DELETE"]) {
    assertEquals(
      await seenFor(`${method} / HTTP/1.1\nHost: h\n${chunked}`),
      `${method} / ${start}${FORWARDED}transfer-encoding: chunked\nConnection: keep-alive\n\n3\nabc\n0\n\n`,
    );
  }
});

Deno.test("createProxy() drops the body of a GET whole, length and all", async () => {
  const seen = `GET / HTTP/1.1\nhost: 127.0.0.1:PORT\n${FORWARDED}Connection: keep-alive\n\n`;
  assertEquals(await seenFor("GET / HTTP/1.1\nHost: h\nContent-Length: 3\n\nabc"), seen);
  assertEquals(await seenFor("GET / HTTP/1.1\nHost: h\nTransfer-Encoding: chunked\n\n3\nabc\n0\n\n"), seen);
});

Deno.test("createProxy() passes a body on that the client sends only after 100 Continue", async () => {
  await using upstream = served(async (request) =>
    new Response(`${request.headers.get("expect")} ${await request.text()}`)
  );
  await using gateway = proxied(upstream);
  using client = await dialed(gateway.port);
  await client.write("POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
  assertEquals(await client.head(), "HTTP/1.1 100 Continue\r\n\r\n");
  await client.write("abc");
  await client.head();
  assertEquals(await client.read(), "null abc");
});

Deno.test("createProxy() leaves status, headers and bytes of a coded body as they are", async () => {
  const body = "\x1f\x8b\x08 not even gzip \xff\x00";
  assertEquals(
    await answerTo(
      ok(
        body,
        'Content-Encoding: gzip\nETag: "a"\nSet-Cookie: a=1\nSet-Cookie: b=2; Expires=Thu, 1 Jan\nX: \xe9\nKeep-Alive: timeout=5\nConnection: X-Hop\nX-Hop: 1\n',
      ),
    ),
    `HTTP/1.1 200 OK\ncontent-encoding: gzip\netag: "a"\nset-cookie: a=1\nset-cookie: b=2; Expires=Thu, 1 Jan\n` +
      `x: \xe9\ncontent-length: ${body.length}\nconnection: close\n\n${body}`,
  );
});

Deno.test("createProxy() passes redirects on", async () => {
  assertEquals(
    await answerTo("HTTP/1.1 302 Found\nLocation: http://elsewhere/\nContent-Length: 0\n\n"),
    "HTTP/1.1 302 Found\nlocation: http://elsewhere/\ncontent-length: 0\nconnection: close\n\n",
  );
});

Deno.test("createProxy() passes answers without a body: 204, 304, to HEAD, after 1xx", async () => {
  assertEquals(
    await answerTo("HTTP/1.1 204 No Content\nX: 1\n\n"),
    "HTTP/1.1 204 No Content\nx: 1\nconnection: close\n\n",
  );
  assertEquals(
    await answerTo('HTTP/1.1 304 Not Modified\nETag: "a"\n\n'),
    'HTTP/1.1 304 Not Modified\netag: "a"\nconnection: close\n\n',
  );
  assertEquals(
    await answerTo("HTTP/1.1 200 OK\nContent-Length: 500\n\n", "HEAD / HTTP/1.1\nHost: h\nConnection: close\n\n"),
    "HTTP/1.1 200 OK\ncontent-length: 500\nconnection: close\n\n",
  );
  assertEquals(
    await answerTo("HTTP/1.1 103 Early Hints\nLink: <a>\n\nHTTP/1.1 200 OK\nContent-Length: 2\n\nok"),
    "HTTP/1.1 200 OK\ncontent-length: 2\nconnection: close\n\nok",
  );
});

Deno.test("createProxy() passes a part of a file on", async () => {
  assertEquals(
    await answerTo("HTTP/1.1 206 Partial Content\nContent-Range: bytes 1-2/9\nContent-Length: 2\n\nok"),
    "HTTP/1.1 206 Partial Content\ncontent-range: bytes 1-2/9\ncontent-length: 2\nconnection: close\n\nok",
  );
});

Deno.test("createProxy() passes the upstream's own Date on", async () => {
  await using upstream = scripted(async (line) => {
    await line.head();
    await line.write(ok("ok", "Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n"));
  });
  await using gateway = proxied(upstream);
  const answer = await fetch(gateway.url);
  assertEquals([await answer.text(), answer.headers.get("date")], ["ok", "Thu, 01 Jan 1970 00:00:00 GMT"]);
});

Deno.test("createProxy() asks only for codings that can be undone if the call says so", async () => {
  await using upstream = served((request) => new Response(request.headers.get("accept-encoding")));
  const headers = { "accept-encoding": "gzip, zstd, br" };
  await using untouched = proxied(upstream);
  assertEquals(await (await fetch(untouched.url, { headers })).text(), "gzip, zstd, br");
  await using decodable = proxied(upstream, { call: { decodable: true } });
  assertEquals(await (await fetch(decodable.url, { headers })).text(), "gzip, br");
});

Deno.test("createProxy() passes events on at once, and tells the upstream when the client leaves", async () => {
  const left = Promise.withResolvers<void>();
  const events = Promise.withResolvers<ReadableStreamDefaultController<Uint8Array>>();
  const body = new ReadableStream({ start: events.resolve, cancel: () => left.resolve() });
  await using upstream = served(() => new Response(body, { headers: { "content-type": "text/event-stream" } }));
  await using gateway = proxied(upstream);
  const answer = await fetch(gateway.url);
  const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader();
  const controller = await events.promise;
  for (const event of ["data: 1\n\n", "data: 2\n\n"]) {
    controller.enqueue(new TextEncoder().encode(event));
    assertEquals(await reader.read(), { done: false, value: event });
  }
  await reader.cancel();
  await left.promise;
  assertEquals(gateway.warnings, []);
});

Deno.test("createProxy() sends a request's body while it is being made", async () => {
  await using upstream = served((request) => new Response(request.body));
  await using gateway = proxied(upstream);
  const { readable, writable } = new TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>();
  const writer = writable.getWriter();
  const answering = fetch(gateway.url, { method: "POST", body: readable });
  await writer.write(new TextEncoder().encode("first"));
  const reader = (await answering).body!.pipeThrough(new TextDecoderStream()).getReader();
  assertEquals(await reader.read(), { done: false, value: "first" });
  await writer.write(new TextEncoder().encode("second"));
  assertEquals(await reader.read(), { done: false, value: "second" });
  await writer.close();
  assertEquals((await reader.read()).done, true);
});

Deno.test("createProxy() takes no more of an upload than the upstream does", async () => {
  const end = Promise.withResolvers<void>();
  await using upstream = scripted(async (line) => {
    await line.head();
    await end.promise; // and reads nothing more
  });
  let made = 0;
  const body = new ReadableStream({
    pull(controller) {
      made += CHUNK_BYTES;
      if (made <= MOST_BYTES) controller.enqueue(new Uint8Array(CHUNK_BYTES));
      else controller.close();
    },
  });
  const proxy = createProxy({ upstream: new URL(`http://127.0.0.1:${upstream.port}/`) });
  const answering = proxy(new Request("http://host/", { method: "POST", body }), CLIENT);
  await atRest(() => made);
  assertEquals(made < MOST_BYTES, true);
  proxy.close();
  end.resolve();
  await assertRejects(() => answering, Problem);
});

Deno.test("createProxy() cuts a body that breaks off, and says so in the log", async () => {
  for (const framing of ["Content-Length: 9", "Transfer-Encoding: chunked"]) {
    await using upstream = scripted(async (line) => {
      await line.head();
      await line.write(`HTTP/1.1 200 OK\r\n${framing}\r\n\r\n3\r\nabc\r\n`.slice(0, -1));
    });
    await using gateway = proxied(upstream);
    const answer = await fetch(`${gateway.url}/a?secret`);
    assertEquals(answer.status, 200);
    await assertRejects(() => answer.text(), TypeError);
    assertEquals(gateway.warnings, [["rep.upstream.failed", { reason: "aborted", method: "GET", path: "/a" }]]);
  }
});

Deno.test("createProxy() gives a request up at the upstream when the client leaves before the answer", async () => {
  for (
    const head of [
      "GET / HTTP/1.1",
      "POST / HTTP/1.1\r\nContent-Length: 9",
      "POST / HTTP/1.1\r\nTransfer-Encoding: chunked",
    ]
  ) {
    const asked = Promise.withResolvers<void>();
    const left = Promise.withResolvers<unknown>();
    await using upstream = scripted(async (line) => {
      await line.head();
      asked.resolve();
      left.resolve(await line.head());
    });
    await using gateway = proxied(upstream);
    using client = await dialed(gateway.port);
    await client.write(`${head}\r\nHost: h\r\n\r\n`);
    await asked.promise;
    client.close();
    assertEquals(await left.promise, undefined);
    assertEquals(gateway.warnings, []);
  }
});

Deno.test("createProxy() never turns half an upload into a whole one", async () => {
  const begun = Promise.withResolvers<void>();
  const seen = Promise.withResolvers<string>();
  await using upstream = scripted(async (line) => {
    let text = "";
    for (let part = await line.read(); part !== undefined; part = await line.read()) {
      text += part;
      if (text.includes("abc")) begun.resolve();
    }
    seen.resolve(text);
  });
  await using gateway = proxied(upstream);
  using client = await dialed(gateway.port);
  await client.write("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
  await begun.promise;
  client.close();
  assertEquals((await seen.promise).split("\r\n\r\n").slice(1), ["3\r\nabc\r\n"]);
});

Deno.test("createProxy() passes an answer on that comes before the upload is over", async () => {
  await using upstream = scripted(async (line) => {
    await line.head();
    await line.write("HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno");
  });
  await using gateway = proxied(upstream);
  using client = await dialed(gateway.port);
  await client.write("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nabc");
  assertEquals((await client.head())?.slice(0, 13), "HTTP/1.1 413 ");
  assertEquals(await client.read(), "no");
  assertEquals(gateway.warnings, []);
});

Deno.test("createProxy() answers 502 if the upstream is down, without its address", async () => {
  const port = await unusedPort();
  await using gateway = proxied({ port });
  const answer = await fetch(`${gateway.url}/a?secret`, { method: "POST", body: "x" });
  assertEquals(await answer.json(), {
    title: "Bad Gateway",
    status: 502,
    detail: "The upstream could not be reached, or gave no valid answer",
  });
  assertEquals(gateway.warnings, [
    ["rep.upstream.failed", { reason: `connect ECONNREFUSED 127.0.0.1:${port}`, method: "POST", path: "/a" }],
  ]);
});

Deno.test("createProxy() answers 502 to what is not HTTP, and lives on", async () => {
  const answers = [
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
  ];
  await using upstream = scripted(async (line, count) => {
    await line.head();
    await line.write(answers[count]!);
    line.closeWriting();
    await line.read();
  });
  await using gateway = proxied(upstream);
  for (const answer of answers) {
    const { status, body } = await fetch(gateway.url);
    await body?.cancel();
    assertEquals([status, gateway.warnings.splice(0).length], [502, 1], answer.slice(0, 60));
  }
});

Deno.test("createProxy() passes on as large a head as the server itself takes", async () => {
  await using upstream = served(() => new Response("ok", { headers: { big: "x".repeat(60_000) } }));
  await using gateway = proxied(upstream);
  const answer = await fetch(gateway.url);
  assertEquals([await answer.text(), answer.headers.get("big")?.length], ["ok", 60_000]);
});

Deno.test("createProxy() answers 504 if there are no headers in time, and gives the request up", async () => {
  const clock = manualClock();
  const left = Promise.withResolvers<unknown>();
  await using upstream = scripted(async (line) => {
    await line.head();
    clock.ring();
    left.resolve(await line.head());
  });
  await using gateway = proxied(upstream, { clock });
  const answer = await fetch(`${gateway.url}/slow`);
  assertEquals(await answer.json(), {
    title: "Gateway Timeout",
    status: 504,
    detail: "The upstream did not answer in time",
  });
  assertEquals(await left.promise, undefined);
  assertEquals(gateway.warnings, [
    ["rep.upstream.failed", { reason: "No response headers within 30000 ms", method: "GET", path: "/slow" }],
  ]);
});

Deno.test("createProxy() answers 504 if there is not even a TLS handshake in time", async () => {
  const clock = manualClock();
  const end = Promise.withResolvers<void>();
  await using upstream = scripted(async (line) => {
    await line.read();
    clock.ring();
    await end.promise;
  });
  const proxy = createProxy({ upstream: new URL(`https://127.0.0.1:${upstream.port}/`), clock });
  const { status } = await assertRejects(() => proxy(new Request("http://host/a"), CLIENT), Problem);
  assertEquals(status, 504);
  proxy.close();
  end.resolve();
});

Deno.test("createProxy() counts the wait from the last byte of the request", async () => {
  const clock = manualClock();
  const begun = Promise.withResolvers<void>();
  await using upstream = scripted(async (line) => {
    let text = "";
    while (!text.includes("cd")) {
      text += await line.read();
      if (text.includes("ab")) begun.resolve();
    }
    await line.write(ok("ok"));
    await line.read();
  });
  await using gateway = proxied(upstream, { clock });
  using client = await dialed(gateway.port);
  await client.write("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nab");
  await begun.promise;
  assertEquals([clock.waiting, clock.begun], [1, 2]);
  await client.write("cd");
  assertEquals((await client.head())?.slice(0, 13), "HTTP/1.1 200 ");
  assertEquals([clock.waiting, clock.begun], [0, 3]);
});

Deno.test("createProxy() waits for ever once the headers are there", async () => {
  const clock = manualClock();
  const slow = Promise.withResolvers<void>();
  await using upstream = scripted(async (line) => {
    await line.head();
    await line.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n");
    await slow.promise;
    await line.write("ok");
    await line.head();
  });
  await using gateway = proxied(upstream, { clock });
  const answer = await fetch(gateway.url);
  assertEquals(clock.waiting, 0);
  slow.resolve();
  assertEquals(await answer.text(), "ok");
});

Deno.test("createProxy() speaks to an https: upstream that the process trusts, and to no other", async () => {
  const [cert, key] = await Promise.all(
    ["crt", "key"].map((end) => Deno.readTextFile(new URL(`./tls/localhost.${end}`, import.meta.url))),
  );
  const ports: number[] = [];
  const left = Promise.withResolvers<void>();
  const events = () =>
    new ReadableStream({
      start: (controller) => controller.enqueue(new TextEncoder().encode("event")),
      cancel: () => left.resolve(),
    });
  const server = Deno.serve(
    { port: 0, hostname: "127.0.0.1", cert: cert!, key: key!, onListen() {} },
    ({ url, body }, { remoteAddr }) => {
      const { pathname } = new URL(url);
      ports.push(remoteAddr.port);
      return new Response(pathname === "/base/events" ? events() : body ?? pathname);
    },
  );
  const { success, stdout, stderr } = await askedFromElsewhere(`https://127.0.0.1:${server.addr.port}/base`);
  assertEquals([success, stdout], [true, "/base/get 300000 event"], stderr);
  assertEquals(new Set(ports.slice(0, 3)).size, 1); // the last one may come before the upload's is free
  await left.promise;
  const proxy = createProxy({ upstream: new URL(`https://127.0.0.1:${server.addr.port}/base`) });
  const { status } = await assertRejects(() => proxy(new Request("http://host/a"), CLIENT), Problem);
  assertEquals(status, 502);
  proxy.close();
  await server.shutdown();
});

/** Runs a process that trusts the certificate's authority; the authority's own key is thrown away. */
async function askedFromElsewhere(upstream: string) {
  const script = new URL("./tls/ask_through_proxy.ts", import.meta.url).pathname;
  const ca = new URL("./tls/ca.crt", import.meta.url).pathname;
  const args = ["run", "--quiet", ...await stdFlags(), "--allow-net", `--cert=${ca}`, script, upstream];
  const { success, stdout, stderr } = await new Deno.Command(Deno.execPath(), { args }).output();
  const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
  return { success, stdout: text(stdout), stderr: text(stderr) };
}

Deno.test("createProxy() uses a connection again", async () => {
  const ports = new Set<number>();
  await using upstream = served((_request, { remoteAddr }) => {
    ports.add(remoteAddr.port);
    return new Response("ok");
  });
  await using gateway = proxied(upstream);
  for (const method of ["GET", "HEAD", "POST", "GET"]) await (await fetch(gateway.url, { method })).text();
  assertEquals(ports.size, 1);
});

/** An upstream that answers once on each connection, and hangs up when it is asked a second time. */
function hangingUp(asked: string[]) {
  return scripted(async (line, count) => {
    const head = await line.head();
    await line.write(head?.startsWith("HEAD") ? ok("") : ok(`${count}`));
    asked.push((await line.head())?.split(" ")[0] ?? "gone");
  });
}

Deno.test("createProxy() asks again on a new connection where a kept one was closed, if that changes nothing", async () => {
  const asked: string[] = [];
  await using upstream = hangingUp(asked);
  await using gateway = proxied(upstream);
  assertEquals(await (await fetch(gateway.url)).text(), "0");
  assertEquals(await (await fetch(gateway.url)).text(), "1");
  assertEquals(await (await fetch(gateway.url)).text(), "2");
  assertEquals((await fetch(gateway.url, { method: "HEAD" })).status, 200);
  assertEquals([asked.filter((method) => method !== "gone"), gateway.warnings], [["GET", "HEAD"], []]);
});

Deno.test("createProxy() does not ask again what may have changed something", async () => {
  const asked: string[] = [];
  await using upstream = hangingUp(asked);
  await using gateway = proxied(upstream);
  for (const [method, body] of [["DELETE", null], ["POST", null], ["POST", "abc"]] as const) {
    assertEquals((await (await fetch(gateway.url)).text()).length, 1);
    const refused = await fetch(gateway.url, { method, body });
    await refused.body?.cancel();
    assertEquals(refused.status, 502);
  }
  assertEquals(asked, ["DELETE", "POST", "POST"]);
});

Deno.test("createProxy() refuses CONNECT and TRACE", async () => {
  await using gateway = proxied({ port: await unusedPort() });
  for (const request of ["CONNECT evil:80", "TRACE /"]) {
    using client = await dialed(gateway.port);
    await client.write(`${request} HTTP/1.1\r\nHost: h\r\n\r\n`);
    assertEquals((await client.head())?.split("\r\n")[0], "HTTP/1.1 501 Not Implemented");
  }
});

Deno.test("createProxy() takes a request that no server made", async () => {
  await using upstream = served(async (request) =>
    new Response(`${new URL(request.url).pathname} ${await request.text()}`)
  );
  const proxy = createProxy({ upstream: new URL(`http://127.0.0.1:${upstream.port}/base`) });
  const answer = await proxy(new Request("http://host/a", { method: "POST", body: "abc" }), CLIENT);
  assertEquals(await answer.text(), "/base/a abc");
  proxy.close();
});

Deno.test("createProxy() sends nothing for a request that was given up before", async () => {
  const proxy = createProxy({ upstream: new URL("http://127.0.0.1:9/") });
  const request = new Request("http://host/a", { signal: AbortSignal.abort() });
  await assertRejects(
    () => proxy(request, CLIENT),
    Problem,
    "The request was given up before the upstream had answered",
  );
  proxy.close();
});

Deno.test("createProxy() refuses an upstream that is no plain http: or https: URL, and shows no password", () => {
  for (
    const upstream of ["ftp://up/", "ws://up/", "http://me:pw@up/", "http://me@up/", "http://up/?a", "http://up/#a"]
  ) {
    const { protocol, host } = new URL(upstream);
    assertThrows(
      () => createProxy({ upstream: new URL(upstream) }),
      TypeError,
      `Cannot proxy to "${protocol}//${host}": expected an http: or https: URL without user name, password, query and fragment`,
    );
  }
});

Deno.test("close() ends what is under way", async () => {
  const asked = Promise.withResolvers<void>();
  await using upstream = scripted(async (line) => {
    await line.head();
    asked.resolve();
    await line.head();
  });
  await using gateway = proxied(upstream);
  const answering = fetch(gateway.url);
  await asked.promise;
  gateway.proxy.close();
  const { status, body } = await answering;
  await body?.cancel();
  assertEquals(status, 502);
});

const CHUNK_BYTES = 65_536;

/** More than all the buffers on the way can hold. */
const MOST_BYTES = 64 * 1024 * 1024;

/** Waits until a number has not changed for a while: that nothing happens any more can only be seen by waiting. */
async function atRest(value: () => number): Promise<void> {
  for (let last = -1, same = 0; same < 20; last = value()) {
    await new Promise((resolve) => setTimeout(resolve, 10));
    same = value() === last ? same + 1 : 0;
  }
}

async function unusedPort(): Promise<number> {
  await using upstream = served(() => new Response());
  return upstream.port;
}
