import config from "../../deno.json" with { type: "json" };
import { assertEquals, assertRejects } from "@std/assert";
import { createGatewayIn } from "../../src/gateway.ts";
import type { Gateway } from "../../src/gateway_interface.ts";
import {
  type GatewayOptions,
  type ProcessInfo,
  UNKNOWN_PROCESS,
} from "../../src/options.ts";
import { memoryStore } from "../../src/store/memory.ts";
import { type Answer, answerOf } from "../_answer.ts";
import { FakeClock } from "../../tools/fake_clock.ts";
import { captureLog } from "../_gateway.ts";
import { fallibleStore } from "../_store.ts";

const HEADERS = {
  "content-type": "application/json",
  "cache-control": "no-store",
};

/** Returns the report of a gateway that has just started, with changed fields. */
function report(changes: Record<string, unknown> = {}, status = 200): Answer {
  const body = {
    status: "healthy",
    version: config.version,
    variables: { public: 0, sensitive: 0, server: 0 },
    guardrails: { warnings: 0, blocked: 0 },
    uptime_seconds: 0,
    ...changes,
  };
  return { status, headers: HEADERS, body };
}

function notFound(): Answer {
  const headers = {
    "content-type": "application/problem+json",
    "cache-control": "no-store",
  };
  return {
    status: 404,
    headers,
    body: {
      title: "Not Found",
      status: 404,
      detail: "Nothing found at this path",
    },
  };
}

async function ask(
  gateway: Gateway,
  path = "/rep/health",
  method = "GET",
): Promise<Answer> {
  return await answerOf(
    await gateway.fetch(new Request(`http://gateway.test${path}`, { method })),
  );
}

async function askHealth(
  gateway: Gateway,
  path = "/rep/health",
  method = "GET",
): Promise<Answer> {
  return await answerOf(
    await gateway.fetchHealth(
      new Request(`http://gateway.test${path}`, { method }),
    ),
  );
}

function start(
  options: GatewayOptions = {},
  process: Partial<ProcessInfo> = {},
): Promise<Gateway> {
  const defaults = { variables: {}, clock: new FakeClock() };
  return createGatewayIn(
    { ...UNKNOWN_PROCESS, ...process },
    { ...defaults, ...options },
  );
}

Deno.test("GET /rep/health reports status, version, variables, guardrails and uptime", async () => {
  const variables = {
    REP_PUBLIC_A: "1",
    REP_PUBLIC_B: "2",
    REP_PUBLIC_KEY: "AKIAIOSFODNN7EXAMPLE",
    REP_SENSITIVE_A1: "3",
    REP_SENSITIVE_B1: "4",
    REP_SERVER_A2: "5",
    REP_GATEWAY_PORT: "80",
    HOME: "/root",
  };
  await using gateway = await start({ variables });
  assertEquals(
    await ask(gateway),
    report({
      variables: { public: 3, sensitive: 2, server: 1 },
      guardrails: { warnings: 1, blocked: 0 },
    }),
  );
});

Deno.test("GET /rep/health counts the manifest's defaults of variables that are not set (endpoint specification, Health report, rule 1)", async () => {
  const manifest = `
version: "0.1.0"
variables:
  A: { tier: public, type: string, default: "1" }
  B: { tier: sensitive, type: string, default: "2" }
  C: { tier: server, type: string, default: "3" }
  D: { tier: public, type: string }
  E: { tier: public, type: string, default: "4" }
`;
  await using gateway = await start({
    variables: { REP_PUBLIC_E: "5" },
    manifest,
  });
  assertEquals(
    await ask(gateway),
    report({ variables: { public: 2, sensitive: 1, server: 1 } }),
  );
});

Deno.test("GET /rep/health reports the active variables after a reload", async () => {
  let variables: Record<string, string> = { REP_PUBLIC_A: "1" };
  await using gateway = await start({ variables: () => variables });
  variables = {
    REP_PUBLIC_B: "1",
    REP_PUBLIC_C: "AKIAIOSFODNN7EXAMPLE",
    REP_SERVER_A: "1",
  };
  await gateway.reload();
  assertEquals(
    await ask(gateway),
    report({
      variables: { public: 2, sensitive: 0, server: 1 },
      guardrails: { warnings: 1, blocked: 0 },
    }),
  );
});

Deno.test("GET /rep/health reports the uptime in whole seconds, rounded down", async () => {
  const clock = new FakeClock();
  await using gateway = await start({ clock });
  const uptimes = [];
  for (const ms of [999, 1, 1_999, 1]) {
    await clock.tick(ms);
    uptimes.push((await ask(gateway)).body);
  }
  assertEquals(
    uptimes,
    [0, 1, 2, 3].map((seconds) => report({ uptime_seconds: seconds }).body),
  );
});

