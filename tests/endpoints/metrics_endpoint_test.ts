import { assertEquals } from "@std/assert";
import { createGateway } from "../../src/gateway.ts";
import type { GatewayOptions } from "../../src/options.ts";
import { memoryStore } from "../../src/store/memory.ts";
import { FakeClock } from "../../tools/fake_clock.ts";
import { setUp, type TestGateway } from "../_gateway.ts";
import { fallibleStore } from "../_store.ts";
import { TempDirectory } from "../_temp.ts";

const HEADERS = {
  "content-type": "text/plain; version=0.0.4; charset=utf-8",
  "cache-control": "no-store",
};

/** Returns the text of the metrics. */
async function textOf(
  { gateway }: Pick<TestGateway, "gateway">,
): Promise<string> {
  const request = new Request("http://health.test/metrics");
  return await (await gateway.fetchHealth(request)).text();
}

/** Returns the series with this prefix whose value is not 0, without the buckets of histograms. */
async function pick(
  test: Pick<TestGateway, "gateway">,
  prefix: string,
): Promise<Record<string, number>> {
  const series: Record<string, number> = {};
  for (const line of (await textOf(test)).split("\n")) {
    if (!line.startsWith(prefix) || /_bucket|_seconds_sum/.test(line)) continue;
    const space = line.lastIndexOf(" ");
    const value = Number(line.slice(space));
    if (value !== 0) series[line.slice(0, space)] = value;
  }
  return series;
}

Deno.test("GET /metrics is served by fetchHealth() only", async () => {
  await using test = await setUp({ REP_PUBLIC_A: "1" });
  assertEquals((await test.ask("/metrics")).status, 404);
  const response = await test.gateway.fetchHealth(
    new Request("http://health.test/metrics"),
  );
  assertEquals(Object.fromEntries(response.headers), HEADERS);
  const text = await response.text();
  assertEquals(text.startsWith("# HELP rep_build_info "), true);
});

Deno.test("GET /metrics counts streams and rejections", async () => {
  await using test = await setUp({ REP_PUBLIC_A: "1" }, {
    maxStreams: 1,
    maxStreamsPerClient: 2,
  });
  const stream = await test.listen();
  await stream.pull();
  await (await test.listen()).close();
  assertEquals(await pick(test, "rep_streams"), {
    rep_streams_open: 1,
    rep_streams_opened_total: 1,
    'rep_streams_rejected_total{reason="max_streams"}': 1,
  });
  await stream.close();
  assertEquals(await pick(test, "rep_streams_open "), {});
});

Deno.test("GET /metrics counts events that are published, delivered and replayed", async () => {
  await using test = await setUp({ REP_PUBLIC_A: "1" });
  const live = await test.listen();
  await live.pull();
  const delivered = live.take(2); // it reads on, so that it is up to date
  await test.set({ REP_PUBLIC_A: "2", REP_PUBLIC_B: "3" });
  await delivered;
  const late = await test.listen({}, "?last_event_id=0");
  await late.take(2); // the newest event of each variable
  const reconnected = await test.listen({ "last-event-id": "0" });
  await reconnected.take(3);
  assertEquals(await pick(test, "rep_events"), {
    rep_events_published_total: 3,
    rep_events_delivered_total: 2,
    rep_events_replayed_total: 5,
  });
  await Promise.all([live.close(), late.close(), reconnected.close()]);
});

Deno.test("GET /metrics counts session keys, and rejections by reason", async () => {
  const expired = {
    keyRetentionMs: 0,
    keyRotationMs: 1_000,
    sessionKeyMaxRate: 1,
  };
  await using test = await setUp({ REP_SENSITIVE_A: "1" }, expired);
  const init = { headers: { origin: "https://elsewhere.example" } };
  for (const path of ["", "", "?kid=x", "?kid=1600000000"]) {
    await (await test.ask(`/rep/session-key${path}`)).text();
  }
  await (await test.ask("/rep/session-key", init)).text();
  assertEquals(await pick(test, "rep_session_keys"), {
    rep_session_keys_issued_total: 1,
    'rep_session_keys_rejected_total{reason="rate_limited"}': 1,
    'rep_session_keys_rejected_total{reason="malformed"}': 1,
    'rep_session_keys_rejected_total{reason="expired"}': 1,
    'rep_session_keys_rejected_total{reason="origin_mismatch"}': 1,
  });
  await test.set({ REP_PUBLIC_A: "1" });
  await (await test.ask("/rep/session-key")).text();
  const series = 'rep_session_keys_rejected_total{reason="not_configured"}';
  assertEquals(await pick(test, series), { [series]: 1 });
});

