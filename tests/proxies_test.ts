/** The limits of the proxies in `examples/proxies`, and what passes through them. */
import { assertEquals, assertLess } from "@std/assert";
import { type Clock, systemClock } from "../src/core/values/clock.ts";
import type { GatewayOptions } from "../src/options.ts";
import { type AppClient, HOST, TLS } from "./_app_client.ts";
import { setUp, type TestGateway } from "./_gateway.ts";
import {
  atPorts,
  PROXIES,
  type ProxyProgram,
  readConfig,
  replaceAll,
  RunningProxy,
  testProxy,
} from "./_proxy.ts";
import { readSse, type SseReader } from "./_sse.ts";
import { serveLocally } from "./_serve.ts";
import { medianOf } from "./_time.ts";

/** Ten times faster than the real one: a heartbeat after 1.2 to 1.5 s. */
const FAST_CLOCK: Clock = {
  now: () => systemClock.now() * 10,
  monotonic: () => systemClock.monotonic() * 10,
  after: (ms, callback, options) =>
    systemClock.after(ms / 10, callback, options),
};

const HEARTBEAT_MS = 1_200;

/** The proxies' limits, shortened: the time for a head, and the time without a byte, which is more than a heartbeat. */
const LIMITS = { head: 3, idle: 3 };
const { idle: IDLE_S } = LIMITS;

/** A gateway behind a proxy. */
interface ProxiedGateway extends TestGateway {
  port: number;
  /** A client with HTTP/1.1, and one with HTTP/2. */
  apps: [AppClient, AppClient];
}