Deno.test("HEAD /rep/health returns the headers of GET without a body", async () => {
  await using gateway = await start();
  assertEquals(await ask(gateway, "/rep/health", "HEAD"), {
    ...report(),
    body: undefined,
  });
});

Deno.test("other methods than GET and HEAD /rep/health are 405 with the allowed methods", async () => {
  await using gateway = await start();
  for (const method of ["POST", "OPTIONS", "DELETE", "FOO", "patch"]) {
    const detail = `Cannot use method ${method} here: expected GET or HEAD`;
    const expected = {
      status: 405,
      headers: { ...notFound().headers, "allow": "GET, HEAD" },
      body: { title: "Method Not Allowed", status: 405, detail },
    };
    assertEquals(await ask(gateway, "/rep/health", method), expected);
    assertEquals(await askHealth(gateway, "/rep/health", method), expected);
  }
});

Deno.test("GET /rep/health is degraded, with 200, from a rejected reload to the next valid one", async () => {
  const good = { REP_PUBLIC_A: "1" };
  let variables: Record<string, string> = good;
  await using gateway = await start({ variables: () => variables });
  variables = { REP_PUBLIC_A: "1", REP_SERVER_A: "1" };
  await assertRejects(() => gateway.reload());
  const counts = { public: 1, sensitive: 0, server: 0 };
  assertEquals(
    await ask(gateway),
    report({
      status: "degraded",
      problems: ["config_rejected"],
      variables: counts,
    }),
  );
  variables = good;
  await gateway.reload();
  assertEquals(await ask(gateway), report({ variables: counts }));
});

Deno.test("GET /rep/health counts the changes that strict mode has rejected", async () => {
  const good = { REP_PUBLIC_A: "1" };
  let variables: Record<string, string> = good;
  await using gateway = await start({
    variables: () => variables,
    strict: true,
  });
  for (const secrets of [["A"], ["A", "B"]]) {
    variables = Object.fromEntries(
      secrets.map((name) => [`REP_PUBLIC_${name}`, "AKIAIOSFODNN7EXAMPLE"]),
    );
    await assertRejects(() => gateway.reload());
  }
  const counts = { public: 1, sensitive: 0, server: 0 };
  const rejected = report({
    status: "degraded",
    problems: ["config_rejected"],
    variables: counts,
    guardrails: { warnings: 0, blocked: 3 },
  });
  assertEquals(await ask(gateway), rejected);
  variables = good;
  await gateway.reload();
  assertEquals(
    await ask(gateway),
    report({ variables: counts, guardrails: { warnings: 0, blocked: 3 } }),
  );
});

Deno.test("GET /rep/health is degraded, with 200, while the store is unavailable", async () => {
  const healthy = memoryStore();
  let isBroken = false;
  const store = fallibleStore(healthy, () => isBroken);
  const clock = new FakeClock();
  const variables = { REP_SENSITIVE_A: "1" };
  await using gateway = await start({ variables, store, clock });
  const counts = { public: 0, sensitive: 1, server: 0 };
  assertEquals(await ask(gateway), report({ variables: counts }));
  isBroken = true;
  await ask(gateway, "/rep/session-key");
  assertEquals(
    await ask(gateway),
    report({
      status: "degraded",
      problems: ["store_unavailable"],
      variables: counts,
    }),
  );
  isBroken = false;
  await clock.tick(1_000);
  await ask(gateway, "/rep/session-key");
  assertEquals(
    await ask(gateway),
    report({ variables: counts, uptime_seconds: 1 }),
  );
});

Deno.test("GET /rep/health reports by itself that the store is writable again, without writes", async () => {
  const healthy = memoryStore();
  let isBroken = false;
  const store = fallibleStore(healthy, () => isBroken, {
    operations: ["commit"],
    error: new TypeError("database or disk is full"),
  });
  const clock = new FakeClock();
  const variables = { REP_SENSITIVE_A: "1" };
  const counts = { public: 0, sensitive: 1, server: 0 };
  await using gateway = await start({ variables, store, clock });
  isBroken = true;
  await ask(gateway, "/rep/session-key");
  await clock.tick(2_000);
  assertEquals(
    await ask(gateway),
    report({
      status: "degraded",
      problems: ["store_unavailable"],
      variables: counts,
      uptime_seconds: 2,
    }),
  );
  isBroken = false;
  await clock.tick(1_000);
  assertEquals(
    await ask(gateway),
    report({ variables: counts, uptime_seconds: 3 }),
  );
});

