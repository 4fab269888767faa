import { serveLocally } from "../../_serve.ts";
import { assertEquals, assertMatch } from "@std/assert";
import {
  connectRaw,
  manualClock,
  scriptedUpstream,
  serveProxy,
} from "./_servers.ts";
import {
  allowedCode,
  WebSocketPeer,
} from "../../../src/content/proxy/websocket.ts";
import { FakeClock } from "../../../tools/fake_clock.ts";

/** The code and the reason of a close event. */
type Close = [code: number, reason: string];

/** Opens a WebSocket whose messages can be awaited. */
async function openWebSocket(
  port: number,
  path = "/",
  options: WebSocketOptions = {},
) {
  const socket = new WebSocket(`ws://127.0.0.1:${port}${path}`, options);
  socket.binaryType = "arraybuffer";
  const { readable, writable } = new TransformStream<string | ArrayBuffer>({}, {
    highWaterMark: 1000,
  });
  const writer = writable.getWriter();
  const reader = readable.getReader();
  const closed = Promise.withResolvers<Close>();
  socket.onmessage = ({ data }) => void writer.write(data);
  socket.onclose = ({ code, reason }) => closed.resolve([code, reason]);
  const failure = await new Promise<string | undefined>((resolve) => {
    socket.onopen = () => resolve(undefined);
    socket.onerror = (event) => resolve((event as ErrorEvent).message);
  });
  return {
    socket,
    failure,
    next: async () => (await reader.read()).value,
    closed: closed.promise,
  };
}

/** An upstream that accepts every request as a WebSocket. */
function webSocketUpstream(
  use: (socket: WebSocket, url: string, headers: [string, string][]) => void,
  options: Deno.UpgradeWebSocketOptions = {},
) {
  return serveLocally((request) => {
    const { url, headers } = request;
    const sent = [...headers]; // a request cannot be read after the upgrade
    const { socket, response } = Deno.upgradeWebSocket(request, options);
    socket.binaryType = "arraybuffer";
    use(socket, url, sent);
    return response;
  });
}

function echo(socket: WebSocket) {
  socket.onmessage = ({ data }) => socket.send(data);
}

/** An upstream that accepts a WebSocket, sends the bytes, and waits for the peer. */
function rawWebSocketUpstream(
  bytes: string,
  onReceived = () => Promise.resolve(),
) {
  return scriptedUpstream(async (connection) => {
    const [, key] =
      /^sec-websocket-key: (.*)\r$/im.exec(await connection.readHead() ?? "") ??
        [];
    const digest = await crypto.subtle.digest(
      "SHA-1",
      new TextEncoder().encode(`${key}${GUID}`),
    );
    const accept = new Uint8Array(digest).toBase64();
    await connection.write(
      `HTTP/1.1 101 Ok\r\nUpgrade: websocket\r\nConnection: upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`,
    );
    await connection.write(bytes);
    if (bytes === "") return;
    await connection.read();
    await onReceived();
  });
}

/** RFC 6455 §1.3. */
const GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

const MEBIBYTE = new Uint8Array(1024 * 1024);

const HANDSHAKE =
  "GET / HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: keep-alive, Upgrade\r\n" +
  "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

Deno.test("proxyWebSocket() forwards text and bytes in both directions, in order", async () => {
  await using upstream = webSocketUpstream(echo);
  await using gateway = serveProxy(upstream);
  const { socket, next, closed } = await openWebSocket(gateway.port);
  const messages = [
    "Grüße",
    new Uint8Array([0, 255]).buffer,
    "",
    new ArrayBuffer(0),
    "x".repeat(300_000),
  ];
  for (const message of messages) socket.send(message);
  for (const message of messages) assertEquals(await next(), message);
  socket.close();
  await closed;
});

Deno.test("proxyWebSocket() forwards messages that the upstream sends immediately", async () => {
  await using upstream = webSocketUpstream((socket) => {
    socket.onopen = () => {
      for (const message of ["one", "two", "three"]) socket.send(message);
      socket.close(4001, "done");
    };
  });
  await using gateway = serveProxy(upstream);
  const { next, closed } = await openWebSocket(gateway.port);
  assertEquals([await next(), await next(), await next(), await closed], [
    "one",
    "two",
    "three",
    [4001, "done"],
  ]);
});

