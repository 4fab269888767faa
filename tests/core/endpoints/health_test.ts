import config from "../../../deno.json" with { type: "json" };
import { assertEquals, assertRejects } from "@std/assert";
import type { CertificateRejection } from "../../../src/addons/certificate_watch.ts";
import { createGatewayIn } from "../../../src/gateway.ts";
import type { Gateway } from "../../../src/gateway_interface.ts";
import {
  type GatewayOptions,
  type ProcessInfo,
  UNKNOWN_PROCESS,
} from "../../../src/options.ts";
import { memoryStore } from "../../../src/engines/memory.ts";
import { answerOf } from "../../_answer.ts";
import { FakeClock } from "../../../tools/fake_clock.ts";
import { captureLog } from "../../_gateway.ts";
import { fallibleStore } from "../../_store.ts";

const HEADERS = {
  "content-type": "application/json",
  "cache-control": "no-store",
};

/** Returns the report of a gateway that has just started, with changed fields. */
function report(changes: Record<string, unknown> = {}, status = 200) {
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

/** The time of a {@linkcode FakeClock} that nobody has advanced. */
const NOW = "2023-11-14T22:13:20.000Z";

const NOT_FOUND = {
  title: "Not Found",
  status: 404,
  detail: "Nothing found at this path",
};

/** Asks the public port, or another responder of the gateway. */
async function ask(
  gateway: Gateway,
  path = "/rep/health",
  respond: Gateway["fetchHealth"] = gateway.fetch,
) {
  return await answerOf(
    await respond(new Request(`http://gateway.test${path}`)),
  );
}

function start(
  options: GatewayOptions = {},
  process: Partial<ProcessInfo> = {},
) {
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

Deno.test("GET /rep/health is degraded, with 200, from a rejected reload to the next valid one, and counts what strict mode has rejected", async () => {
  const good: Record<string, string> = { REP_PUBLIC_A: "1" };
  let variables = good;
  await using gateway = await start({
    variables: () => variables,
    strict: true,
  });
  const secret = "AKIAIOSFODNN7EXAMPLE";
  const one = { REP_PUBLIC_A: secret };
  for (variables of [one, { ...one, REP_PUBLIC_B: secret }]) {
    await assertRejects(() => gateway.reload());
  }
  const counts = {
    variables: { public: 1, sensitive: 0, server: 0 },
    guardrails: { warnings: 0, blocked: 3 },
  };
  const problems = ["config_rejected"];
  const problems_since = { config_rejected: NOW };
  assertEquals(
    await ask(gateway),
    report({ status: "degraded", problems, problems_since, ...counts }),
  );
  variables = good;
  await gateway.reload();
  assertEquals(await ask(gateway), report(counts));
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
      problems_since: { store_unavailable: NOW },
      variables: counts,
    }),
  );
  isBroken = false;
  await clock.tick(1_000); // it is probed, without requests
  assertEquals(
    await ask(gateway),
    report({ variables: counts, uptime_seconds: 1 }),
  );
});

Deno.test("GET /rep/health is degraded from the end of the certificate until another one is used", async () => {
  const clock = new FakeClock();
  const { log, lines } = captureLog();
  let certificateEnd = clock.now() / 1_000 + 9 * 86_400;
  await using gateway = await start({
    clock,
    log,
  }, {
    certificate: {
      ...UNKNOWN_PROCESS.certificate,
      notAfter: () => certificateEnd,
    },
  });
  const logged = () =>
    lines.filter(({ msg }) => msg === "rep.tls.expiring").map((line) => [
      line.level,
      line.detail,
    ]);
  const problems = async () =>
    ((await ask(gateway)).body as { problems?: unknown }).problems;
  await clock.tick(60_000);
  assertEquals(logged(), []);
  certificateEnd = clock.now() / 1_000 + 120;
  await clock.tick(60_000);
  assertEquals(await problems(), undefined);
  await clock.tick(120_000);
  await clock.tick(3_600_000);
  assertEquals(await problems(), ["certificate_ended"]);
  const toDo = "renew it, replace its files, and reload (SIGHUP)";
  assertEquals(logged(), [
    ["WARN", `the certificate ends within 7 days: ${toDo}`],
    ["ERROR", `the certificate has ended, and clients reject it: ${toDo}`],
  ]);
  const notAfter = new Date(1_000 * certificateEnd).toISOString();
  assertEquals(
    lines.find(({ msg }) => msg === "rep.tls.expiring")?.not_after,
    notAfter,
  );
  certificateEnd += 8 * 86_400;
  assertEquals(await problems(), undefined);
});

