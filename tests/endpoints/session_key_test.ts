import { assert, assertEquals, assertNotEquals, assertRejects } from "@std/assert";
import { decodeBase64, encodeBase64 } from "@std/encoding/base64";
import { BLOB_KEY_INFO, deriveKey } from "../../src/crypto/hkdf.ts";
import { createGateway, type Gateway } from "../../src/gateway.ts";
import type { GatewayOptions } from "../../src/gateway_options.ts";
import { createLog } from "../../src/log.ts";
import { kvStore } from "../../src/store/kv.ts";
import { memoryStore } from "../../src/store/memory.ts";
import type { Store } from "../../src/store/store.ts";
import { type Answer, answerOf } from "../_answer.ts";
import { FakeClock, settle } from "../../tools/fake_clock.ts";
import { headersOf, LISTED, ORIGIN_CASES, OWN } from "../_origin_table.ts";
import { countedStore } from "../_store.ts";

/** An epoch of ten minutes begins here. */
const START = 1_700_000_400_000;
const KID = "1700000400";
const MASTER = Uint8Array.from({ length: 32 }, (_, index) => index * 7 & 255);
const SECRET = "the-sensitive-value";

interface Asking {
  method?: string;
  query?: string;
  headers?: HeadersInit;
  peer?: string;
}

interface KeyStage extends AsyncDisposable {
  gateway: Gateway;
  clock: FakeClock;
  /** The log, one object a line. */
  lines: Record<string, unknown>[];
  /** Asks for a session key at the own origin of the table. */
  ask(asking?: Asking): Promise<Answer>;
  /** What the log says of session keys, without time and level. */
  audit(): Record<string, unknown>[];
}

/** A gateway with one SENSITIVE variable, on a clock that stands still. */
async function stage(options: GatewayOptions = {}): Promise<KeyStage> {
  const clock = options.clock instanceof FakeClock ? options.clock : new FakeClock(START);
  const lines: Record<string, unknown>[] = [];
  const log = createLog({ level: "debug", write: (line) => lines.push(JSON.parse(line)) });
  const variables = { REP_SENSITIVE_TOKEN: SECRET };
  const gateway = await createGateway({ variables, masterKey: MASTER, random: () => 0, log, ...options, clock });

  async function ask({ method = "GET", query = "", headers = {}, peer = "203.0.113.9" }: Asking = {}) {
    const request = new Request(`${OWN}/rep/session-key${query}`, { method, headers });
    return await answerOf(
      await gateway.fetch(request, { remoteAddr: { transport: "tcp", hostname: peer, port: 4711 } }),
    );
  }

  const audit = () =>
    lines.filter(({ msg }) => String(msg).startsWith("rep.session_key"))
      .map(({ time: _time, ...line }) => line);
  return { gateway, clock, lines, ask, audit, [Symbol.asyncDispose]: () => gateway.close() };
}

/** What stands on every answer. */
const ALWAYS = { "vary": "Origin", "cache-control": "no-store, no-cache, must-revalidate" };
const PROBLEM = { ...ALWAYS, "content-type": "application/problem+json" };

function problem(status: number, title: string, detail: string, headers: Record<string, string> = {}): Answer {
  return { status, headers: { ...PROBLEM, ...headers }, body: { title, status, detail } };
}

/** The key that an epoch has under a master secret, as the wire has it. */
async function keyOf(kid: string, master = MASTER): Promise<string> {
  return encodeBase64(await deriveKey(master, { salt: kid, info: BLOB_KEY_INFO }));
}

async function granted(kid: string, expiresAt: string, headers: Record<string, string> = {}): Promise<Answer> {
  return {
    status: 200,
    headers: { ...ALWAYS, "content-type": "application/json", ...headers },
    body: { key: await keyOf(kid), expires_at: expiresAt },
  };
}

const keyIn = ({ body }: Answer) => (body as { key: string }).key;

// ---- the key