Deno.test("proxyWebSocket() forwards path, query and headers, and replaces those that describe the client", async () => {
  const received = Promise.withResolvers<[string, [string, string][]]>();
  await using upstream = webSocketUpstream((_socket, ...request) =>
    received.resolve(request)
  );
  await using gateway = serveProxy(upstream, { base: "/base" });
  const headers = {
    "authorization": "Basic eDp5",
    "cookie": "a=1",
    "origin": "https://app.example",
    "x-forwarded-for": "1.2.3.4",
    "x-real-ip": "1.2.3.4",
  };
  const { socket, closed } = await openWebSocket(
    gateway.port,
    "//evil/x%2f?y=%2f",
    { headers },
  );
  const [url, sent] = await received.promise;
  assertEquals(url, `http://127.0.0.1:${upstream.port}/base//evil/x%2f?y=%2f`);
  assertEquals(
    sent.filter(([name]) =>
      !["sec-websocket-key", "user-agent"].includes(name)
    ),
    [
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
    ],
  );
  socket.close();
  await closed;
});

Deno.test("proxyWebSocket() sends the upstream's own Host, once, even with preserveHost", async () => {
  const received = Promise.withResolvers<[string, [string, string][]]>();
  await using upstream = webSocketUpstream((_socket, ...request) =>
    received.resolve(request)
  );
  await using gateway = serveProxy(upstream, { preserveHost: true });
  const { socket, closed } = await openWebSocket(gateway.port, "/", {});
  const [, sent] = await received.promise;
  assertEquals(sent.filter(([name]) => name === "host"), [[
    "host",
    `127.0.0.1:${upstream.port}`,
  ]]);
  socket.close();
  await closed;
});

Deno.test("proxyWebSocket() accepts the subprotocol that the upstream selects, or none", async () => {
  for (const protocol of ["two", undefined]) {
    await using upstream = webSocketUpstream(
      echo,
      protocol === undefined ? {} : { protocol },
    );
    await using gateway = serveProxy(upstream);
    const { socket, closed } = await openWebSocket(gateway.port, "/", {
      protocols: ["one", "two"],
    });
    assertEquals(socket.protocol, protocol ?? "");
    socket.close();
    await closed;
  }
});

/** Legal spellings of a list (RFC 9110 §5.6.1). React Native and `ws` write no space. */
const OFFERS = [
  "one, two",
  "one,two",
  "one ,\ttwo",
  ",one,,two,",
  "one\r\nSec-WebSocket-Protocol: two",
];

Deno.test("proxyWebSocket() accepts a subprotocol in every spelling of the list", async () => {
  await using upstream = webSocketUpstream(echo, { protocol: "two" });
  await using gateway = serveProxy(upstream);
  for (const offer of OFFERS) {
    const header = `Host: h\r\nSec-WebSocket-Protocol: ${offer}`;
    const handshake = HANDSHAKE.replace("Host: h", header);
    using client = await connectRaw(gateway.port, handshake);
    const head = await client.readHead();
    assertMatch(
      head ?? "",
      /^HTTP\/1\.1 101 [^]*sec-websocket-protocol: two\r/,
    );
  }
});

Deno.test("proxyWebSocket() forwards the client's close code and reason to the upstream", async () => {
  for (
    const [code, reason, seen] of [[1000, "bye", 1000], [4321, "Grüße", 4321], [
      undefined,
      undefined,
      1005,
    ]] as const
  ) {
    const closed = Promise.withResolvers<Close>();
    await using upstream = webSocketUpstream((socket) => {
      socket.onclose = ({ code, reason }) => closed.resolve([code, reason]);
    });
    await using gateway = serveProxy(upstream);
    (await openWebSocket(gateway.port)).socket.close(code, reason);
    assertEquals(await closed.promise, [seen, reason ?? ""]);
  }
});

Deno.test("proxyWebSocket() forwards the upstream's close code and reason to the client", async () => {
  for (
    const [frame, end] of [
      ["\x88\x05\x03\xe8bye", [1000, "bye"]],
      ["\x88\x02\x0b\xb8", [3000, ""]],
      ["\x88\x00", [1005, ""]],
      ["\x88\x04\x03\xe9up", [4901, "up"]], // 1001, which close() does not accept
      ["\x88\x02\x03\xf3", [4911, ""]], // 1011
    ] as const
  ) {
    await using upstream = rawWebSocketUpstream(frame);
    await using gateway = serveProxy(upstream);
    assertEquals(
      await (await openWebSocket(gateway.port)).closed,
      [...end],
      JSON.stringify(frame),
    );
  }
});

