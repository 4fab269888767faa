/** Clients that do not read what the gateway has in memory, over a real port. */
import { assertEquals } from "@std/assert";
import { once } from "node:events";
import http2 from "node:http2";
import { FakeClock } from "../tools/fake_clock.ts";
import { setUp, type TestGateway } from "./_gateway.ts";
import { serveLocally } from "./_serve.ts";
import { TempDirectory } from "./_temp.ts";

/** The largest file that is kept in memory. */
const LARGE = new Uint8Array(1 << 20).fill(0xff);
const SMALL = new Uint8Array(100_000).fill(0xff);

function serve({ gateway }: TestGateway) {
  return serveLocally((request, info) => gateway.fetch(request, info));
}

/** A connection over HTTP/2 of a client that reads no body. */
function connect(port: number) {
  const session = http2.connect(`http://127.0.0.1:${port}`, {
    settings: { initialWindowSize: 0 },
  });
  session.on("error", () => {});
  return {
    async statusOf(path: string, address: string, method = "GET") {
      const request = session.request({
        ":path": path,
        ":method": method,
        "x-forwarded-for": address,
      });
      request.on("error", () => {});
      request.end(method === "POST" ? '{"context":{}}' : undefined);
      const [headers] = await once(request, "response");
      return headers[":status"];
    },
    [Symbol.dispose]: () => session.destroy(),
  };
}

Deno.test("large responses from memory that are not read are limited, and end after a minute", async () => {
  const clock = new FakeClock();
  await using site = await TempDirectory.make({ "index.html": "<p>" });
  await Deno.writeFile(site.at("large.bin"), LARGE);
  await Deno.writeFile(site.at("small.bin"), SMALL);
  const text = "x".repeat(60_000); // a page with three of them is larger than what is sent as a whole
  const variables = {
    REP_PUBLIC_A: text,
    REP_PUBLIC_B: text,
    REP_PUBLIC_C: text,
  };
  await using gate = await setUp(variables, {
    staticDir: site.path,
    ofrep: true,
    hotReload: false,
    maxTransfers: 6,
    trustedProxies: ["127.0.0.1"],
    clock,
  });
  await using server = serve(gate);
  const [alice, bob, carol] = ["192.0.2.1", "192.0.2.2", "192.0.2.3"] as const;
  using client = connect(server.port);
  const flags = "/ofrep/v1/evaluate/flags";
  for (let round = 0; round < 2; round++) {
    const statuses = [
      await client.statusOf("/large.bin", alice),
      await client.statusOf("/", alice),
      await client.statusOf(flags, alice, "POST"),
      await client.statusOf("/large.bin", alice),
      await client.statusOf("/large.bin", bob),
      await client.statusOf("/large.bin", bob),
      await client.statusOf("/large.bin", bob),
      await client.statusOf("/large.bin", carol),
    ];
    assertEquals(statuses, [200, 200, 200, 429, 200, 200, 200, 503]);
    for (let sent = 0; sent < 20; sent++) {
      assertEquals(await client.statusOf("/small.bin", alice), 200);
    }
    await clock.tick(60_000);
  }
  const { limit } = gate.logged("rep.transfers.rejected")[0]!;
  assertEquals(limit, "max_transfers_per_client");
});

Deno.test("a large file and its ranges arrive byte for byte from memory, and count only until they have been sent", async () => {
  await using site = await TempDirectory.make({ "index.html": "<p>" });
  const bytes = crypto.getRandomValues(new Uint8Array(60_000));
  const file = new Uint8Array(300_000);
  for (let at = 0; at < file.length; at += bytes.length) file.set(bytes, at);
  await Deno.writeFile(site.at("file.bin"), file);
  await using gate = await setUp({}, {
    staticDir: site.path,
    hotReload: false,
    maxTransfers: 2, // one client has half of them
  });
  await using server = serve(gate);
  const url = `${server.url}/file.bin`;
  for (const [start, end] of [[0, 1], [65_535, 65_537], [1, 299_999]]) {
    const headers = { range: `bytes=${start}-${end! - 1}` };
    const response = await fetch(url, { headers });
    const part = await response.bytes();
    assertEquals([response.status, part], [206, file.slice(start, end)]);
  }
  const whole = await fetch(url);
  assertEquals(whole.headers.get("content-length"), "300000");
  assertEquals(await whole.bytes(), file);
  await (await fetch(url, { method: "HEAD" })).body?.cancel();
  assertEquals((await (await fetch(url)).bytes()).length, file.length);
});
