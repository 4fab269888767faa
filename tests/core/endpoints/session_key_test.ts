import { assert, assertEquals, assertMatch } from "@std/assert";
import { encodeBase64 } from "@std/encoding/base64";
import { createGateway } from "../../../src/gateway.ts";
import type { Gateway } from "../../../src/gateway_interface.ts";
import type { GatewayOptions } from "../../../src/options.ts";
import { deriveKey, SESSION_KEY_INFO } from "../../../src/core/keys/epochs.ts";
import { createLog } from "../../../src/core/observe/log.ts";
import { memoryStore } from "../../../src/engines/memory.ts";
import type { Store } from "../../../src/core/store/store.ts";
import { FakeClock } from "../../../tools/fake_clock.ts";
import { type Answer, answerOf } from "../../_answer.ts";
import { kidOf } from "../../_kid.ts";
import { headersOf, LISTED, ORIGIN_CASES, OWN } from "../../_origin_table.ts";
import { fallibleStore } from "../../_store.ts";

/** The start of an epoch of ten minutes. */
const START = 1_700_000_400_000;
const EPOCH = "1700000400";
const MASTER = Uint8Array.from({ length: 32 }, (_, index) => index * 7 & 255);
const KID = await kidOf(EPOCH, MASTER);
const SECRET = "the-sensitive-value";

interface RequestFields {
  method?: string;
  query?: string;
  headers?: HeadersInit;
  peer?: string;
}

interface TestGateway extends AsyncDisposable {
  gateway: Gateway;
  clock: FakeClock;
  /** The parsed lines of the log. */
  lines: Record<string, unknown>[];
  /** Requests a session key at `OWN`. */
  ask(fields?: RequestFields): Promise<Answer>;
  /** The log lines about session keys, without the time. */
  audit(): Record<string, unknown>[];
}

/** Starts a gateway with one SENSITIVE variable and a fake clock. */
async function setUp(options: GatewayOptions = {}) {
  const clock = options.clock instanceof FakeClock
    ? options.clock
    : new FakeClock(START);
  const lines: Record<string, unknown>[] = [];
  const log = createLog({
    level: "debug",
    write: (line) => lines.push(JSON.parse(line)),
  });
  const variables = { REP_SENSITIVE_TOKEN: SECRET };
  const gateway = await createGateway({
    variables,
    masterKey: MASTER,
    random: () => 0,
    log,
    ...options,
    clock,
  });

  async function ask(
    { method = "GET", query = "", headers = {}, peer = "203.0.113.9" }:
      RequestFields = {},
  ) {
    const request = new Request(`${OWN}/rep/session-key${query}`, {
      method,
      headers,
    });
    return await answerOf(
      await gateway.fetch(request, {
        remoteAddr: { transport: "tcp", hostname: peer, port: 4711 },
      }),
    );
  }

  const audit = () =>
    lines.filter(({ msg }) => String(msg).startsWith("rep.session_key"))
      .map(({ time: _time, issuance_id: _random, ...line }) => line);
  return {
    gateway,
    clock,
    lines,
    ask,
    audit,
    [Symbol.asyncDispose]: () => gateway.close(),
  };
}

/** The headers of every response. */
const COMMON = {
  "vary": "Origin",
  "cache-control": "no-store, no-cache, must-revalidate",
};
const PREFLIGHT = {
  "access-control-allow-methods": "GET",
  "access-control-max-age": "600",
  "allow": "GET, OPTIONS",
  "vary": "Origin, Access-Control-Request-Headers",
};
const PROBLEM = { ...COMMON, "content-type": "application/problem+json" };

function problem(
  status: number,
  title: string,
  detail: string,
  headers: Record<string, string> = {},
) {
  return {
    status,
    headers: { ...PROBLEM, ...headers },
    body: { title, status, detail },
  };
}

/** Derives the key of an epoch, in base64. */
async function deriveSessionKey(
  epoch: string,
  master = MASTER,
) {
  return encodeBase64(
    await deriveKey(master, epoch, SESSION_KEY_INFO),
  );
}