Deno.test("proxyWebSocket() closes the client's WebSocket uncleanly if the upstream's connection breaks", async () => {
  for (const frame of ["", "\x81\x01\xff"]) { // closed without a close frame; invalid UTF-8
    await using upstream = rawWebSocketUpstream(frame);
    await using gateway = serveProxy(upstream);
    using client = await connectRaw(gateway.port, HANDSHAKE);
    await client.readHead();
    assertEquals(await client.read(), "\x88\x01!"); // a body of one byte is invalid (RFC 6455 §5.5.1)
    assertEquals(await (await openWebSocket(gateway.port)).closed, [0, ""]); // in Deno, 0 stands for 1006
  }
});

Deno.test("proxyWebSocket() closes the upstream's WebSocket if the client's connection breaks", async () => {
  const closed = Promise.withResolvers<number>();
  await using upstream = webSocketUpstream((socket) => {
    socket.onclose = ({ code }) => closed.resolve(code);
  });
  await using gateway = serveProxy(upstream);
  const client = await connectRaw(gateway.port, HANDSHAKE);
  assertEquals(await client.readStatus(), 101);
  client.close();
  assertEquals(await closed.promise, 4906);
});

Deno.test("proxyWebSocket() does not accept the client if the upstream rejects the handshake", async () => {
  await using upstream = serveLocally(() =>
    new Response("no", { status: 401 })
  );
  await using gateway = serveProxy(upstream);
  const { failure, closed } = await openWebSocket(gateway.port, "/ws?secret");
  await closed;
  assertEquals(
    failure,
    "NetworkError: failed to connect to WebSocket: Invalid status code: 502",
  );
  const detail =
    "NetworkError: failed to connect to WebSocket: Invalid status code: 401";
  assertEquals(gateway.warnings, [
    ["rep.upstream.failed", {
      reason: "unreachable",
      detail,
      method: "GET",
      path: "/ws",
    }],
  ]);
  await gateway.transfers.idle();
});

Deno.test("proxyWebSocket() does not accept a subprotocol that the client did not offer", async () => {
  await using upstream = serveLocally((request) => {
    const { response } = Deno.upgradeWebSocket(request);
    response.headers.set("sec-websocket-protocol", "other");
    return response;
  });
  await using gateway = serveProxy(upstream);
  const { failure, closed } = await openWebSocket(gateway.port, "/", {
    protocols: ["one"],
  });
  await closed;
  assertEquals(
    failure,
    "NetworkError: failed to connect to WebSocket: Invalid status code: 502",
  );
});

Deno.test("proxyWebSocket() rejects an invalid handshake without contacting the upstream", async () => {
  await using gateway = serveProxy({ port: 9 });
  for (
    const [handshake, status] of [
      [HANDSHAKE.replace("Version: 13", "Version: 8"), 400],
      [HANDSHAKE.replace("keep-alive, Upgrade", "keep-alive"), 400],
      [HANDSHAKE.replace(/Sec-WebSocket-Key.*\r\n/, ""), 400],
      [
        HANDSHAKE.replace("Host: h", "Host: h\r\nSec-WebSocket-Protocol: a, a"),
        400,
      ],
      [
        HANDSHAKE.replace("Host: h", "Host: h\r\nSec-WebSocket-Protocol: a b"),
        400,
      ],
    ] as const
  ) {
    using client = await connectRaw(gateway.port, handshake);
    assertEquals(await client.readStatus(), status);
  }
  assertEquals(gateway.warnings, []);
});

Deno.test("proxyWebSocket() responds with 504 if the handshake does not complete in time", async () => {
  const clock = manualClock();
  const disconnected = Promise.withResolvers<unknown>();
  await using upstream = scriptedUpstream(async (connection) => {
    await connection.readHead();
    clock.fire();
    disconnected.resolve(await connection.readHead());
  });
  await using gateway = serveProxy(upstream, { clock });
  using client = await connectRaw(gateway.port, HANDSHAKE);
  assertEquals(await client.readStatus(), 504);
  assertEquals(await disconnected.promise, undefined);
});

Deno.test("proxyWebSocket() aborts the handshake if the client disconnects", async () => {
  const received = Promise.withResolvers<void>();
  const disconnected = Promise.withResolvers<unknown>();
  await using upstream = scriptedUpstream(async (connection) => {
    await connection.readHead();
    received.resolve();
    disconnected.resolve(await connection.readHead());
  });
  await using gateway = serveProxy(upstream);
  const client = await connectRaw(gateway.port, HANDSHAKE);
  await received.promise;
  client.close();
  assertEquals(await disconnected.promise, undefined);
  assertEquals(gateway.warnings, []);
});

