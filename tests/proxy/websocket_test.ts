import { assertEquals } from "@std/assert";
import { dialed, manualClock, proxied, scripted, served, type Upstream } from "./_proxied.ts";

/** What a client gets to know of a WebSocket's end. */
type End = [code: number, reason: string];

/** A WebSocket client that waits for what comes. */
async function connected(port: number, path = "/", options: WebSocketOptions = {}) {
  const socket = new WebSocket(`ws://127.0.0.1:${port}${path}`, options);
  socket.binaryType = "arraybuffer";
  const { readable, writable } = new TransformStream<string | ArrayBuffer>({}, { highWaterMark: 1000 });
  const writer = writable.getWriter();
  const reader = readable.getReader();
  const ended = Promise.withResolvers<End>();
  socket.onmessage = ({ data }) => void writer.write(data);
  socket.onclose = ({ code, reason }) => ended.resolve([code, reason]);
  const refusal = await new Promise<string | undefined>((resolve) => {
    socket.onopen = () => resolve(undefined);
    socket.onerror = (event) => resolve((event as ErrorEvent).message);
  });
  return { socket, refusal, next: async () => (await reader.read()).value, ended: ended.promise };
}

/** An upstream that makes every request a WebSocket. */
function accepting(
  use: (socket: WebSocket, url: string, headers: [string, string][]) => void,
  options: Deno.UpgradeWebSocketOptions = {},
) {
  return served((request) => {
    const { url, headers } = request;
    const sent = [...headers]; // not to be read any more after the next line
    const { socket, response } = Deno.upgradeWebSocket(request, options);
    socket.binaryType = "arraybuffer";
    use(socket, url, sent);
    return response;
  });
}

function echo(socket: WebSocket): void {
  socket.onmessage = ({ data }) => socket.send(data);
}

/** An upstream that speaks the WebSocket protocol by hand: it accepts, sends these bytes and reads until the end. */
function framing(bytes: string): Upstream {
  return scripted(async (line) => {
    const [, key] = /^sec-websocket-key: (.*)\r$/im.exec(await line.head() ?? "") ?? [];
    const digest = await crypto.subtle.digest("SHA-1", new TextEncoder().encode(`${key}${GUID}`));
    const accept = new Uint8Array(digest).toBase64();
    await line.write(
      `HTTP/1.1 101 Ok\r\nUpgrade: websocket\r\nConnection: upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`,
    );
    await line.write(bytes);
    if (bytes !== "") await line.read();
  });
}

/** RFC 6455 §1.3. */
const GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

const HANDSHAKE = "GET / HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: keep-alive, Upgrade\r\n" +
  "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

Deno.test("proxyWebSocket() passes text and bytes both ways, in order", async () => {
  await using upstream = accepting(echo);
  await using gateway = proxied(upstream);
  const { socket, next, ended } = await connected(gateway.port);
  const messages = ["Grüße", new Uint8Array([0, 255]).buffer, "", new ArrayBuffer(0), "x".repeat(300_000)];
  for (const message of messages) socket.send(message);
  for (const message of messages) assertEquals(await next(), message);
  socket.close();
  await ended;
});

Deno.test("proxyWebSocket() loses nothing that the upstream says at once", async () => {
  await using upstream = accepting((socket) => {
    socket.onopen = () => {
      for (const message of ["one", "two", "three"]) socket.send(message);
      socket.close(4001, "done");
    };
  });
  await using gateway = proxied(upstream);
  const { next, ended } = await connected(gateway.port);
  assertEquals([await next(), await next(), await next(), await ended], ["one", "two", "three", [4001, "done"]]);
});

