import { assertEquals, assertMatch } from "@std/assert";
import { ReverseProxy } from "../../../src/content/proxy/reverse_proxy.ts";
import { resolveClient } from "../../../src/http/client_address.ts";
import { problemResponse } from "../../../src/http/problem.ts";
import { bindNodeServer } from "../../../src/server/node_server.ts";
import { systemClock } from "../../../src/values/clock.ts";
import { captureLog } from "../../_gateway.ts";
import { connectRaw, scriptedUpstream, type Upstream } from "./_servers.ts";

const LIMITS = {
  maxConnections: 100,
  backlog: 100,
  headerTimeoutMs: 5_000,
  requestTimeoutMs: 5_000,
  keepAliveTimeoutMs: 5_000,
};

/** A client without a trusted proxy. */
const DIRECT = { origin: "http://127.0.0.1", peer: "127.0.0.1", isTrusted: () => false };

/** A proxy on `node:http`. */
async function serveProxy(upstream: Upstream) {
  const { log } = captureLog();
  const proxy = new ReverseProxy({ upstream: new URL(`http://127.0.0.1:${upstream.port}/base/`), log });
  const server = await bindNodeServer(LIMITS, { clock: systemClock, log })({
    hostname: "127.0.0.1",
    port: 0,
    tls: undefined,
    handler: (request) =>
      proxy.respond(request, resolveClient(request, DIRECT)).catch((error) => problemResponse(error)),
    onError: () => new Response(null, { status: 500 }),
  });
  return {
    proxy,
    port: server.port,
    async [Symbol.asyncDispose]() {
      proxy.close();
      await server.shutdown();
    },
  };
}

const HANDSHAKE = [
  "GET /ws?a=1 HTTP/1.1",
  "Host: h",
  "Connection: Upgrade",
  "Upgrade: websocket",
  "Sec-WebSocket-Version: 13",
  "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
  "Sec-WebSocket-Extensions: permessage-deflate",
  "",
  "",
].join("\r\n");
const ACCEPTED = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
  "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nSec-WebSocket-Extensions: permessage-deflate\r\n\r\n";

Deno.test("tunnelWebSocket() forwards the handshake with its extensions, and then every byte", async () => {
  const { promise: received, resolve } = Promise.withResolvers<string>();
  await using upstream = scriptedUpstream(async (connection) => {
    resolve(await connection.readHead() ?? "");
    await connection.write(`${ACCEPTED}with the head`);
    await connection.write(`echo ${await connection.read()}`);
    await connection.read();
  });
  await using gateway = await serveProxy(upstream);
  using client = await connectRaw(gateway.port);
  await client.write(HANDSHAKE);
  const head = await client.readHead() ?? "";
  assertMatch(head, /^HTTP\/1\.1 101 .*sec-websocket-extensions: permessage-deflate\r\n/s);
  assertEquals((await received).split("\r\n")[0], "GET /base/ws?a=1 HTTP/1.1");
  assertMatch(await received, /sec-websocket-extensions: permessage-deflate\r\n.*upgrade: websocket\r\n/s);
  assertEquals(await client.read(), "with the head");
  await client.write("bytes");
  assertEquals(await client.read(), "echo bytes");
  assertEquals(gateway.proxy.active, 1);
});

Deno.test("tunnelWebSocket() breaks the client's connection with the upstream's, and ends", async () => {
  await using upstream = scriptedUpstream(async (connection) => {
    await connection.readHead();
    await connection.write(ACCEPTED);
  });
  await using gateway = await serveProxy(upstream);
  using client = await connectRaw(gateway.port);
  await client.write(HANDSHAKE);
  await client.readHead();
  assertEquals(await client.read(), undefined);
  client.close();
  await gateway.proxy.drainWebSockets();
});

Deno.test("tunnelWebSocket() responds with 502 if the upstream rejects the handshake", async () => {
  await using upstream = scriptedUpstream(async (connection) => {
    await connection.readHead();
    await connection.write("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n");
  });
  await using gateway = await serveProxy(upstream);
  using client = await connectRaw(gateway.port);
  await client.write(HANDSHAKE);
  assertMatch(await client.readHead() ?? "", /^HTTP\/1\.1 502 /);
  assertEquals(gateway.proxy.active, 0);
});