/** An upstream that sends more than the system buffers and the gateway hold for a client that does not read. */
function floodingUpstream() {
  const closed = Promise.withResolvers<Close>();
  const server = webSocketUpstream((socket) => {
    socket.onopen = () =>
      Array(40).fill(MEBIBYTE).forEach((message) => socket.send(message));
    socket.onclose = ({ code, reason }) => closed.resolve([code, reason]);
  });
  return { server, closed: closed.promise };
}

Deno.test("proxyWebSocket() closes both WebSockets if a client does not read its messages", async () => {
  const { server, closed } = floodingUpstream();
  await using upstream = server;
  await using gateway = serveProxy(upstream);
  const client = await connectRaw(gateway.port, HANDSHAKE);
  await client.readHead();
  assertEquals(await closed, TOO_SLOW);
  client.close();
  await gateway.transfers.idle(); // until the gateway's WebSocket has ended, too
});

Deno.test("a WebSocket that holds messages for its client is a transfer until the client disconnects", async () => {
  const clock = new FakeClock();
  const { server, closed } = floodingUpstream();
  await using upstream = server;
  await using gateway = serveProxy(upstream, { clock });
  const client = await connectRaw(gateway.port, HANDSHAKE);
  await client.readHead();
  await closed;
  let isIdle = false;
  const idle = gateway.transfers.idle().then(() => isIdle = true);
  await clock.tick(60_000);
  assertEquals(isIdle, false);
  client.close();
  await idle;
});

Deno.test("close() closes the WebSockets of both peers, and idle() resolves", async () => {
  const closed = Promise.withResolvers<Close>();
  await using upstream = webSocketUpstream((socket) => {
    socket.onclose = ({ code, reason }) => closed.resolve([code, reason]);
  });
  await using gateway = serveProxy(upstream);
  const client = await openWebSocket(gateway.port);
  const drained = gateway.transfers.idle();
  gateway.proxy.close();
  const end: Close = [4901, "The gateway has closed the connection"];
  assertEquals([await client.closed, await closed.promise], [end, end]);
  await drained;
});

Deno.test("idle() waits for WebSockets until both peers are closed", async () => {
  await using upstream = webSocketUpstream(echo);
  await using gateway = serveProxy(upstream);
  const client = await openWebSocket(gateway.port);
  let isDrained = false;
  const drained = gateway.transfers.idle().then(() => isDrained = true);
  client.socket.send("one");
  await client.next();
  assertEquals(isDrained, false);
  client.socket.close();
  await drained;
});

Deno.test("a WebSocket that the upstream drops as soon as it has accepted it does not count as open", async () => {
  await using upstream = rawWebSocketUpstream("");
  await using gateway = serveProxy(upstream, { maxTransfers: 10 }); // one client has half of them
  const failures: unknown[] = [];
  for (let opened = 0; opened < 20; opened++) {
    const { failure, closed } = await openWebSocket(gateway.port);
    failures.push(failure);
    await closed;
  }
  assertEquals(failures, Array(20).fill(undefined));
});

Deno.test("a WebSocket whose client ignores its close is no transfer after 5 s", async () => {
  const clock = new FakeClock();
  await using upstream = webSocketUpstream((socket) => {
    socket.onopen = () => socket.close(1000, "bye");
  });
  await using gateway = serveProxy(upstream, { clock, maxTransfers: 2 }); // one client has half of them
  const clients = [];
  for (const [ms, status] of [[0, 101], [4_999, 429], [1, 101]]) {
    await clock.tick(ms!);
    const client = await connectRaw(gateway.port);
    clients.push(client);
    await client.write(HANDSHAKE);
    assertEquals(await client.readStatus(), status);
    if (status === 101) {
      assertEquals(await client.read(), "\x88\x05\x03\xe8bye");
    }
  }
  for (const client of clients) client.close();
  await gateway.transfers.idle();
});

Deno.test("a WebSocket whose upstream ignores its close is no transfer after 5 s", async () => {
  const clock = new FakeClock();
  const received = Promise.withResolvers<void>();
  const end = Promise.withResolvers<void>();
  await using upstream = rawWebSocketUpstream("\x81\x02hi", async () => {
    received.resolve();
    await end.promise;
  });
  await using gateway = serveProxy(upstream, { clock });
  const client = await connectRaw(gateway.port, HANDSHAKE);
  await client.readHead();
  assertEquals(await client.read(), "\x81\x02hi");
  client.close();
  await received.promise;
  let isDrained = false;
  const drained = gateway.transfers.idle().then(() => isDrained = true);
  await clock.tick(4_999);
  assertEquals(isDrained, false);
  await clock.tick(1);
  await drained;
  end.resolve();
});