Deno.test("GET /rep/session-key gives the current epoch's key and when it expires", async () => {
  await using set = await stage();
  assertEquals(await set.ask(), await granted(KID, "2023-11-14T22:20:30.000Z"));
});

Deno.test("GET /rep/session-key gives a key of 32 bytes that is not the master secret", async () => {
  await using set = await stage();
  const key = decodeBase64(keyIn(await set.ask()));
  assertEquals(key.length, 32);
  assertNotEquals(key, MASTER);
});

Deno.test("GET /rep/session-key gives a key with which AES-256-GCM works", async () => {
  await using set = await stage();
  const key = await crypto.subtle.importKey("raw", decodeBase64(keyIn(await set.ask())), "AES-GCM", false, ["encrypt"]);
  assertEquals(key.algorithm, { name: "AES-GCM", length: 256 } as KeyAlgorithm);
});

Deno.test("GET /rep/session-key lets a key expire 30 s after it was issued, at whatever moment that is", async () => {
  await using set = await stage();
  set.clock.jump(123_456);
  assertEquals((await set.ask()).body, { key: await keyOf(KID), expires_at: "2023-11-14T22:22:33.456Z" });
});

Deno.test("GET /rep/session-key lets a key expire after another time if it is told so", async () => {
  await using set = await stage({ sessionKeyTtlMs: 7_000 });
  assertEquals((await set.ask()).body, { key: await keyOf(KID), expires_at: "2023-11-14T22:20:07.000Z" });
});

Deno.test("GET /rep/session-key gives another key in another epoch, and the same one all through it", async () => {
  await using set = await stage();
  const first = keyIn(await set.ask());
  set.clock.jump(599_999);
  assertEquals(keyIn(await set.ask()), first);
  set.clock.jump(1);
  assertEquals(keyIn(await set.ask()), await keyOf("1700001000"));
});

Deno.test("GET /rep/session-key gives the key of the epoch that kid names, not the current one's", async () => {
  await using set = await stage();
  set.clock.jump(600_000);
  assertEquals(keyIn(await set.ask({ query: `?kid=${KID}` })), await keyOf(KID));
  assertEquals(keyIn(await set.ask({ query: `?other=1&kid=${KID}&kid=1` })), await keyOf(KID));
});

Deno.test("GET /rep/session-key gives the same key in two gateways with the same master key, another with another", async () => {
  await using one = await stage();
  await using two = await stage();
  await using other = await stage({ masterKey: new Uint8Array(32).fill(9) });
  assertEquals(keyIn(await two.ask()), keyIn(await one.ask()));
  assertNotEquals(keyIn(await other.ask()), keyIn(await one.ask()));
});

Deno.test("GET /rep/session-key gives the same key in two gateways on one store, without a master key of theirs", async () => {
  const store = memoryStore();
  await using one = await stage({ store, masterKey: undefined });
  await using two = await stage({ store, masterKey: undefined });
  const asked = Promise.all([one.ask(), two.ask()]);
  for (let step = 0; step < 5; step++) await Promise.all([one.clock.tick(1), two.clock.tick(1)]);
  const [first, second] = await asked;
  assertEquals(keyIn(first), keyIn(second));
  await using later = await stage({ store, masterKey: undefined });
  assertEquals(keyIn(await later.ask()), keyIn(first));
  await using elsewhere = await stage({ masterKey: undefined });
  assertNotEquals(keyIn(await elsewhere.ask()), keyIn(first));
});

Deno.test("createGateway() refuses a master key that is not 32 bytes long, without repeating it", async () => {
  for (const length of [0, 16, 31, 33]) {
    const masterKey = new Uint8Array(length).fill(65);
    const message = `Cannot use masterKey: expected 32 bytes, got ${length}`;
    const error = await assertRejects(() => createGateway({ variables: {}, masterKey }), RangeError);
    assertEquals(error.message, message);
  }
});