async function granted(
  epoch: string,
  expiresAt: string,
  headers: Record<string, string> = {},
) {
  return {
    status: 200,
    headers: { ...COMMON, "content-type": "application/json", ...headers },
    body: { key: await deriveSessionKey(epoch), expires_at: expiresAt },
  };
}

const keyIn = ({ body }: Answer) => (body as { key: string }).key;

// ---- the key

Deno.test("GET /rep/session-key returns the key of the current epoch and its expiry", async () => {
  await using gate = await setUp();
  assertEquals(
    await gate.ask(),
    await granted(EPOCH, "2023-11-14T22:20:30.000Z"),
  );
});

Deno.test("GET /rep/session-key returns keys that expire after sessionKeyTtlMs", async () => {
  await using gate = await setUp({ sessionKeyTtlMs: 7_000 });
  gate.clock.jump(123_456);
  assertEquals(
    await gate.ask(),
    await granted(EPOCH, "2023-11-14T22:22:10.456Z"),
  );
});

Deno.test("GET /rep/session-key returns the same key throughout an epoch, and another one in the next", async () => {
  await using gate = await setUp();
  const first = keyIn(await gate.ask());
  gate.clock.jump(599_999);
  assertEquals(keyIn(await gate.ask()), first);
  gate.clock.jump(1);
  assertEquals(keyIn(await gate.ask()), await deriveSessionKey("1700001000"));
});

Deno.test("GET /rep/session-key returns the key of the epoch that kid names", async () => {
  await using gate = await setUp();
  gate.clock.jump(600_000);
  assertEquals(
    keyIn(await gate.ask({ query: `?kid=${KID}` })),
    await deriveSessionKey(EPOCH),
  );
  assertEquals(
    keyIn(await gate.ask({ query: `?other=1&kid=${KID}&kid=1` })),
    await deriveSessionKey(EPOCH),
  );
});

// ---- the order of rejections

Deno.test("GET /rep/session-key rejects in the order 405, 404, 403, 400 or 410, 429", async () => {
  const evil = { origin: "https://evil.example" };
  await using none = await setUp({ variables: { REP_PUBLIC_A: "1" } });
  await using some = await setUp({ sessionKeyMaxRate: 1 });
  await some.ask();
  const asked = [
    await none.ask({ method: "POST", query: "?kid=x", headers: evil }),
    await none.ask({ query: "?kid=x", headers: evil }),
    await some.ask({ query: "?kid=x", headers: evil }),
    await some.ask({ query: "?kid=x" }),
    await some.ask({ query: "?kid=1-000000000000" }),
    await some.ask(),
  ];
  assertEquals(asked, [
    problem(
      405,
      "Method Not Allowed",
      "Cannot use method POST here: expected GET or OPTIONS",
      {
        allow: "GET, OPTIONS",
      },
    ),
    problem(404, "Not Found", "No SENSITIVE variables are configured"),
    problem(
      403,
      "Forbidden",
      `Cannot issue a session key: the origin is not the gateway's own, ${OWN}, and no other origin is allowed`,
    ),
    problem(
      400,
      "Bad Request",
      `Cannot read kid: expected the one in the page's key_endpoint, got "x"`,
    ),
    problem(
      410,
      "Gone",
      "Cannot issue a session key: the page is too old and has to be reloaded",
    ),
    problem(
      429,
      "Too Many Requests",
      "Cannot issue a session key: too many requests, try again in 60 s",
      {
        "retry-after": "60",
      },
    ),
  ]);
});

