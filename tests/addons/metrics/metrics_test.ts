import { assert, assertEquals } from "@std/assert";
import { createGateway } from "../../../src/gateway.ts";
import { type GatewayOptions, UNKNOWN_PROCESS } from "../../../src/options.ts";
import { memoryStore } from "../../../src/engines/memory.ts";
import { FakeClock } from "../../../tools/fake_clock.ts";
import { setUp, type TestGateway } from "../../_gateway.ts";
import { fallibleStore } from "../../_store.ts";
import { TempDirectory } from "../../_temp.ts";

const HEADERS = {
  "content-type": "text/plain; version=0.0.4; charset=utf-8",
  "cache-control": "no-store",
};

/** Returns the text of the metrics. */
async function textOf(
  { gateway }: Pick<TestGateway, "gateway">,
) {
  const request = new Request("http://health.test/metrics");
  return await (await gateway.fetchHealth(request)).text();
}

/** Returns the series with this prefix whose value is not 0, of histograms only their counts. */
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
    rep_streams_polled_total: 1,
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
  for (const path of ["", "", "?kid=x", "?kid=1600000000-000000000000"]) {
    await (await test.ask(`/rep/session-key${path}`)).text();
  }
  await (await test.ask("/rep/session-key", init)).text();
  assertEquals(await pick(test, "rep_session_keys"), {
    rep_session_keys_issued_total: 1,
    'rep_session_keys_rejected_total{reason="rate_limited"}': 1,
    'rep_session_keys_rejected_total{reason="malformed"}': 1,
    'rep_session_keys_rejected_total{reason="expired"}': 1,
    'rep_session_keys_rejected_total{reason="origin_mismatch"}': 1,
    'rep_session_keys_rejected_clients_total{reason="rate_limited"}': 1,
    'rep_session_keys_rejected_clients_total{reason="malformed"}': 1,
    'rep_session_keys_rejected_clients_total{reason="expired"}': 1,
    'rep_session_keys_rejected_clients_total{reason="origin_mismatch"}': 1,
  });
  await test.set({ REP_PUBLIC_A: "1" });
  await (await test.ask("/rep/session-key")).text();
  const series = 'rep_session_keys_rejected_total{reason="not_configured"}';
  assertEquals(await pick(test, series), { [series]: 1 });
});

Deno.test("GET /metrics counts a client whose requests for keys are rejected once for each reason, until it was quiet for a minute or two", async () => {
  const clock = new FakeClock();
  const options = { sessionKeyMaxRate: 1, trustedProxies: ["127.0.0.1"] };
  await using test = await setUp({ REP_SENSITIVE_A: "1" }, {
    ...options,
    clock,
  });
  const ask = async (client: string, query = "") => {
    const headers = {
      "x-forwarded-for": client,
      origin: "https://old.example",
    };
    await (await test.ask(`/rep/session-key${query}`, { headers })).text();
  };
  const mismatch =
    'rep_session_keys_rejected_clients_total{reason="origin_mismatch"}';
  const rejectedClients = () => pick(test, "rep_session_keys_rejected_clients");
  for (let times = 0; times < 100; times++) await ask("192.0.2.1");
  assertEquals(await rejectedClients(), { [mismatch]: 1 });
  await ask("192.0.2.2");
  assertEquals(await rejectedClients(), { [mismatch]: 2 });
  await clock.tick(60_000);
  await ask("192.0.2.1"); // it goes on
  assertEquals(await rejectedClients(), { [mismatch]: 2 });
  await clock.tick(120_000);
  await ask("192.0.2.1");
  assertEquals(await rejectedClients(), { [mismatch]: 3 });
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

Deno.test("GET /metrics has CPU time, memory and start of the process", async () => {
  await using test = await setUp({});
  const {
    process_cpu_seconds_total: cpuSeconds = 0,
    process_resident_memory_bytes: bytes = 0,
    process_start_time_seconds: start = 0,
    ...others
  } = await pick(test, "process_");
  assertEquals(others, {});
  assert(cpuSeconds > 0.01 && cpuSeconds < 3_600, `${cpuSeconds} s`);
  assert(bytes > 2e7 && bytes < 1e10, `${bytes} bytes`);
  assert(start <= Date.now() / 1_000 && start > Date.now() / 1_000 - 3_600);
  const text = await textOf(test);
  assert(text.includes("\n# TYPE process_cpu_seconds_total counter\n"));
});

Deno.test("GET /metrics has the end of the certificate, if there is one", async () => {
  await using test = await setUp({}, {}, {
    certificate: {
      ...UNKNOWN_PROCESS.certificate,
      notAfter: () => 1_900_000_000,
    },
  });
  assertEquals(await pick(test, "rep_tls"), {
    rep_tls_not_after_timestamp_seconds: 1_900_000_000,
  });
  await using plain = await setUp({});
  assertEquals((await textOf(plain)).includes("rep_tls"), false);
});

/** The count of the responses to requests. */
function responses(route: string, status: number, method = "GET") {
  return `http_server_request_duration_seconds_count{http_route="${route}",` +
    `http_request_method="${method}",http_response_status_code="${status}"}`;
}

Deno.test("GET /metrics counts responses of the public port by route, method and status, and no path of a client", async () => {
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
  assertEquals(await pick(test, "http_server"), {
    [responses("/app/*", 200)]: 4,
    [responses("/app/*", 404)]: 2,
    [responses("/app/*", 400)]: 1,
    [responses("/app/*", 421)]: 1,
    [responses("/app", 308)]: 2,
    [responses("/*", 404)]: 2,
    [responses("/app/rep/*", 404)]: 2,
    [responses("/app/rep/health", 200)]: 2,
    [responses("/app/rep/health", 405, "POST")]: 1,
  });
});

Deno.test("GET /metrics has one series for all methods that clients invent", async () => {
  await using test = await setUp({ REP_PUBLIC_A: "1" });
  for (const method of ["SPY-1", "SPY-2", "PATCH"]) {
    await (await test.ask("/rep/health", { method })).text();
  }
  assertEquals(await pick(test, "http_server"), {
    [responses("/rep/health", 405, "_OTHER")]: 2,
    [responses("/rep/health", 405, "PATCH")]: 1,
  });
});

Deno.test("GET /metrics has the time until the headers of a response: not that of its body, such as a stream", async () => {
  const clock = new FakeClock();
  await using server = Deno.serve({
    hostname: "127.0.0.1",
    port: 0,
    onListen() {},
  }, async () => {
    await clock.tick(300);
    return new Response("app");
  });
  const upstream = `http://127.0.0.1:${server.addr.port}`;
  await using test = await setUp({ REP_PUBLIC_A: "1" }, { upstream, clock });
  await (await test.ask("/")).text();
  const stream = await test.listen();
  await clock.tick(60_000);
  await stream.close();
  const sums = (await textOf(test)).split("\n").filter((line) =>
    line.startsWith("http_server_request_duration_seconds_sum")
  );
  const page = responses("/*", 200).replace("_count", "_sum");
  const changes = responses("/rep/changes", 200).replace("_count", "_sum");
  assertEquals(sums, [`${page} 0.3`, `${changes} 0`]);
});

Deno.test("GET /metrics counts a request that fails as 503, also after a wait", async () => {
  const store = fallibleStore(memoryStore(), () => true);
  await using test = await setUp({ REP_SENSITIVE_A: "1" }, {
    store,
    startWithoutStore: true,
    clock: new FakeClock(),
  });
  await (await test.ask("/rep/session-key")).text();
  assertEquals(await pick(test, "http_server"), {
    [responses("/rep/session-key", 503)]: 1,
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