Deno.test("createGateway() refuses numbers that its options cannot have, and names the option", async () => {
  const wrong: [keyof GatewayOptions, readonly number[]][] = [
    ["sessionKeyTtlMs", [NaN, 0, 999, 30_001, Infinity, -1, 1_000.5]],
    ["sessionKeyMaxRate", [NaN, 0, -1, 1.5, 10_001, Infinity]],
    ["keyRotationMs", [NaN, 0, 999, 1_001, -1_000, Infinity]],
    ["keyRetentionMs", [NaN, -1, Infinity]],
    ["maxStreams", [NaN, 0, -1, 1.5]],
    ["maxStreamAgeMs", [NaN, 0, -1]],
  ];
  for (const [name, values] of wrong) {
    for (const value of values) {
      await assertRejects(
        () => createGateway({ variables: {}, [name]: value }),
        RangeError,
        `Cannot use ${String(name)}: expected `,
      );
    }
  }
});

Deno.test("createGateway() refuses allowed origins that no browser sends", async () => {
  for (
    const origin of ["", "*", "null", "app.example.com", `${OWN}/`, `${OWN}:443`, "https://APP.example.com", `${OWN}/a`]
  ) {
    const error = await assertRejects(
      () => createGateway({ variables: {}, allowedOrigins: [LISTED, origin] }),
      RangeError,
    );
    const expected = "expected origins such as https://app.example.com";
    assertEquals(error.message, `Cannot use allowedOrigins: ${expected}, got "${origin}"`);
  }
});

// ---- the order of refusals

Deno.test("GET /rep/session-key refuses in the order 405, 404, 403, 400 or 410, 429", async () => {
  const evil = { origin: "https://evil.example" };
  await using none = await stage({ variables: { REP_PUBLIC_A: "1" } });
  await using some = await stage({ sessionKeyMaxRate: 1 });
  await some.ask();
  const asked = [
    await none.ask({ method: "POST", query: "?kid=x", headers: evil }),
    await none.ask({ query: "?kid=x", headers: evil }),
    await some.ask({ query: "?kid=x", headers: evil }),
    await some.ask({ query: "?kid=x" }),
    await some.ask({ query: "?kid=1" }),
    await some.ask(),
  ];
  assertEquals(asked, [
    problem(405, "Method Not Allowed", "Cannot POST here: expected GET, OPTIONS", { allow: "GET, OPTIONS" }),
    problem(404, "Not Found", "No SENSITIVE variables are configured"),
    problem(
      403,
      "Forbidden",
      "Cannot issue a session key: the origin is not the gateway's own, and no other is allowed",
    ),
    problem(400, "Bad Request", `Cannot read kid: expected what the page's key_endpoint holds, got "x"`),
    problem(410, "Gone", "Cannot issue a key for this page: it is too old; load it again"),
    problem(429, "Too Many Requests", "Cannot issue another session key yet: try again in 60 s", {
      "retry-after": "60",
    }),
  ]);
});

Deno.test("GET /rep/session-key counts no request that is refused for another reason", async () => {
  await using set = await stage({ sessionKeyMaxRate: 1 });
  for (let round = 0; round < 5; round++) {
    await set.ask({ method: "POST" });
    await set.ask({ headers: { origin: "https://evil.example" } });
    await set.ask({ query: "?kid=x" });
    await set.ask({ query: "?kid=1" });
    await set.ask({ method: "OPTIONS", headers: { origin: OWN } });
  }
  assertEquals([(await set.ask()).status, (await set.ask()).status], [200, 429]);
});

Deno.test("GET /rep/session-key is there from the reload on that brings a SENSITIVE variable, and gone with it", async () => {
  let variables: Record<string, string> = { REP_PUBLIC_A: "1" };
  await using set = await stage({ variables: () => variables });
  const statuses = [(await set.ask()).status];
  for (variables of [{ REP_SENSITIVE_A: "1" }, { REP_SERVER_A: "1" }]) {
    await set.gateway.reload();
    statuses.push((await set.ask()).status);
  }
  assertEquals(statuses, [404, 200, 404]);
});