Deno.test("with rejectWebsockets, a handshake is 501, and the upstream is not asked", async () => {
  let requests = 0;
  await using upstream = serveLocally(() => {
    requests++;
    return new Response();
  });
  await using gateway = serveProxy(upstream, { rejectWebsockets: true });
  const { failure } = await openWebSocket(gateway.port);
  assertEquals([failure?.includes("501"), requests], [true, 0]);
});

/** A WebSocket without a network, which records its calls. */
class FakeSocket extends EventTarget {
  readyState: number = WebSocket.CONNECTING;
  bufferedAmount = 0;
  binaryType = "blob";
  readonly calls: unknown[] = [];

  open() {
    this.readyState = WebSocket.OPEN;
    this.dispatchEvent(new Event("open"));
  }

  receive(data: unknown) {
    this.dispatchEvent(new MessageEvent("message", { data }));
  }

  send(data: unknown) {
    this.calls.push(data);
  }

  /** As Deno's, it says no more how much is waiting to be sent. */
  close(...closeArguments: unknown[]) {
    this.readyState = WebSocket.CLOSING;
    this.bufferedAmount = 0;
    this.calls.push(closeArguments);
  }
}

/** Two peers. The messages of the first one are forwarded once the second one is open. */
function setUp() {
  const [from, to] = [new FakeSocket(), new FakeSocket()];
  const fromPeer = new WebSocketPeer(from as unknown as WebSocket, "upstream");
  const toPeer = new WebSocketPeer(to as unknown as WebSocket, "client");
  toPeer.forwardTo(fromPeer);
  to.addEventListener("open", () => fromPeer.forwardTo(toPeer));
  return { from, to, toPeer };
}

/** How a WebSocket sees that it was closed because its peer does not read. */
const TOO_SLOW: Close = [4913, "A peer reads too slowly"];
const LIMIT = 4 * 1024 * 1024;

Deno.test("WebSocketPeer keeps messages and the close until the other one is open", () => {
  const { from, to, toPeer } = setUp();
  from.open();
  from.receive("one");
  const close = { code: 4000, reason: "bye", wasClean: true };
  from.dispatchEvent(new CloseEvent("close", close));
  assertEquals(to.calls, []);
  to.open();
  toPeer.send("dropped");
  assertEquals(to.calls, ["one", [4000, "bye"]]);
});

Deno.test("WebSocketPeer closes both peers instead of sending more while over 4 MiB wait to be sent", () => {
  for (
    const [bufferedAmount, toCalls, fromCalls] of [
      [LIMIT, ["x"], []],
      [LIMIT + 1, [TOO_SLOW], [TOO_SLOW]],
    ] as const
  ) {
    const { from, to } = setUp();
    from.open();
    to.open();
    to.bufferedAmount = bufferedAmount;
    from.receive("x");
    assertEquals([to.calls, from.calls], [[...toCalls], [...fromCalls]]);
  }
});

Deno.test("WebSocketPeer sends one message of any size", () => {
  const { from, to } = setUp();
  from.open();
  to.open();
  const message = new ArrayBuffer(2 * LIMIT);
  from.receive(message);
  assertEquals(to.calls, [message]);
});

Deno.test("WebSocketPeer counts what it keeps until the other one is open", () => {
  const { from, to } = setUp();
  from.open();
  from.receive(new ArrayBuffer(LIMIT));
  from.receive("x");
  assertEquals(from.calls, []);
  from.receive("y");
  assertEquals(from.calls, [TOO_SLOW]);
  to.open();
  assertEquals(to.calls.length, 2);
  from.receive("z"); // again, it is counted where it waits to be sent
  assertEquals(to.calls.length, 3);
});

Deno.test("WebSocketPeer remembers whether anything was waiting to be sent when it began to close", () => {
  for (const bufferedAmount of [0, 1]) {
    const { to, toPeer } = setUp();
    to.open();
    to.bufferedAmount = bufferedAmount;
    toPeer.close(1000, "");
    assertEquals(toPeer.holdsAtClose, bufferedAmount === 1);
  }
});

Deno.test("allowedCode() returns codes that close() accepts unchanged, and others as 49xx", () => {
  for (
    const [code, allowed] of [
      [1000, 1000],
      [1001, 4901],
      [1006, 4906],
      [1011, 4911],
      [1015, 4915],
      [0, 4906],
      [999, 4906],
      [2000, 4906],
      [2999, 4906],
      [3000, 3000],
      [4999, 4999],
      [5000, 4906],
    ] as const
  ) {
    assertEquals(allowedCode(code), allowed);
  }
});