Deno.test("proxyWebSocket() passes path, query, and the client's own headers, and its own word on the client", async () => {
  const seen = Promise.withResolvers<[string, [string, string][]]>();
  await using upstream = accepting((_socket, ...asked) => seen.resolve(asked));
  await using gateway = proxied(upstream, { base: "/base" });
  const headers = {
    "authorization": "Basic eDp5",
    "cookie": "a=1",
    "origin": "https://app.example",
    "x-forwarded-for": "1.2.3.4",
    "x-real-ip": "1.2.3.4",
  };
  const { socket, ended } = await connected(gateway.port, "//evil/x%2f?y=%2f", { headers });
  const [url, sent] = await seen.promise;
  assertEquals(url, `http://127.0.0.1:${upstream.port}/base//evil/x%2f?y=%2f`);
  assertEquals(sent.filter(([name]) => !["sec-websocket-key", "user-agent"].includes(name)), [
    ["authorization", "Basic eDp5"],
    ["connection", "Upgrade"],
    ["cookie", "a=1"],
    ["host", `127.0.0.1:${upstream.port}`],
    ["origin", "https://app.example"],
    ["sec-websocket-version", "13"],
    ["upgrade", "websocket"],
    ["x-forwarded-for", "127.0.0.1"],
    ["x-forwarded-host", `127.0.0.1:${gateway.port}`],
    ["x-forwarded-proto", "http"],
  ]);
  socket.close();
  await ended;
});

Deno.test("proxyWebSocket() lets the upstream choose the subprotocol, or none", async () => {
  for (const protocol of ["two", undefined]) {
    await using upstream = accepting(echo, protocol === undefined ? {} : { protocol });
    await using gateway = proxied(upstream);
    const { socket, ended } = await connected(gateway.port, "/", { protocols: ["one", "two"] });
    assertEquals(socket.protocol, protocol ?? "");
    socket.close();
    await ended;
  }
});

Deno.test("proxyWebSocket() gives the client's close code and reason to the upstream", async () => {
  for (
    const [code, reason, seen] of [[1000, "bye", 1000], [4321, "Grüße", 4321], [undefined, undefined, 1005]] as const
  ) {
    const ended = Promise.withResolvers<End>();
    await using upstream = accepting((socket) => {
      socket.onclose = ({ code, reason }) => ended.resolve([code, reason]);
    });
    await using gateway = proxied(upstream);
    (await connected(gateway.port)).socket.close(code, reason);
    assertEquals(await ended.promise, [seen, reason ?? ""]);
  }
});

Deno.test("proxyWebSocket() gives the upstream's close code and reason to the client", async () => {
  for (
    const [frame, end] of [
      ["\x88\x05\x03\xe8bye", [1000, "bye"]],
      ["\x88\x02\x0b\xb8", [3000, ""]],
      ["\x88\x00", [1005, ""]],
      ["\x88\x04\x03\xe9up", [4901, "up"]], // 1001, which close() does not take
      ["\x88\x02\x03\xf3", [4911, ""]], // 1011
      ["", [4906, ""]], // closed without a word
      ["\x81\x01\xff", [4906, ""]], // no UTF-8
    ] as const
  ) {
    await using upstream = framing(frame);
    await using gateway = proxied(upstream);
    assertEquals(await (await connected(gateway.port)).ended, [...end], JSON.stringify(frame));
  }
});

Deno.test("proxyWebSocket() tells the upstream when the client's connection breaks", async () => {
  const ended = Promise.withResolvers<number>();
  await using upstream = accepting((socket) => {
    socket.onclose = ({ code }) => ended.resolve(code);
  });
  await using gateway = proxied(upstream);
  const client = await dialed(gateway.port);
  await client.write(HANDSHAKE);
  assertEquals((await client.head())?.split("\r\n")[0], "HTTP/1.1 101 Switching Protocols");
  client.close();
  assertEquals(await ended.promise, 4906);
});

Deno.test("proxyWebSocket() does not accept the client where the upstream refuses", async () => {
  await using upstream = served(() => new Response("no", { status: 401 }));
  await using gateway = proxied(upstream);
  const { refusal, ended } = await connected(gateway.port, "/ws?secret");
  await ended;
  assertEquals(refusal, "NetworkError: failed to connect to WebSocket: Invalid status code: 502");
  const reason = "NetworkError: failed to connect to WebSocket: Invalid status code: 401";
  assertEquals(gateway.warnings, [["rep.upstream.failed", { reason, method: "GET", path: "/ws" }]]);
});