Deno.test("GET /metrics counts reloads by outcome, and has the problems of the health report", async () => {
  await using test = await setUp({ REP_PUBLIC_A: "1" });
  await test.set({ REP_PUBLIC_A: "1" });
  await test.set({ REP_PUBLIC_A: "2" });
  await test.set({ REP_PUBLIC_A: "1", REP_SERVER_A: "1" }).catch(() => {});
  assertEquals(await pick(test, "rep_config_reloads"), {
    'rep_config_reloads_total{outcome="unchanged"}': 1,
    'rep_config_reloads_total{outcome="applied"}': 1,
    'rep_config_reloads_total{outcome="rejected"}': 1,
  });
  assertEquals(await pick(test, "rep_health"), {
    'rep_health_problem{type="config_rejected"}': 1,
  });
});

Deno.test("GET /metrics says whether the store answers, how long it takes, and which operations failed", async () => {
  let isDown = false;
  const clock = new FakeClock();
  const store = fallibleStore(memoryStore(), () => isDown);
  await using test = await setUp({ REP_PUBLIC_A: "1" }, { store, clock });
  const before = await pick(test, "rep_store");
  assertEquals([before.rep_store_up, Object.keys(before)], [1, [
    "rep_store_up",
    'rep_store_duration_seconds_count{operation="read"}',
    'rep_store_duration_seconds_count{operation="write"}',
  ]]);
  isDown = true;
  await clock.tick(1_000);
  const { rep_store_up, ...after } = await pick(test, "rep_store");
  assertEquals([
    rep_store_up,
    after['rep_store_errors_total{operation="read"}'],
  ], [undefined, 1]);
});

Deno.test("GET /metrics names the active configuration, and says whether it is this process's own", async () => {
  const store = memoryStore();
  const clock = new FakeClock();
  await using older = await setUp({ REP_PUBLIC_A: "1" }, { store, clock });
  await clock.tick(10_000);
  await using newer = await setUp({ REP_PUBLIC_A: "2" }, { store, clock });
  await clock.tick(30_000);
  const [[name, value] = []] = Object.entries(await pick(newer, "rep_rollout"));
  assertEquals([
    /^rep_rollout_active\{configuration=".{12}"\}$/.test(name ?? ""),
    value,
  ], [true, 1]);
  assertEquals((await textOf(older)).includes(`\n${name} 0\n`), true);
});

Deno.test("GET /metrics says which version runs in which runtime", async () => {
  await using test = await setUp({});
  const { version } = JSON.parse(await Deno.readTextFile("deno.json"));
  const series =
    `rep_build_info{version="${version}",runtime="Deno/${Deno.version.deno}"}`;
  assertEquals(await pick(test, "rep_build"), { [series]: 1 });
});

Deno.test("GET /metrics has the time and the result of the last reload, which is the start at first", async () => {
  const clock = new FakeClock(1_700_000_000_000);
  await using test = await setUp({ REP_PUBLIC_A: "1" }, { clock });
  const reload = async (variables: Record<string, string>) => {
    await clock.tick(60_000);
    await test.set(variables).catch(() => {});
    const last = await pick(test, "rep_config_last");
    return [
      last.rep_config_last_reload_success ?? 0,
      last.rep_config_last_reload_timestamp_seconds,
    ];
  };
  const start = await pick(test, "rep_config_last");
  assertEquals(Object.values(start), [1, 1_700_000_000]);
  assertEquals(await reload({ REP_PUBLIC_A: "1", REP_SERVER_A: "1" }), [
    0,
    1_700_000_060,
  ]);
  assertEquals(await reload({ REP_PUBLIC_A: "1" }), [1, 1_700_000_120]);
});