for (const method of ["HEAD", "POST", "PUT", "PATCH", "DELETE", "FOO", "foo", "patch"]) {
  Deno.test(`${method} /rep/session-key is 405 and gives no key`, async () => {
    await using set = await stage();
    const detail = `Cannot ${method} here: expected GET, OPTIONS`;
    assertEquals(
      await set.ask({ method }),
      problem(405, "Method Not Allowed", detail, { allow: "GET, OPTIONS" }),
    );
    assertEquals(set.audit(), []);
  });
}

Deno.test("get /rep/session-key is GET, as the Fetch standard has it", async () => {
  await using set = await stage();
  assertEquals((await set.ask({ method: "get" })).status, 200);
});

// ---- origins

Deno.test("GET /rep/session-key gives keys to the origins in the table, to no others, and says Vary to all", async () => {
  for (const allowed of new Set(ORIGIN_CASES.map((it) => it.allowed))) {
    await using set = await stage({ allowedOrigins: allowed, sessionKeyMaxRate: 10_000 });
    for (const given of ORIGIN_CASES.filter((it) => it.allowed === allowed)) {
      const { status, headers } = await set.ask({ headers: headersOf(given) });
      const cors = given.may && given.origin !== undefined ? { "access-control-allow-origin": given.origin } : {};
      const type = { "content-type": given.may ? "application/json" : "application/problem+json" };
      assertEquals(
        { given, status, headers },
        { given, status: given.may ? 200 : 403, headers: { ...ALWAYS, ...type, ...cors } },
      );
    }
  }
});

Deno.test("OPTIONS /rep/session-key is 204 for the origins in the table, 403 for all others", async () => {
  for (const allowed of new Set(ORIGIN_CASES.map((it) => it.allowed))) {
    await using set = await stage({ allowedOrigins: allowed });
    for (const given of ORIGIN_CASES.filter((it) => it.allowed === allowed)) {
      const { status, headers, body } = await set.ask({ method: "OPTIONS", headers: headersOf(given) });
      const cors = given.origin === undefined ? {} : { "access-control-allow-origin": given.origin };
      const preflight = {
        ...{ "access-control-allow-methods": "GET", "access-control-max-age": "600", "allow": "GET, OPTIONS" },
        ...cors,
      };
      const expected = given.may
        ? { status: 204, headers: { ...ALWAYS, ...preflight }, isEmpty: true }
        : { status: 403, headers: PROBLEM, isEmpty: false };
      assertEquals({ given, status, headers, isEmpty: body === undefined }, { given, ...expected });
    }
  }
});

Deno.test("GET /rep/session-key names a permitted origin on every answer, so that its page can read why", async () => {
  const headers = { origin: LISTED };
  const cors = { "access-control-allow-origin": LISTED };
  const allowedOrigins = [LISTED];
  await using set = await stage({ allowedOrigins, sessionKeyMaxRate: 1 });
  await using none = await stage({ allowedOrigins, variables: {} });
  await using down = await stage({ allowedOrigins, masterKey: undefined, store: brokenStore() });
  await set.ask({ headers });
  const asked = [
    await set.ask({ method: "PUT", headers }),
    await none.ask({ headers }),
    await set.ask({ query: "?kid=", headers }),
    await set.ask({ query: "?kid=1", headers }),
    await set.ask({ headers }),
    await down.ask({ headers }),
  ];
  assertEquals(asked.map(({ status }) => status), [405, 404, 400, 410, 429, 503]);
  for (const answer of asked) {
    const { allow: _allow, "retry-after": _retryAfter, ...rest } = answer.headers;
    assertEquals(rest, { ...PROBLEM, ...cors });
  }
});

Deno.test("GET /rep/session-key names no other origin on any answer", async () => {
  const headers = { origin: "https://evil.example" };
  await using set = await stage({ allowedOrigins: [LISTED] });
  await using none = await stage({ variables: {} });
  for (
    const answer of [await set.ask({ headers }), await set.ask({ method: "PUT", headers }), await none.ask({ headers })]
  ) {
    assertEquals(answer.headers["access-control-allow-origin"], undefined);
    assertEquals(answer.headers["vary"], "Origin");
  }
});