Deno.test("GET /rep/session-key issues no key whose audit line cannot be written", async () => {
  let isFull = true;
  const events: unknown[] = [];
  const log = createLog({
    write(line) {
      const { msg } = JSON.parse(line);
      if (isFull && msg === "rep.session_key.issued") throw new Error("full");
      events.push(msg);
    },
  });
  await using gate = await setUp({ log });
  assertEquals(
    await gate.ask(),
    problem(
      503,
      "Service Unavailable",
      "Cannot issue a session key: its audit line cannot be written, try again in a few seconds",
    ),
  );
  const request = new Request(`${OWN}/metrics`);
  const metrics = await (await gate.gateway.fetchHealth(request)).text();
  assertMatch(
    metrics,
    /^rep_session_keys_rejected_total{reason="not_logged"} 1$/m,
  );
  assertMatch(metrics, /^rep_session_keys_issued_total 0$/m);
  assertEquals(events.filter((it) => String(it).includes("session_key")), []);
  isFull = false;
  assertEquals((await gate.ask()).status, 200);
});

Deno.test("GET /rep/session-key counts no requests that are rejected for another reason", async () => {
  await using gate = await setUp({ sessionKeyMaxRate: 1 });
  for (let round = 0; round < 5; round++) {
    await gate.ask({ method: "POST" });
    await gate.ask({ headers: { origin: "https://evil.example" } });
    await gate.ask({ query: "?kid=x" });
    await gate.ask({ query: "?kid=1-000000000000" });
    await gate.ask({ method: "OPTIONS", headers: { origin: OWN } });
  }
  assertEquals([(await gate.ask()).status, (await gate.ask()).status], [
    200,
    429,
  ]);
});

Deno.test("GET /rep/session-key exists while there are SENSITIVE variables", async () => {
  let variables: Record<string, string> = { REP_PUBLIC_A: "1" };
  await using gate = await setUp({ variables: () => variables });
  const statuses = [(await gate.ask()).status];
  for (variables of [{ REP_SENSITIVE_A: "1" }, { REP_SERVER_A: "1" }]) {
    await gate.gateway.reload();
    statuses.push((await gate.ask()).status);
  }
  assertEquals(statuses, [404, 200, 404]);
});

// ---- origins

for (const allowed of new Set(ORIGIN_CASES.map((it) => it.allowed))) {
  Deno.test(`GET and OPTIONS /rep/session-key permit the origins of the table, with [${allowed}] allowed`, async () => {
    await using gate = await setUp({
      allowedOrigins: allowed,
      sessionKeyMaxRate: 5_000,
    });
    for (const given of ORIGIN_CASES.filter((it) => it.allowed === allowed)) {
      const headers = headersOf(given);
      const get = await gate.ask({ headers });
      const preflight = await gate.ask({ method: "OPTIONS", headers });
      const credentials = given.allowed.length > 0
        ? { "access-control-allow-credentials": "true" }
        : {};
      const cors = given.origin === undefined
        ? {}
        : { "access-control-allow-origin": given.origin, ...credentials };
      const statuses = [get.status, preflight.status];
      if (given.may) {
        assertEquals({ given, statuses }, { given, statuses: [200, 204] });
        const type = { "content-type": "application/json" };
        assertEquals(get.headers, { ...COMMON, ...type, ...cors });
        assertEquals(preflight.headers, { ...COMMON, ...PREFLIGHT, ...cors });
      } else {
        assertEquals({ given, statuses }, { given, statuses: [403, 403] });
        assertEquals([get.headers, preflight.headers], [PROBLEM, PROBLEM]);
      }
    }
  });
}

Deno.test("GET /rep/session-key returns the CORS header with every error, so that the page can read the reason", async () => {
  const headers = { origin: LISTED };
  const cors = {
    "access-control-allow-credentials": "true",
    "access-control-allow-origin": LISTED,
  };
  const allowedOrigins = [LISTED];
  await using gate = await setUp({ allowedOrigins, sessionKeyMaxRate: 1 });
  await using none = await setUp({ allowedOrigins, variables: {} });
  await using down = await setUp({
    allowedOrigins,
    masterKey: undefined,
    store: brokenStore(),
    startWithoutStore: true,
  });
  await gate.ask({ headers });
  const asked = [
    await gate.ask({ method: "PUT", headers }),
    await none.ask({ headers }),
    await gate.ask({ query: "?kid=", headers }),
    await gate.ask({ query: "?kid=1-000000000000", headers }),
    await gate.ask({ headers }),
    await down.ask({ headers }),
  ];
  const statuses = asked.map(({ status }) => status);
  assertEquals(statuses, [405, 404, 400, 410, 429, 503]);
  for (const { headers } of asked) {
    const { allow: _, "retry-after": __, ...rest } = headers;
    assertEquals(rest, { ...PROBLEM, ...cors });
  }
});