Deno.test("GET /rep/health is degraded once an error was not caught, also while the last reload is rejected", async () => {
  const failure = new AbortController();
  let variables: Record<string, string> = {};
  await using gateway = await start({
    variables: () => variables,
    strict: true,
  }, { failure: failure.signal });
  assertEquals(await ask(gateway), report({}));
  failure.abort();
  assertEquals(
    await ask(gateway),
    report({ status: "degraded", problems: ["uncaught_error"] }),
  );
  variables = { REP_PUBLIC_A: "AKIAIOSFODNN7EXAMPLE" };
  await assertRejects(() => gateway.reload());
  const { body } = await ask(gateway);
  assertEquals((body as { problems: unknown }).problems, [
    "config_rejected",
    "uncaught_error",
  ]);
});

Deno.test("GET /rep/health is degraded from the end of the certificate until another one is used", async () => {
  const clock = new FakeClock();
  const { log, lines } = captureLog();
  let certificateEnd = clock.now() / 1_000 + 9 * 86_400;
  await using gateway = await start({
    clock,
    log,
  }, { certificateNotAfter: () => certificateEnd });
  const warnings = () =>
    lines.filter(({ msg }) => msg === "rep.tls.expiring").map(({ detail }) =>
      detail
    );
  const problems = async () =>
    ((await ask(gateway)).body as { problems?: unknown }).problems;
  await clock.tick(60_000);
  assertEquals(warnings(), []);
  certificateEnd = clock.now() / 1_000 + 120;
  await clock.tick(60_000);
  assertEquals(await problems(), undefined);
  await clock.tick(120_000);
  assertEquals(await problems(), ["certificate_ended"]);
  const toDo = "renew it, replace its files, and reload (SIGHUP)";
  assertEquals(warnings(), [
    `the certificate ends within 7 days: ${toDo}`,
    `the certificate has ended, and clients reject it: ${toDo}`,
  ]);
  const notAfter = new Date(1_000 * certificateEnd).toISOString();
  assertEquals(
    lines.find(({ msg }) => msg === "rep.tls.expiring")?.not_after,
    notAfter,
  );
  certificateEnd += 8 * 86_400;
  assertEquals(await problems(), undefined);
});

Deno.test("GET /rep/health is stopping, with 503, from the start of the shutdown", async () => {
  const clock = new FakeClock();
  await using gateway = await start({ clock, hotReload: true });
  const stream = await gateway.fetch(
    new Request("http://gateway.test/rep/changes"),
  );
  const second = await gateway.fetch(
    new Request("http://gateway.test/rep/changes"),
  );
  const closing = gateway.close({ drainMs: 2_000 });
  const stopping = report({ status: "stopping" }, 503);
  assertEquals(await ask(gateway), stopping);
  assertEquals(await askHealth(gateway), stopping);
  assertEquals(await ask(gateway, "/rep/health", "HEAD"), {
    ...stopping,
    body: undefined,
  });
  await clock.tick(1_000);
  await closing;
  assertEquals(
    await ask(gateway),
    report({ status: "stopping", uptime_seconds: 1 }, 503),
  );
  await Promise.all([stream.body?.cancel(), second.body?.cancel()]);
});

Deno.test("GET /rep/health is stopping rather than degraded", async () => {
  let variables: Record<string, string> = {};
  const gateway = await start({ variables: () => variables });
  variables = { REP_PUBLIC_A: "1", REP_SERVER_A: "1" };
  await assertRejects(() => gateway.reload());
  await gateway.close();
  assertEquals(await ask(gateway), report({ status: "stopping" }, 503));
});

Deno.test("GET /rep/health is served on both ports without separateHealth", async () => {
  await using gateway = await start();
  assertEquals([await ask(gateway), await askHealth(gateway)], [
    report(),
    report(),
  ]);
});

Deno.test("GET /rep/health is served on its own port only with separateHealth", async () => {
  await using gateway = await start({ separateHealth: true });
  assertEquals([await ask(gateway), await askHealth(gateway)], [
    notFound(),
    report(),
  ]);
  assertEquals(await ask(gateway, "/rep/health", "POST"), notFound());
});

Deno.test("fetchHealth() serves nothing else", async () => {
  const variables = { REP_PUBLIC_A: "1", REP_SENSITIVE_B: "1" };
  await using gateway = await start({
    variables,
    separateHealth: true,
    hotReload: true,
  });
  for (
    const path of [
      "/",
      "/rep/",
      "/rep/session-key",
      "/rep/changes",
      "/rep/health/",
      "/health",
      "/index.html",
    ]
  ) {
    assertEquals({ path, answer: await askHealth(gateway, path) }, {
      path,
      answer: notFound(),
    });
  }
});