Deno.test("GET /rep/session-key takes the own origin from a proxy that is trusted, and from no other peer", async () => {
  await using set = await stage({ trustedProxies: ["10.0.0.0/8"] });
  const headers = {
    "origin": "https://public.example",
    "x-forwarded-host": "public.example",
    "x-forwarded-proto": "https",
  };
  assertEquals((await set.ask({ headers, peer: "10.0.0.1" })).status, 200);
  assertEquals((await set.ask({ headers, peer: "203.0.113.9" })).status, 403);
  assertEquals((await set.ask({ headers: { origin: OWN }, peer: "10.0.0.1" })).status, 200);
});

Deno.test("GET /rep/session-key gives no key to a sandboxed frame, whatever a proxy says of the scheme", async () => {
  await using set = await stage({ trustedProxies: ["10.0.0.0/8"] });
  for (const scheme of ["https", "file", "capacitor", "javascript", "", "null"]) {
    const headers = { "origin": "null", "x-forwarded-proto": scheme };
    assertEquals((await set.ask({ headers, peer: "10.0.0.1" })).status, 403);
  }
  const request = new Request("http+unix://app.example.com/rep/session-key", { headers: { origin: "null" } });
  const info = { remoteAddr: { transport: "unix", path: "/run/gateway.sock" } as const };
  assertEquals((await set.gateway.fetch(request, info)).status, 403);
});

// ---- kid

Deno.test("GET /rep/session-key answers a malformed kid with 400 and no more than its beginning", async () => {
  await using set = await stage();
  for (
    const kid of [
      "",
      "x",
      "-1",
      "0",
      "1e9",
      "1700000400.0",
      "1700000461",
      "9".repeat(10_000),
      "\0",
      '"',
      "../..",
      "<b>",
    ]
  ) {
    const detail = `Cannot read kid: expected what the page's key_endpoint holds, got "${kid.slice(0, 40)}"`;
    assertEquals(await set.ask({ query: `?kid=${encodeURIComponent(kid)}` }), problem(400, "Bad Request", detail));
  }
  assertEquals(set.audit().length, 12);
});

Deno.test("GET /rep/session-key gives a page's key for 24 h after its epoch, and then 410", async () => {
  await using set = await stage();
  const query = `?kid=${KID}`;
  set.clock.jump(600_000 + 86_400_000 - 1);
  assertEquals((await set.ask({ query })).status, 200);
  set.clock.jump(1);
  const detail = "Cannot issue a key for this page: it is too old; load it again";
  assertEquals(await set.ask({ query }), problem(410, "Gone", detail));
});

Deno.test("GET /rep/session-key gives the current key however short the retention is", async () => {
  await using set = await stage({ keyRotationMs: 86_400_000, keyRetentionMs: 0 });
  set.clock.jump(1_000_000);
  assertEquals((await set.ask()).status, 200);
});

// ---- the rate

Deno.test("GET /rep/session-key gives 10 keys in any 60 s, then says when to come back, right to the second", async () => {
  await using set = await stage();
  for (let count = 0; count < 10; count++) {
    assertEquals((await set.ask()).status, 200);
    set.clock.jump(500);
  }
  const refused = await set.ask(); // 5 s after the first
  const detail = "Cannot issue another session key yet: try again in 55 s";
  assertEquals(refused, problem(429, "Too Many Requests", detail, { "retry-after": "55" }));
  set.clock.jump(54_999);
  assertEquals((await set.ask()).headers["retry-after"], "1");
  set.clock.jump(1);
  assertEquals([(await set.ask()).status, (await set.ask()).status], [200, 429]);
  set.clock.jump(500);
  assertEquals([(await set.ask()).status, (await set.ask()).status], [200, 429]);
});