Deno.test("GET /rep/session-key accepts X-Forwarded-Host from trusted proxies only", async () => {
  await using gate = await setUp({ trustedProxies: ["10.0.0.0/8"] });
  const headers = {
    "origin": "https://public.example",
    "x-forwarded-host": "public.example",
    "x-forwarded-proto": "https",
  };
  assertEquals((await gate.ask({ headers, peer: "10.0.0.1" })).status, 200);
  assertEquals((await gate.ask({ headers, peer: "203.0.113.9" })).status, 403);
  assertEquals(
    (await gate.ask({ headers: { origin: OWN }, peer: "10.0.0.1" })).status,
    200,
  );
});

Deno.test("GET /rep/session-key rejects a sandboxed frame, whatever X-Forwarded-Proto says", async () => {
  await using gate = await setUp({ trustedProxies: ["10.0.0.0/8"] });
  for (
    const scheme of ["https", "file", "capacitor", "javascript", "", "null"]
  ) {
    const headers = { "origin": "null", "x-forwarded-proto": scheme };
    assertEquals((await gate.ask({ headers, peer: "10.0.0.1" })).status, 403);
  }
  const request = new Request("http+unix://app.example.com/rep/session-key", {
    headers: { origin: "null" },
  });
  const info = {
    remoteAddr: { transport: "unix", path: "/run/gateway.sock" } as const,
  };
  assertEquals((await gate.gateway.fetch(request, info)).status, 403);
});

// ---- kid

Deno.test("GET /rep/session-key is 400 for a malformed kid, which it truncates", async () => {
  await using gate = await setUp();
  for (const kid of ["", "9".repeat(10_000), '"', `${EPOCH}-x`]) {
    const detail =
      `Cannot read kid: expected the one in the page's key_endpoint, got "${
        kid.slice(0, 40)
      }"`;
    assertEquals(
      await gate.ask({ query: `?kid=${encodeURIComponent(kid)}` }),
      problem(400, "Bad Request", detail),
    );
  }
});

const TOO_OLD = problem(
  410,
  "Gone",
  "Cannot issue a session key: the page is too old and has to be reloaded",
);

const UNKNOWN_KEY = problem(
  410,
  "Gone",
  "Cannot issue a session key: the page is from a gateway with another master key; reload it, and if that does not help, " +
    "its values and its keys come from two gateways, which need the same master key",
);

Deno.test("GET /rep/session-key is 410 for a page from before a restart without a persistent store", async () => {
  const pageKid = async (gate: TestGateway) => {
    await gate.ask();
    return String(gate.audit().at(-1)?.key_id);
  };
  const clock = new FakeClock(START);
  await using before = await setUp({
    clock,
    masterKey: undefined,
    store: memoryStore(),
  });
  const kid = await pageKid(before);
  await using after = await setUp({
    clock,
    masterKey: undefined,
    store: memoryStore(),
  });
  assertEquals((await before.ask({ query: `?kid=${kid}` })).status, 200);
  assertEquals(await after.ask({ query: `?kid=${kid}` }), UNKNOWN_KEY);
  assertEquals(
    (await after.ask({ query: `?kid=${await pageKid(after)}` })).status,
    200,
  );
  assertEquals(after.audit().map(({ msg, reason }) => [msg, reason]), [
    ["rep.session_key.rejected", "unknown_master_key"],
    ["rep.session_key.issued", undefined],
    ["rep.session_key.issued", undefined],
  ]);
});

