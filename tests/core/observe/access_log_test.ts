import { assertEquals } from "@std/assert";
import { FakeClock } from "../../../tools/fake_clock.ts";
import { setUp } from "../../_gateway.ts";
import { TempDirectory } from "../../_temp.ts";

/** The fields of a line without its time and level. */
function requestsIn(
  lines: readonly Record<string, unknown>[],
): Record<string, unknown>[] {
  return lines.filter(({ msg }) => msg === "rep.request").map((
    { time: _time, level: _level, msg: _msg, ...fields },
  ) => fields);
}

const COMMON = { method: "GET", duration_ms: 0, client_ip: "127.0.0.1" };

Deno.test("the access log has one line for each request, without its query", async () => {
  await using directory = await TempDirectory.make({
    "index.html": "<head></head>",
    "app.js": "12345",
  });
  const options = {
    accessLog: true,
    clock: new FakeClock(),
    staticDir: directory.path,
  };
  await using test = await setUp({ REP_PUBLIC_A: "1" }, options);
  for (const path of ["/app.js?token=secret", "/missing.js", "/"]) {
    await (await test.ask(path)).text();
  }
  const pageBytes =
    (await (await test.gateway.fetch(new Request("http://gateway.test/")))
      .bytes()).length;
  await test.ask("/app.js", { method: "HEAD" });
  assertEquals(requestsIn(test.lines), [
    { ...COMMON, path: "/app.js", status: 200, bytes: 5 },
    { ...COMMON, path: "/missing.js", status: 404 },
    { ...COMMON, path: "/", status: 200, bytes: pageBytes },
    {
      ...COMMON,
      path: "/",
      status: 200,
      bytes: pageBytes,
      client_ip: "unknown",
    },
    { ...COMMON, method: "HEAD", path: "/app.js", status: 200, bytes: 0 },
  ]);
});

Deno.test("the access log has the client behind a trusted proxy, and a request with an invalid Host header", async () => {
  const options = {
    accessLog: true,
    clock: new FakeClock(),
    trustedProxies: ["127.0.0.1"],
  };
  await using test = await setUp({}, options);
  await (await test.ask("/a", {
    headers: { "x-forwarded-for": "203.0.113.7" },
  })).text();
  await (await test.ask("/b", { headers: { host: "a/b" } })).text();
  assertEquals(requestsIn(test.lines), [
    { ...COMMON, client_ip: "203.0.113.7", path: "/a", status: 404 },
    { ...COMMON, status: 400 },
  ]);
});

Deno.test("the access log truncates a long path, and has no requests of the health port", async () => {
  await using test = await setUp({}, {
    accessLog: true,
    clock: new FakeClock(),
  });
  await (await test.ask(`/${"a".repeat(5_000)}`)).text();
  await (await test.gateway.fetchHealth(
    new Request("http://health.test/livez"),
  )).text();
  assertEquals(requestsIn(test.lines).map(({ path }) => String(path).length), [
    1_000,
  ]);
});

Deno.test("without accessLog, requests are not logged", async () => {
  await using test = await setUp({});
  await (await test.ask("/")).text();
  assertEquals(requestsIn(test.lines), []);
});