Deno.test("GET /rep/session-key gives exactly 10 of 200 at once from one client, with few store operations", async () => {
  const store = countedStore(memoryStore());
  await using set = await stage({ store });
  await settle();
  store.reset(); // of what the start has read
  const answers = await Promise.all(Array.from({ length: 200 }, () => set.ask()));
  assertEquals(answers.filter(({ status }) => status === 200).length, 10);
  assertEquals(answers.filter(({ status }) => status === 429).length, 190);
  assertEquals(store.counts, { get: 10, list: 0, commit: 10 });
});

for (const open of [memoryStore, async () => kvStore(await Deno.openKv(":memory:"))]) {
  Deno.test(`GET /rep/session-key gives exactly 10 of 200 at once on two gateways (${open.name || "kvStore"})`, async () => {
    const store = await open();
    try {
      const clock = new FakeClock(START);
      await using one = await stage({ store, clock, random: Math.random });
      await using two = await stage({ store, clock, random: Math.random });
      const asked = Array.from({ length: 200 }, (_, index) => (index % 2 ? one : two).ask());
      let isDone = false;
      const answers = Promise.all(asked).finally(() => isDone = true);
      while (!isDone) await clock.tick(1);
      assertEquals((await answers).filter(({ status }) => status === 200).length, 10);
      assertEquals((await answers).filter(({ status }) => status === 429).length, 190);
    } finally {
      store.close();
    }
  });
}

Deno.test("GET /rep/session-key goes on counting in a gateway that starts later on the same store", async () => {
  const store = memoryStore();
  const clock = new FakeClock(START);
  {
    await using first = await stage({ store, clock });
    for (let count = 0; count < 8; count++) await first.ask();
  }
  await using second = await stage({ store, clock });
  const statuses = [await second.ask(), await second.ask(), await second.ask()].map(({ status }) => status);
  assertEquals(statuses, [200, 200, 429]);
});

Deno.test("GET /rep/session-key counts a stranger under its own address, whatever it says in X-Forwarded-For", async () => {
  await using set = await stage({ trustedProxies: ["10.0.0.0/8"], sessionKeyMaxRate: 2 });
  const statuses = [];
  for (let count = 0; count < 4; count++) {
    const { status } = await set.ask({ headers: { "x-forwarded-for": `198.51.100.${count}` } });
    statuses.push(status);
  }
  assertEquals(statuses, [200, 200, 429, 429]);
});

Deno.test("GET /rep/session-key counts the clients of a trusted proxy each for itself", async () => {
  await using set = await stage({ trustedProxies: ["10.0.0.0/8"], sessionKeyMaxRate: 1 });
  const statuses = [];
  for (const client of ["198.51.100.1", "198.51.100.2", "198.51.100.1", "8.8.8.8, 198.51.100.2"]) {
    statuses.push((await set.ask({ headers: { "x-forwarded-for": client }, peer: "10.0.0.1" })).status);
  }
  assertEquals(statuses, [200, 200, 429, 429]);
});

Deno.test("GET /rep/session-key counts IPv6 clients by their /64, and IPv4 ones however they are written", async () => {
  await using set = await stage({ sessionKeyMaxRate: 1 });
  const statuses: [string, number][] = [];
  for (
    const peer of [
      ...["2001:db8:1:2::1", "2001:db8:1:2:ffff::9", "2001:db8:1:3::1"],
      ...["198.51.100.1", "::ffff:198.51.100.1", "::ffff:c633:6401", "::ffff:198.51.100.2"],
    ]
  ) {
    statuses.push([peer, (await set.ask({ peer })).status]);
  }
  assertEquals(statuses, [
    ["2001:db8:1:2::1", 200],
    ["2001:db8:1:2:ffff::9", 429],
    ["2001:db8:1:3::1", 200],
    ["198.51.100.1", 200],
    ["::ffff:198.51.100.1", 429],
    ["::ffff:c633:6401", 429],
    ["::ffff:198.51.100.2", 200],
  ]);
});