async function startProxied(
  { program, path }: { program: ProxyProgram; path: string },
  options: GatewayOptions,
) {
  await using stack = new AsyncDisposableStack();
  const variables = { REP_PUBLIC_A: "1", REP_SENSITIVE_B: "2" };
  const gate = stack.use(
    await setUp(variables, { trustedProxies: ["127.0.0.1"], ...options }),
  );
  const { gateway } = gate;
  const serve = (handler: Deno.ServeHandler<Deno.NetAddr>) => {
    const server = serveLocally(handler);
    stack.defer(() => server.shutdown());
    return server.port;
  };
  const ports = new Map([[8080, serve(gateway.fetch)], [
    8081,
    serve((request) => gateway.fetchHealth(request)),
  ]]);
  stack.defer(() => gateway.close()); // ends the streams, for which the servers would wait
  const config = replaceAll(
    atPorts(await readConfig(program), ports),
    program.limits(LIMITS),
  );
  const proxy = stack.use(await RunningProxy.start(program, path, config));
  const apps: [AppClient, AppClient] = [
    await proxy.client({ http: 1 }),
    await proxy.client({ http: 2 }),
  ];
  const all = stack.move();
  return {
    ...gate,
    port: proxy.port,
    apps,
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
}

/** Returns after how many milliseconds the proxy closes a connection, of which it answers no more than an error. */
async function closedAfter(connection: Deno.Conn) {
  const start = performance.now();
  const buffer = new Uint8Array(1024);
  while (await connection.read(buffer).catch(() => null) !== null);
  connection.close();
  return performance.now() - start;
}

async function openStream(app: AppClient) {
  const headers = { "accept": "text/event-stream", "accept-encoding": "gzip" };
  const response = await app.fetch("/rep/changes", { headers });
  assertEquals([response.status, response.headers.get("content-encoding")], [
    200,
    null,
  ]);
  const stream = readSse(response);
  while (!stream.text().includes(": connected")) await stream.pull();
  return stream;
}

async function testStreams({ apps, set }: ProxiedGateway) {
  const streams = await Promise.all(apps.map(openStream));
  const times: number[] = [];
  for (const value of ["2", "3", "4", "5", "6"]) {
    const start = performance.now();
    await set({ REP_PUBLIC_A: value, REP_SENSITIVE_B: "2" });
    await Promise.all(streams.map((stream) => readUntil(stream, value)));
    times.push(performance.now() - start);
  }
  assertLess(medianOf(times), HEARTBEAT_MS, `the events took ${times} ms`); // a proxy that buffers waits for more bytes
  await Promise.all(streams.map(staysOpen));
}

async function readUntil(stream: SseReader, value: string) {
  const message = await stream.next();
  if (message === undefined) {
    throw new Error(`The stream ended before the value ${value}`);
  }
  if (message.data.value !== value) await readUntil(stream, value);
}

async function staysOpen(stream: SseReader) {
  const start = performance.now();
  while (performance.now() - start < 2 * IDLE_S * 1000) {
    assertEquals(await stream.pull(), true);
  }
  await stream.close();
}

async function testTimeouts({ port }: ProxiedGateway) {
  const caCerts = [await Deno.readTextFile(new URL("ca.crt", TLS))];
  const connect = () => Deno.connect({ hostname: "127.0.0.1", port });
  const open = async () =>
    await Deno.startTls(await connect(), {
      hostname: HOST,
      caCerts,
      alpnProtocols: ["http/1.1"],
    });
  const [noHandshake, silent, halfHead] = [
    await connect(),
    await open(),
    await open(),
  ];
  await silent.handshake();
  await halfHead.write(
    new TextEncoder().encode(`GET / HTTP/1.1\r\nHost: ${HOST}\r\nX-Half:`),
  );
  const times = await Promise.all(
    [noHandshake, silent, halfHead].map(closedAfter),
  );
  assertEquals(
    times.every((ms) => ms < (IDLE_S + 5) * 1000), // the machine may be busy
    true,
    `closed after ${times.join(", ")} ms`,
  );
}

/** An upstream that counts the bytes of uploads, and echoes the messages of WebSockets. */
function startUpstream() {
  return serveLocally(async (request) => {
    if (request.headers.get("upgrade") === "websocket") {
      const { socket, response } = Deno.upgradeWebSocket(request);
      socket.addEventListener(
        "message",
        ({ data }) => socket.send(`echo ${data}`),
      );
      return response;
    }
    let bytes = 0;
    for await (const chunk of request.body ?? []) {
      bytes += chunk.length;
    }
    return new Response(`${bytes}`);
  });
}

/** More than the 1 MB that nginx allows if nothing else is set. */
const UPLOAD_BYTES = 5_000_000;

/** Sends a message through a WebSocket, and returns the answer. */
async function echoOf(message: string, { client }: AppClient) {
  const socket = new WebSocket(`wss://${HOST}/socket`, { client });
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  socket.addEventListener("open", () => socket.send(message));
  socket.addEventListener("message", ({ data }) => resolve(data));
  socket.addEventListener(
    "error",
    (event) => reject(new Error((event as ErrorEvent).message)),
  );
  const closed = new Promise((resolve) =>
    socket.addEventListener("close", resolve)
  );
  try {
    return await promise;
  } finally {
    socket.close();
    await closed;
  }
}

for (const program of PROXIES) {
  await testProxy(
    program,
    `${program.name} keeps streams over HTTP/1.1 and HTTP/2, passes events on at once, and closes silent connections`,
    async (path) => {
      await using proxied = await startProxied({ program, path }, {
        clock: FAST_CLOCK,
      });
      await Promise.all([testStreams(proxied), testTimeouts(proxied)]);
    },
  );

  await testProxy(
    program,
    `${program.name} passes on uploads of 5 MB and WebSockets to an upstream`,
    async (path) => {
      await using upstream = startUpstream();
      const options = { upstream: upstream.url };
      await using proxied = await startProxied({ program, path }, options);
      for (const app of proxied.apps) {
        const upload = await app.fetch("/upload", {
          method: "POST",
          body: new Uint8Array(UPLOAD_BYTES),
        });
        assertEquals([upload.status, await upload.text()], [
          200,
          `${UPLOAD_BYTES}`,
        ]);
      }
      assertEquals(await echoOf("hello", proxied.apps[0]), "echo hello");
    },
  );
}