Deno.test("GET /rep/session-key is 503 for an epoch that begins in more than a minute: a clock is off", async () => {
  await using gate = await setUp({ sessionKeyMaxRate: 2 });
  const query = `?kid=1700000461-${KID.slice(11)}`;
  assertEquals(
    await gate.ask({ query }),
    problem(
      503,
      "Service Unavailable",
      "Cannot issue a session key: the page is from a gateway whose clock differs; a retry may reach that one",
    ),
  );
  assertEquals(gate.audit().map(({ reason }) => reason), ["clock_skew"]);
  assertEquals(
    (await gate.ask({ query: "?kid=1700000461-000000000000" })).status,
    410,
  );
  assertEquals((await gate.ask({ query })).status, 429);
});

Deno.test("GET /rep/session-key returns the key of a page until 24 h after its epoch, and 410 then", async () => {
  await using gate = await setUp();
  const query = `?kid=${KID}`;
  gate.clock.jump(600_000 + 86_400_000 - 1);
  assertEquals((await gate.ask({ query })).status, 200);
  gate.clock.jump(1);
  assertEquals(await gate.ask({ query }), TOO_OLD);
});

// ---- the rate

/** Requests a key once for each client, and returns the statuses. */
async function statusesOf(
  gate: TestGateway,
  clients: readonly RequestFields[],
): Promise<number[]> {
  const statuses: number[] = [];
  for (const client of clients) {
    const { status } = await gate.ask(client);
    statuses.push(status);
  }
  return statuses;
}

Deno.test("GET /rep/session-key returns 10 keys in any 60 s, then 429 with an exact Retry-After", async () => {
  await using gate = await setUp();
  for (let count = 0; count < 10; count++) {
    assertEquals((await gate.ask()).status, 200);
    gate.clock.jump(500);
  }
  const detail =
    "Cannot issue a session key: too many requests, try again in 55 s";
  assertEquals(
    await gate.ask(), // 5 s after the first
    problem(429, "Too Many Requests", detail, { "retry-after": "55" }),
  );
  gate.clock.jump(54_999);
  assertEquals((await gate.ask()).headers["retry-after"], "1");
  gate.clock.jump(1);
  assertEquals(await statusesOf(gate, [{}, {}]), [200, 429]);
});

Deno.test("GET /rep/session-key counts the clients of a trusted proxy separately, and ignores X-Forwarded-For from others", async () => {
  const trustedProxies = ["10.0.0.0/8"];
  await using gate = await setUp({ trustedProxies, sessionKeyMaxRate: 1 });
  const forwarded = (client: string, peer: string) => ({
    headers: { "x-forwarded-for": client },
    peer,
  });
  const statuses = await statusesOf(gate, [
    forwarded("198.51.100.1", "10.0.0.1"),
    forwarded("198.51.100.2", "10.0.0.1"),
    forwarded("8.8.8.8, 198.51.100.2", "10.0.0.1"),
    forwarded("198.51.100.3", "203.0.113.9"),
    forwarded("198.51.100.4", "203.0.113.9"),
  ]);
  assertEquals(statuses, [200, 200, 429, 200, 429]);
});

Deno.test("GET /rep/session-key counts requests without connection info as one client", async () => {
  await using gate = await setUp({ sessionKeyMaxRate: 1 });
  const ask = () => gate.gateway.fetch(new Request(`${OWN}/rep/session-key`));
  assertEquals([(await ask()).status, (await ask()).status], [200, 429]);
});

Deno.test("GET /rep/session-key counts IPv6 clients per /64, and IPv4-mapped addresses as IPv4", async () => {
  await using gate = await setUp({ sessionKeyMaxRate: 1 });
  const statuses = await statusesOf(gate, [
    { peer: "2001:db8:1:2::1" },
    { peer: "2001:db8:1:2:ffff::9" },
    { peer: "2001:db8:1:3::1" },
    { peer: "198.51.100.1" },
    { peer: "::ffff:198.51.100.1" },
  ]);
  assertEquals(statuses, [200, 429, 200, 200, 429]);
});