Deno.test("GET /rep/session-key counts all requests as one client's when nobody says whose they are", async () => {
  await using set = await stage({ sessionKeyMaxRate: 1 });
  const ask = () => set.gateway.fetch(new Request(`${OWN}/rep/session-key`));
  assertEquals([(await ask()).status, (await ask()).status], [200, 429]);
});

Deno.test("createGateway() sweeps the store of clients that are gone, every minute", async () => {
  const store = memoryStore();
  await using set = await stage({ store });
  await set.ask({ peer: "198.51.100.1" });
  await set.clock.tick(30_000);
  await set.ask({ peer: "198.51.100.2" });
  await set.clock.tick(30_000);
  assertEquals((await store.list(["rate"])).map(({ key }) => key.at(-1)), ["198.51.100.2"]);
  await set.clock.tick(60_000);
  assertEquals(await store.list(["rate"]), []);
});

// ---- a store that fails

function brokenStore(): Store {
  const fail = () => Promise.reject(new TypeError("disk I/O error"));
  return { ...countedStore(memoryStore()), get: fail, list: fail, commit: fail };
}

Deno.test("GET /rep/session-key goes on counting in memory when the store fails, and the log says so once", async () => {
  await using set = await stage({ store: brokenStore() });
  const statuses = [];
  for (let count = 0; count < 12; count++) statuses.push((await set.ask()).status);
  assertEquals(statuses, [...Array(10).fill(200), 429, 429]);
  const told = set.lines.filter(({ msg }) => String(msg).startsWith("rep.store"));
  assertEquals(told.map(({ time: _time, ...line }) => line), [{
    level: "ERROR",
    msg: "rep.store.down",
    detail: "limits are counted in memory, changes wait: Cannot use the store: disk I/O error",
  }]);
});

Deno.test("GET /rep/session-key waits no more than 5 s for a store that is silent, and the next one not at all", async () => {
  const silent = () => new Promise<never>(() => {});
  await using set = await stage({ store: { ...brokenStore(), get: silent } });
  const first = set.ask();
  await set.clock.tick(5_000);
  assertEquals((await first).status, 200);
  assertEquals((await set.ask()).status, 200);
  const closed = set.gateway.close(); // which does not wait for it for long, either
  await settle();
  await set.clock.tick(1_000);
  await closed;
});

Deno.test("GET /rep/session-key is 503 while the store keeps the master secret and does not answer", async () => {
  const healthy = memoryStore();
  let isBroken = true;
  const store: Store = {
    ...countedStore(healthy),
    get: <T>(key: Parameters<Store["get"]>[0]) =>
      isBroken ? Promise.reject(new TypeError("disk I/O error")) : healthy.get<T>(key),
  };
  await using set = await stage({ store, masterKey: undefined });
  const detail = "Cannot issue a session key now: try again in some seconds";
  assertEquals(await set.ask(), problem(503, "Service Unavailable", detail));
  assertEquals(set.audit(), [{
    level: "ERROR",
    msg: "rep.session_key.failed",
    client_ip: "203.0.113.9",
    detail: "StoreUnavailableError: Cannot use the store: it has just failed",
  }]);
  isBroken = false;
  set.clock.jump(1_000);
  assertEquals((await set.ask()).status, 200);
  isBroken = true; // from now on the secret is known
  set.clock.jump(600_000);
  assertEquals((await set.ask()).status, 200);
});

Deno.test("GET /rep/session-key is a bare 500 when something happens that nobody foresaw, and the log has all of it", async () => {
  const errors: unknown[] = [];
  const fails = () => {
    throw new TypeError(`Cannot write: ${SECRET}`);
  };
  const log = { debug() {}, info: fails, warn() {}, error: (...said: unknown[]) => errors.push(said) };
  const gateway = await createGateway({
    variables: { REP_SENSITIVE_TOKEN: SECRET },
    log: { ...log, info: (event) => event === "rep.session_key.issued" ? fails() : undefined },
  });
  const answer = await answerOf(await gateway.fetch(new Request(`${OWN}/rep/session-key`)));
  assertEquals(answer, problem(500, "Internal Server Error", "Something went wrong; the log says what"));
  assertEquals(errors.length, 1);
  const [[event, { detail }]] = errors as [[string, { detail: string }]];
  assertEquals(event, "rep.request.failed");
  assert(detail.startsWith(`TypeError: Cannot write: ${SECRET}\n    at `));
  await gateway.close();
});

