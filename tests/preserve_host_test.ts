import { assertEquals } from "@std/assert";
import { once } from "node:events";
import http2 from "node:http2";
import { createGateway } from "../src/gateway.ts";
import type { GatewayOptions } from "../src/options.ts";
import { connectRaw } from "./content/proxy/_servers.ts";
import { serveLocally } from "./_serve.ts";

/** A gateway with `preserveHost`, on a port, in front of an upstream that answers with the `Host` that it received. */
async function serveGateway(options: GatewayOptions = {}) {
  const upstream = serveLocally((request) =>
    new Response(`host=${request.headers.get("host")}`)
  );
  const url = `http://127.0.0.1:${upstream.port}`;
  const gateway = await createGateway({
    upstream: url,
    preserveHost: true,
    variables: {},
    ...options,
  });
  const server = serveLocally(gateway.fetch);
  return {
    fetch: gateway.fetch,
    port: server.port,
    async [Symbol.asyncDispose]() {
      await gateway.close();
      await server.shutdown();
      await upstream[Symbol.asyncDispose]();
    },
  };
}

/** Returns the status of a response, and the host that the upstream received. */
function outcomeOf(text: string): [status: string, host: string] {
  return [
    / (\d{3}) /.exec(text)?.[1] ?? "",
    /host=(\S+)/.exec(text)?.[1] ?? "none",
  ];
}

async function askRaw(
  port: number,
  lines: readonly string[],
): Promise<[string, string]> {
  using client = await connectRaw(port);
  await client.write([...lines, "Connection: close", "", ""].join("\r\n"));
  let text = "";
  for (
    let part = await client.read();
    part !== undefined;
    part = await client.read()
  ) text += part;
  return outcomeOf(text);
}

async function askHttp2(
  port: number,
  headers: Record<string, string>,
): Promise<[string, string]> {
  const session = http2.connect(`http://127.0.0.1:${port}`);
  const request = session.request({ ":path": "/", ...headers });
  let text = "";
  request.on("response", (head) => text += ` ${head[":status"]} `);
  request.on("data", (chunk) => text += chunk);
  await once(request, "end");
  session.close();
  await once(session, "close");
  return outcomeOf(text);
}

const ALLOWED = { allowedHosts: ["app.example.com"] };

Deno.test("preserveHost: the upstream receives the host that was checked, not another one in the Host header", async () => {
  await using gateway = await serveGateway(ALLOWED);
  const absolute = "GET http://app.example.com/ HTTP/1.1";
  assertEquals(
    await askRaw(gateway.port, ["GET / HTTP/1.1", "Host: app.example.com"]),
    ["200", "app.example.com"],
  );
  assertEquals(
    await askRaw(gateway.port, ["GET / HTTP/1.1", "Host: internal.example"]),
    ["421", "none"],
  );
  assertEquals(
    await askRaw(gateway.port, [absolute, "Host: internal.example"]),
    ["200", "app.example.com"],
  );
  const other = [
    "GET http://internal.example/ HTTP/1.1",
    "Host: app.example.com",
  ];
  assertEquals(await askRaw(gateway.port, other), ["421", "none"]);
});

Deno.test("preserveHost: over HTTP/2, the upstream receives the authority that was checked", async () => {
  await using gateway = await serveGateway(ALLOWED);
  const app = { ":authority": "app.example.com" };
  assertEquals(await askHttp2(gateway.port, app), ["200", "app.example.com"]);
  assertEquals(
    await askHttp2(gateway.port, { ...app, "host": "internal.example" }),
    ["200", "app.example.com"],
  );
  const other = { ":authority": "internal.example", "host": "app.example.com" };
  assertEquals(await askHttp2(gateway.port, other), ["421", "none"]);
});

Deno.test("preserveHost: behind a trusted proxy, the upstream receives the forwarded host, which was checked", async () => {
  await using gateway = await serveGateway({
    ...ALLOWED,
    trustedProxies: ["127.0.0.1"],
  });
  const forwarded = [
    "Host: internal.example",
    "X-Forwarded-Host: app.example.com",
  ];
  assertEquals(await askRaw(gateway.port, ["GET / HTTP/1.1", ...forwarded]), [
    "200",
    "app.example.com",
  ]);
});

Deno.test("preserveHost: without allowed hosts, an absolute target takes precedence over the Host header", async () => {
  await using gateway = await serveGateway(); // RFC 9112 §3.2.2
  const lines = [
    "GET http://app.example.com:8080/ HTTP/1.1",
    "Host: internal.example",
  ];
  assertEquals(await askRaw(gateway.port, lines), [
    "200",
    "app.example.com:8080",
  ]);
});

Deno.test("preserveHost: over a Unix socket, whose URL names no host, the upstream receives the Host header", async () => {
  await using gateway = await serveGateway();
  const request = new Request("http+unix://%2Frun%2Fgateway.sock/", {
    headers: { host: "app.example.com" },
  });
  const response = await gateway.fetch(request);
  assertEquals(await response.text(), "host=app.example.com");
});