Deno.test("createGateway() sweeps the rate limit every minute", async () => {
  const store = memoryStore();
  await using gate = await setUp({ store });
  await gate.ask({ peer: "198.51.100.1" });
  await gate.clock.tick(30_000);
  await gate.ask({ peer: "198.51.100.2" });
  await gate.clock.tick(30_000);
  assertEquals((await store.list(["rate"])).map(({ key }) => key.at(-1)), [
    "198.51.100.2",
  ]);
  await gate.clock.tick(60_000);
  assertEquals(await store.list(["rate"]), []);
});

// ---- a store that fails

function brokenStore(): Store {
  const error = new TypeError("disk I/O error");
  return fallibleStore(memoryStore(), () => true, { error });
}

Deno.test("GET /rep/session-key counts in memory while the store is unavailable, which is logged once", async () => {
  await using gate = await setUp({
    store: brokenStore(),
    startWithoutStore: true,
  });
  const statuses = [];
  for (let count = 0; count < 12; count++) {
    statuses.push((await gate.ask()).status);
  }
  assertEquals(statuses, [...Array(10).fill(200), 429, 429]);
  const events = gate.lines.filter(({ msg }) =>
    String(msg).startsWith("rep.store")
  );
  assertEquals(events.map(({ time: _time, ...line }) => line), [{
    level: "ERROR",
    msg: "rep.store.down",
    detail:
      "limits are counted in memory, changes wait: Cannot use the store: disk I/O error",
  }]);
});

Deno.test("GET /rep/session-key is 503 while the master key cannot be loaded from the store", async () => {
  const healthy = memoryStore();
  let isBroken = true;
  const store = fallibleStore(healthy, () => isBroken);
  await using gate = await setUp({
    store,
    startWithoutStore: true,
    masterKey: undefined,
  });
  const detail =
    "Cannot issue a session key: the store is unavailable, try again in a few seconds";
  assertEquals(await gate.ask(), problem(503, "Service Unavailable", detail));
  assertEquals(gate.audit(), [{
    level: "ERROR",
    msg: "rep.session_key.failed",
    client_ip: "203.0.113.9",
    detail: "Cannot use the store: it has just failed: down",
  }]);
  isBroken = false;
  await gate.clock.tick(1_000);
  assertEquals((await gate.ask()).status, 200);
  isBroken = true; // the secret is in memory now
  gate.clock.jump(600_000);
  assertEquals((await gate.ask()).status, 200);
});

// ---- the audit log

Deno.test("GET /rep/session-key logs every issued key, with an id of its own", async () => {
  await using gate = await setUp();
  await gate.ask();
  await gate.ask({
    headers: { origin: OWN },
    query: `?kid=${KID}`,
    peer: "2001:db8:1:2::9",
  });
  const issued = {
    level: "INFO",
    msg: "rep.session_key.issued",
    key_id: KID,
    expires_at: "2023-11-14T22:20:30.000Z",
  };
  assertEquals(gate.audit(), [
    { ...issued, client_ip: "203.0.113.9", origin: "none" },
    { ...issued, client_ip: "2001:db8:1:2::9", origin: OWN },
  ]);
  const ids = gate.lines.map((line) => line.issuance_id).filter(Boolean);
  for (const id of ids) {
    assertMatch(String(id), /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/);
  }
  assertEquals(new Set(ids).size, 2); // so that each key can be tracked
});