// ---- the audit log

Deno.test("GET /rep/session-key writes every issuance to the audit log", async () => {
  const before = new Date().toISOString();
  await using set = await stage();
  await set.ask();
  await set.ask({ headers: { origin: OWN }, query: `?kid=${KID}`, peer: "2001:db8:1:2::9" });
  assertEquals(set.audit(), [
    {
      level: "INFO",
      msg: "rep.session_key.issued",
      client_ip: "203.0.113.9",
      origin: "none",
      key_id: KID,
      expires_at: "2023-11-14T22:20:30.000Z",
    },
    {
      level: "INFO",
      msg: "rep.session_key.issued",
      client_ip: "2001:db8:1:2::9",
      origin: OWN,
      key_id: KID,
      expires_at: "2023-11-14T22:20:30.000Z",
    },
  ]);
  const times = set.lines.map(({ time }) => String(time));
  assert(times.every((time) => before <= time && time <= new Date().toISOString()), String(times));
});

Deno.test("GET /rep/session-key writes every refusal to the audit log, with its reason", async () => {
  await using set = await stage({ sessionKeyMaxRate: 1, trustedProxies: ["10.0.0.0/8"] });
  const evil = "https://evil.example";
  await set.ask({ headers: { "origin": evil, "x-forwarded-for": "198.51.100.7" }, peer: "10.0.0.1" });
  await set.ask({ method: "OPTIONS", headers: { origin: evil } });
  await set.ask({ headers: { "sec-fetch-site": "cross-site" } });
  await set.ask({ query: "?kid=x", headers: { origin: OWN } });
  await set.ask({ query: "?kid=1" });
  await set.ask();
  await set.ask({ headers: { "x-forwarded-for": "198.51.100.7" } });
  const rejected = { level: "WARN", msg: "rep.session_key.rejected", client_ip: "203.0.113.9", origin: "none" };
  const mismatch = {
    reason: "origin_mismatch",
    detail: "the origin is not the gateway's own, and no other is allowed",
  };
  assertEquals(set.audit().filter(({ level }) => level !== "INFO"), [
    { ...rejected, client_ip: "198.51.100.7", origin: evil, ...mismatch },
    { ...rejected, origin: evil, ...mismatch },
    { ...rejected, reason: "origin_mismatch", detail: "a cross-site request is not a same-origin one" },
    { ...rejected, origin: OWN, reason: "malformed" },
    { ...rejected, reason: "expired" },
    { level: "WARN", msg: "rep.session_key.rate_limited", client_ip: "203.0.113.9", requests_in_window: 1 },
  ]);
});

Deno.test("GET /rep/session-key writes no more than 200 characters of an origin to the log", async () => {
  await using set = await stage();
  await set.ask({ headers: { origin: `https://${"x".repeat(60_000)}.example` } });
  assertEquals(set.audit().map(({ origin }) => origin), [`https://${"x".repeat(192)}`]);
});

Deno.test("GET /rep/session-key writes neither key nor value nor master secret anywhere, whatever is asked", async () => {
  await using set = await stage({ sessionKeyMaxRate: 2 });
  const keys = [keyIn(await set.ask()), keyIn(await set.ask())];
  await set.ask();
  await set.ask({ query: "?kid=x" });
  await set.ask({ headers: { origin: "https://evil.example" } });
  const log = JSON.stringify(set.lines);
  for (const secret of [...keys, SECRET, encodeBase64(MASTER)]) assert(!log.includes(secret));
});