Deno.test("proxyWebSocket() does not accept a subprotocol that the client did not offer", async () => {
  await using upstream = served((request) => {
    const { response } = Deno.upgradeWebSocket(request);
    response.headers.set("sec-websocket-protocol", "other");
    return response;
  });
  await using gateway = proxied(upstream);
  const { refusal, ended } = await connected(gateway.port, "/", { protocols: ["one"] });
  await ended;
  assertEquals(refusal, "NetworkError: failed to connect to WebSocket: Invalid status code: 502");
});

Deno.test("proxyWebSocket() refuses a handshake that is none, without asking the upstream", async () => {
  await using gateway = proxied({ port: 9 });
  for (
    const [wrong, status] of [
      [HANDSHAKE.replace("Version: 13", "Version: 8"), 426],
      [HANDSHAKE.replace("keep-alive, Upgrade", "keep-alive"), 400],
      [HANDSHAKE.replace(/Sec-WebSocket-Key.*\r\n/, ""), 400],
      [HANDSHAKE.replace("Host: h", "Host: h\r\nSec-WebSocket-Protocol: a, a"), 400],
      [HANDSHAKE.replace("Host: h", "Host: h\r\nSec-WebSocket-Protocol: a b"), 400],
    ] as const
  ) {
    using client = await dialed(gateway.port);
    await client.write(wrong);
    assertEquals((await client.head())?.slice(0, 13), `HTTP/1.1 ${status} `);
  }
  assertEquals(gateway.warnings, []);
});

Deno.test("proxyWebSocket() gives up an upstream that does not answer the handshake", async () => {
  const clock = manualClock();
  const left = Promise.withResolvers<unknown>();
  await using upstream = scripted(async (line) => {
    await line.head();
    clock.ring();
    left.resolve(await line.head());
  });
  await using gateway = proxied(upstream, { clock });
  using client = await dialed(gateway.port);
  await client.write(HANDSHAKE);
  assertEquals((await client.head())?.slice(0, 13), "HTTP/1.1 504 ");
  assertEquals(await left.promise, undefined);
});

Deno.test("proxyWebSocket() gives up the handshake when the client leaves", async () => {
  const asked = Promise.withResolvers<void>();
  const left = Promise.withResolvers<unknown>();
  await using upstream = scripted(async (line) => {
    await line.head();
    asked.resolve();
    left.resolve(await line.head());
  });
  await using gateway = proxied(upstream);
  const client = await dialed(gateway.port);
  await client.write(HANDSHAKE);
  await asked.promise;
  client.close();
  assertEquals(await left.promise, undefined);
  assertEquals(gateway.warnings, []);
});

Deno.test("proxyWebSocket() ends both sides when one of them does not read", async () => {
  const ended = Promise.withResolvers<End>();
  const begun = Promise.withResolvers<WebSocket>();
  await using upstream = accepting((socket) => {
    socket.onopen = () => begun.resolve(socket);
    socket.onclose = ({ code, reason }) => ended.resolve([code, reason]);
  });
  await using gateway = proxied(upstream);
  const client = await dialed(gateway.port);
  await client.write(HANDSHAKE);
  await client.head();
  const socket = await begun.promise;
  for (let i = 0; i < 48; i++) socket.send(new Uint8Array(1024 * 1024));
  assertEquals(await ended.promise, [4913, "The other side does not read"]);
  client.close();
});

Deno.test("close() ends the WebSockets on both sides", async () => {
  const ended = Promise.withResolvers<End>();
  await using upstream = accepting((socket) => {
    socket.onclose = ({ code, reason }) => ended.resolve([code, reason]);
  });
  await using gateway = proxied(upstream);
  const client = await connected(gateway.port);
  gateway.proxy.close();
  const end: End = [4901, "The gateway has closed the connection"];
  assertEquals([await client.ended, await ended.promise], [end, end]);
});