Deno.test("GET /rep/health is degraded from the rejection of a renewed certificate until one is accepted", async () => {
  let rejection: CertificateRejection | undefined;
  await using gateway = await start({}, {
    certificate: { ...UNKNOWN_PROCESS.certificate, rejection: () => rejection },
  });
  assertEquals(await ask(gateway), report({}));
  rejection = { detail: "no PEM", since: Date.parse(NOW) - 1_000 };
  assertEquals(
    await ask(gateway),
    report({
      status: "degraded",
      problems: ["certificate_rejected"],
      problems_since: { certificate_rejected: "2023-11-14T22:13:19.000Z" },
    }),
  );
  rejection = undefined;
  assertEquals(await ask(gateway), report({}));
});

Deno.test("GET /rep/health is stopping, with 503, on both ports from the start of the shutdown, also if it was degraded", async () => {
  const rejection = () => ({ detail: "no PEM", since: 0 });
  await using gateway = await start({}, {
    certificate: { ...UNKNOWN_PROCESS.certificate, rejection },
  });
  gateway.beginShutdown();
  const stopping = report({ status: "stopping" }, 503);
  assertEquals(await ask(gateway), stopping);
  assertEquals(
    await ask(gateway, "/rep/health", gateway.fetchHealth),
    stopping,
  );
  await gateway.close();
  assertEquals(await ask(gateway), stopping);
});

Deno.test("GET /rep/health is served on its own port only with separateHealth, which has nothing else of the public one", async () => {
  const variables = { REP_SENSITIVE_B: "1" };
  await using gateway = await start({ variables, separateHealth: true });
  const counts = { public: 0, sensitive: 1, server: 0 };
  const { fetchHealth } = gateway;
  assertEquals((await ask(gateway)).body, NOT_FOUND);
  assertEquals(
    await ask(gateway, "/rep/health", fetchHealth),
    report({ variables: counts }),
  );
  for (const path of ["/", "/rep/session-key", "/rep/changes", "/health"]) {
    assertEquals((await ask(gateway, path, fetchHealth)).body, NOT_FOUND);
  }
});

/** Returns status, text, type and `Cache-Control` of a probe. */
async function probe({ fetchHealth }: Gateway, path: string) {
  const response = await fetchHealth(new Request(`http://health.test${path}`));
  const { status, headers } = response;
  const type = headers.get("content-type");
  return [status, await response.text(), type, headers.get("cache-control")];
}

const PLAIN = ["text/plain; charset=utf-8", "no-store"];

Deno.test("GET /livez and GET /readyz are 200 while the gateway serves, also while it is degraded", async () => {
  const problem: { rejection?: CertificateRejection } = {};
  await using gateway = await start({}, {
    certificate: {
      ...UNKNOWN_PROCESS.certificate,
      rejection: () => problem.rejection,
    },
  });
  assertEquals(await probe(gateway, "/livez"), [200, "live\n", ...PLAIN]);
  assertEquals(await probe(gateway, "/readyz"), [200, "healthy\n", ...PLAIN]);
  problem.rejection = { detail: "no PEM", since: 0 };
  assertEquals(await probe(gateway, "/readyz"), [200, "degraded\n", ...PLAIN]);
});

Deno.test("GET /readyz is 503 from the start of the shutdown, and GET /livez stays 200", async () => {
  await using gateway = await start();
  gateway.beginShutdown();
  assertEquals(await probe(gateway, "/readyz"), [503, "stopping\n", ...PLAIN]);
  assertEquals(await probe(gateway, "/livez"), [200, "live\n", ...PLAIN]);
});

Deno.test("GET /livez and GET /readyz are not on the public port", async () => {
  await using gateway = await start();
  for (const path of ["/livez", "/readyz"]) {
    assertEquals((await ask(gateway, path)).body, NOT_FOUND);
  }
});