Deno.test("GET /rep/session-key logs the first rejection of each client with its reason", async () => {
  await using gate = await setUp({
    sessionKeyMaxRate: 1,
    trustedProxies: ["10.0.0.0/8"],
  });
  const evil = "https://evil.example";
  await gate.ask({
    headers: { "origin": evil, "x-forwarded-for": "198.51.100.7" },
    peer: "10.0.0.1",
  });
  await gate.ask({
    method: "OPTIONS",
    headers: { origin: evil },
    peer: "203.0.113.1",
  });
  await gate.ask({
    headers: { "sec-fetch-site": "cross-site" },
    peer: "203.0.113.2",
  });
  await gate.ask({
    query: "?kid=x",
    headers: { origin: OWN },
    peer: "203.0.113.3",
  });
  await gate.ask({ query: "?kid=1-000000000000", peer: "203.0.113.4" });
  await gate.ask({ query: `?kid=${EPOCH}-000000000000`, peer: "203.0.113.5" });
  await gate.ask({ peer: "203.0.113.6" });
  await gate.ask({
    headers: { "x-forwarded-for": "198.51.100.7" },
    peer: "203.0.113.6",
  });
  const rejected = {
    level: "WARN",
    msg: "rep.session_key.rejected",
    origin: "none",
  };
  const mismatch = {
    reason: "origin_mismatch",
    detail:
      `the origin is not the gateway's own, ${OWN}, and no other origin is allowed`,
  };
  assertEquals(gate.audit().filter(({ level }) => level !== "INFO"), [
    { ...rejected, client_ip: "198.51.100.7", origin: evil, ...mismatch },
    { ...rejected, client_ip: "203.0.113.1", origin: evil, ...mismatch },
    {
      ...rejected,
      client_ip: "203.0.113.2",
      reason: "origin_mismatch",
      detail: "the request is cross-site, not same-origin",
    },
    { ...rejected, client_ip: "203.0.113.3", origin: OWN, reason: "malformed" },
    { ...rejected, client_ip: "203.0.113.4", reason: "expired" },
    { ...rejected, client_ip: "203.0.113.5", reason: "unknown_master_key" },
    {
      level: "WARN",
      msg: "rep.session_key.rate_limited",
      client_ip: "203.0.113.6",
      requests_in_window: 1,
    },
  ]);
});

Deno.test("GET /rep/session-key counts further rejections of a client in one line a minute, but logs every key", async () => {
  await using gate = await setUp({ sessionKeyMaxRate: 3 });
  for (let count = 0; count < 1_000; count++) await gate.ask();
  for (let count = 0; count < 2; count++) await gate.ask({ query: "?kid=x" });
  await gate.clock.tick(60_000);
  assertEquals(gate.audit().map(({ msg }) => msg), [
    ...Array(3).fill("rep.session_key.issued"),
    "rep.session_key.rate_limited",
    "rep.session_key.rejected",
    "rep.session_key.rejections",
  ]);
  assertEquals(gate.audit().at(-1), {
    level: "WARN",
    msg: "rep.session_key.rejections",
    client_ip: "203.0.113.9",
    rate_limited: 996,
    malformed: 1,
  });
});

Deno.test("GET /rep/session-key logs at most 200 characters of an origin", async () => {
  await using gate = await setUp();
  await gate.ask({
    headers: { origin: `https://${"x".repeat(60_000)}.example` },
  });
  assertEquals(gate.audit().map(({ origin }) => origin), [
    `https://${"x".repeat(192)}`,
  ]);
});

Deno.test("GET /rep/session-key logs at most 400 characters about the gateway's own origin", async () => {
  await using gate = await setUp();
  const host = `${"x".repeat(60_000)}.example`;
  const request = new Request(`https://${host}/rep/session-key`, {
    headers: { origin: "https://evil.example" },
  });
  await answerOf(await gate.gateway.fetch(request));
  const [line] = gate.audit();
  assertEquals(String(line?.detail).length, 400);
});

Deno.test("GET /rep/session-key logs neither keys nor values nor the master key", async () => {
  await using gate = await setUp({ sessionKeyMaxRate: 2 });
  const keys = [keyIn(await gate.ask()), keyIn(await gate.ask())];
  await gate.ask();
  await gate.ask({ query: "?kid=x" });
  await gate.ask({ headers: { origin: "https://evil.example" } });
  const log = JSON.stringify(gate.lines);
  for (const secret of [...keys, SECRET, encodeBase64(MASTER)]) {
    assert(!log.includes(secret));
  }
});