Deno.test("GET /metrics has the end of the certificate, if there is one", async () => {
  await using test = await setUp({}, {}, {
    certificateNotAfter: () => 1_900_000_000,
  });
  assertEquals(await pick(test, "rep_tls"), {
    rep_tls_not_after_timestamp_seconds: 1_900_000_000,
  });
  await using plain = await setUp({});
  assertEquals((await textOf(plain)).includes("rep_tls"), false);
});

Deno.test("GET /metrics counts requests to the public port by route and class of status, and no path of a client", async () => {
  await using directory = await TempDirectory.make({
    "index.html": "<head></head>",
    "app.js": "1",
  });
  const options = {
    staticDir: directory.path,
    basePath: "/app",
    allowedHosts: ["gateway.test"],
  };
  await using test = await setUp({ REP_PUBLIC_A: "1" }, options);
  const paths = [
    "/app/",
    "/app/app.js",
    "/app/missing.js",
    "/app",
    "/",
    "/app/rep/x",
    "/app/rep/health",
  ];
  for (const path of [...paths, ...paths]) await (await test.ask(path)).text();
  await (await test.ask("/app/rep/health", { method: "POST" })).text();
  await (await test.ask("/app/", { headers: { host: "a/b" } })).text();
  await (await test.gateway.fetch(new Request("http://elsewhere.test/app/")))
    .text();
  await (await test.gateway.fetchHealth(
    new Request("http://health.test/livez"),
  )).text();
  const { length } = paths;
  assertEquals([length, await pick(test, "rep_requests")], [7, {
    'rep_requests_total{route="/app/*",status="2xx"}': 4,
    'rep_requests_total{route="/app/*",status="4xx"}': 4,
    'rep_requests_total{route="/app",status="3xx"}': 2,
    'rep_requests_total{route="/*",status="4xx"}': 2,
    'rep_requests_total{route="/app/rep/*",status="4xx"}': 2,
    'rep_requests_total{route="/app/rep/health",status="2xx"}': 2,
    'rep_requests_total{route="/app/rep/health",status="4xx"}': 1,
  }]);
});

Deno.test("GET /metrics counts a request that fails as 5xx, also after a wait", async () => {
  const store = fallibleStore(memoryStore(), () => true);
  await using test = await setUp({ REP_SENSITIVE_A: "1" }, {
    store,
    clock: new FakeClock(),
  });
  await (await test.ask("/rep/session-key")).text();
  assertEquals(await pick(test, "rep_requests"), {
    'rep_requests_total{route="/rep/session-key",status="5xx"}': 1,
  });
});

/** Returns a gateway before an upstream. */
function proxyTo(upstream: string, options: GatewayOptions = {}) {
  return createGateway({ variables: {}, upstream, ...options });
}

Deno.test("GET /metrics counts the answers and the failures of the upstream", async () => {
  await using server = Deno.serve({
    hostname: "127.0.0.1",
    port: 0,
    onListen() {},
  }, () => new Response("app"));
  const upstream = `http://127.0.0.1:${server.addr.port}`;
  await using gateway = await proxyTo(upstream);
  await (await gateway.fetch(new Request("http://gateway.test/"))).text();
  assertEquals(await pick({ gateway }, "rep_upstream"), {
    rep_upstream_duration_seconds_count: 1,
  });
  await server.shutdown();
  await using broken = await proxyTo(upstream);
  await (await broken.fetch(new Request("http://gateway.test/"))).text();
  assertEquals(await pick({ gateway: broken }, "rep_upstream"), {
    'rep_upstream_errors_total{reason="unreachable"}': 1,
  });
});

Deno.test("GET /metrics counts pages, but not other files", async () => {
  await using directory = await TempDirectory.make({
    "index.html": "<head></head>",
    "app.js": "1",
  });
  await using test = await setUp({ REP_PUBLIC_A: "1" }, {
    staticDir: directory.path,
  });
  for (const path of ["/", "/users", "/app.js", "/missing.js"]) {
    await (await test.ask(path)).text();
  }
  assertEquals(await pick(test, "rep_pages"), { rep_pages_served_total: 2 });
});
