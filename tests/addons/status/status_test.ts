import {
  assertEquals,
  assertMatch,
  assertNotEquals,
  assertRejects,
  assertStringIncludes,
} from "@std/assert";
import {
  readStart,
  type Start,
} from "../../../src/command/options/read_start.ts";
import { Service } from "../../../src/command/start/service.ts";
import { ConfigurationError } from "../../../src/core/config/variables/snapshot.ts";
import {
  STATUS_PAGE,
  STATUS_POLICY,
} from "../../../src/addons/status/status_page.ts";
import { type GatewayOptions, UNKNOWN_PROCESS } from "../../../src/options.ts";
import { memoryStore } from "../../../src/engines/memory.ts";
import { setStoredVariables } from "../../../src/stored/set_stored_variables.ts";
import { systemClock } from "../../../src/core/values/clock.ts";
import { sriHash } from "../../../src/core/values/hash.ts";
import { SESSION_KEY_REJECTIONS } from "../../../src/core/endpoints/session_key.ts";
import { bundleStatusPage } from "../../../tools/bundle_client.ts";
import { FakeClock } from "../../../tools/fake_clock.ts";
import { withEnvironment } from "../../_environment.ts";
import { captureLog, setUp, type TestGateway } from "../../_gateway.ts";
import { askStatus, readStatus } from "../../_status.ts";
import { fallibleStore, remoteStore } from "../../_store.ts";
import { TempDirectory } from "../../_temp.ts";

/** Returns the status as a page. */
async function pageOf(gate: TestGateway) {
  return await (await askStatus(gate)).text();
}

/** Returns those of some texts that the page has. */
async function shownOf(gate: TestGateway, ...texts: string[]) {
  const page = await pageOf(gate);
  return texts.filter((text) => page.includes(text));
}

Deno.test("GET /status is everything that the gateway knows about itself, as JSON", async () => {
  const clock = new FakeClock(Date.UTC(2026, 0, 2, 3, 4, 5));
  const manifest =
    'version: "0.1.0"\nvariables:\n  N: { tier: public, type: number }\n  D: { tier: public, default: d }';
  const options = {
    clock,
    manifest,
    instanceId: "host:8080",
  };
  const process = {
    shownOptions: () => Promise.resolve({ "--strict": "false" }),
  };
  await using test = await setUp(
    {
      REP_PUBLIC_N: "1",
      REP_SENSITIVE_S: "s3cret",
      REP_SERVER_T: "t0ken",
    },
    options,
    process,
  );
  await clock.tick(10_000);
  const {
    configuration: {
      hash,
      sensitive_digest,
      server_digest,
      ...configuration
    },
    rollout,
    events,
    ...status
  } = await readStatus(test);
  assertEquals(
    test.logged("rep.config.loaded")[0]?.configuration,
    hash,
  );
  assertEquals<unknown>(configuration, {
    state: "active",
    active: hash,
    loaded: "2026-01-02T03:04:05.000Z",
  });
  assertMatch(
    `${sensitive_digest} ${server_digest}`,
    /^[0-9a-f]{12} [0-9a-f]{12}$/,
  );
  assertEquals<unknown>(rollout, [{
    ...{
      hash,
      rank: 1,
      role: "active",
      place: "host:8080",
      version: "0.1.0",
      state: "this process",
    },
    heartbeat: "2026-01-02T03:04:10.000Z",
  }]);
  assertEquals(events, [
    {
      time: "2026-01-02T03:04:05.001Z",
      id: 1_767_323_045_001_000,
      name: "N",
      action: "update",
      value: "1",
      by: "host:8080",
      why: "start: variables",
    },
    {
      time: "2026-01-02T03:04:05.000Z",
      id: 1_767_323_045_000_000,
      name: "D",
      action: "update",
      value: "d",
      by: "host:8080",
      why: "start: default in the manifest",
    },
  ]);
  assertEquals(status as unknown, {
    status: "healthy",
    version: "0.1.0",
    variables: { public: 2, sensitive: 1, server: 1 },
    guardrails: { warnings: 0, blocked: 0 },
    uptime_seconds: 10,
    time: "2026-01-02T03:04:15.000Z",
    place: "host:8080",
    has_master_key: true,
    issues: [],
    conflicts: [],
    store: {
      engine: "memory",
      available: true,
      since: "2026-01-02T03:04:05.000Z",
    },
    streams: 0,
    keys: 0,
    rejected_keys: Object.fromEntries(
      SESSION_KEY_REJECTIONS.map((reason) => [reason, 0]),
    ),
    sources: { "variables": 3, "default in the manifest": 1 },
    public: [
      { name: "N", value: "1", source: "variables", type: "number" },
      {
        name: "D",
        value: "d",
        source: "default in the manifest",
        type: "string",
      },
    ],
    sensitive: ["S"],
    warnings: [],
    options: { "--strict": "false" },
  });
});

Deno.test("GET /status is HTML for whoever does not ask for JSON alone, with the same data", async () => {
  await using test = await setUp({
    REP_PUBLIC_A: "the value",
    REP_SENSITIVE_B: "s3cret",
    REP_SERVER_C: "t0ken",
  });
  for (
    const accept of ["text/html,application/xhtml+xml,application/json", "*/*"]
  ) {
    const response = await askStatus(test, { headers: { accept } });
    const text = await response.text();
    assertEquals([response.status, response.headers.get("content-type")], [
      200,
      "text/html; charset=utf-8",
    ]);
    const shown = [
      ">Healthy<",
      "<td>A</td><td>the value</td><td>variables</td><td>string</td>",
      "<li>B</li>",
      "SERVER: 1<",
    ];
    for (const part of shown) assertStringIncludes(text, part);
    assertEquals(/s3cret|t0ken/.test(text), false);
  }
});

Deno.test("GET /status is served by fetchHealth() only, and only read", async () => {
  await using test = await setUp({ REP_PUBLIC_A: "1" }, {
    separateHealth: true,
  });
  assertEquals((await test.ask("/status")).status, 404);
  const head = await askStatus(test, { method: "HEAD" });
  assertEquals([head.status, head.headers.get("cache-control")], [
    200,
    "no-store",
  ]);
  for (const method of ["POST", "PUT", "DELETE", "OPTIONS"]) {
    const response = await askStatus(test, { method });
    assertEquals([response.status, response.headers.get("allow")], [
      405,
      "GET, HEAD",
    ]);
  }
});

Deno.test("GET /status is 421 for names that are not allowed, whatever X-Forwarded-Host says", async () => {
  const allowedHosts = ["app.example.com"];
  await using test = await setUp({ REP_PUBLIC_A: "1" }, { allowedHosts });
  const headers = { "x-forwarded-host": "localhost" };
  const hosts = {
    "10.2.3.4:9090": 200,
    "[::1]:9090": 200,
    "localhost:9090": 200,
    "app.example.com:9090": 200,
    "rebound.example": 421,
    "127.0.0.1.rebound.example": 421,
    "localhost.rebound.example": 421,
  };
  for (const [host, expected] of Object.entries(hosts)) {
    const { status } = await askStatus(test, { headers }, host);
    assertEquals([host, status], [host, expected]);
  }
});

Deno.test("GET /status has a policy with the hashes of its own style and script, is not stored, and has no CORS header", async () => {
  await using test = await setUp({ REP_PUBLIC_A: "1" }, {
    allowedOrigins: ["https://app.example.com"],
  });
  const response = await askStatus(test, {
    headers: { origin: "https://app.example.com" },
  });
  const text = await response.text();
  const [, style = ""] = /<style>([^]*?)<\/style>/.exec(text) ?? [];
  const [, script = ""] =
    /<script type="module">([^]*?)<\/script>/.exec(text) ?? [];
  assertEquals(Object.fromEntries(response.headers), {
    "cache-control": "no-store",
    "content-security-policy":
      `default-src 'none'; style-src '${await sriHash(style)}'; ` +
      `script-src '${await sriHash(
        script,
      )}'; connect-src 'self'; base-uri 'none'; form-action 'none'; ` +
      "frame-ancestors 'none'",
    "content-type": "text/html; charset=utf-8",
    "vary": "accept",
    "x-content-type-options": "nosniff",
  });
  assertEquals(
    [script.includes("setTimeout"), /<\/script|<!--/i.test(script)],
    [true, false],
  );
  assertEquals(/https?:\/\/|@import|url\(|src=|href=/.test(STATUS_PAGE), false); // nothing from elsewhere
});

Deno.test("STATUS_PAGE and STATUS_POLICY are the current output of bundle_client.ts", async () => {
  const hint =
    "tools/status_page was changed: run `deno run -A tools/bundle_client.ts`";
  assertEquals(
    { page: STATUS_PAGE, policy: STATUS_POLICY },
    await bundleStatusPage(),
    hint,
  );
});

Deno.test("GET /status names and explains what was rejected, without values", async () => {
  const manifest = `version: "0.1.0"
variables:
  URL: { tier: sensitive, type: url }
  PATTERN: { tier: server, pattern: "^s3cret.$" }`;
  await using test = await setUp({ REP_PUBLIC_A: "1" }, {
    manifest,
    hotReload: false,
  });
  const variables = {
    REP_SENSITIVE_URL: "s3cret",
    REP_SERVER_PATTERN: "s3cret",
  };
  await assertRejects(() => test.set(variables), ConfigurationError);
  const { status, problems, issues } = await readStatus(test);
  assertEquals([status, problems], ["degraded", ["config_rejected"]]);
  const logged = test.logged("rep.config.rejected")[0];
  assertEquals(issues as unknown, logged?.issues);
  const names = Object.keys(variables);
  assertEquals(await shownOf(test, ...names, "s3cret"), names);
  assertEquals(issues.join().includes("s3cret"), false);
  await test.set({ REP_PUBLIC_A: "2" });
  assertEquals((await readStatus(test)).issues, []);
});

Deno.test("GET /status has neither the credentials of a URL in an issue, nor the whole of a long one", async () => {
  let isBroken = false;
  const variables = () => {
    if (isBroken) {
      throw new ConfigurationError([
        `https://user:pa55word@vault.example/ ${"a".repeat(10_000)}`,
      ]);
    }
    return { REP_PUBLIC_A: "1" };
  };
  await using test = await setUp({}, { variables });
  isBroken = true;
  await assertRejects(() => test.gateway.reload());
  const [issue = ""] = (await readStatus(test)).issues;
  assertStringIncludes(issue, "://…@vault.example/");
  assertEquals([issue.includes("pa55word"), issue.length < 400], [false, true]);
});

Deno.test("GET /status shows warnings of the guardrails, and when a reload has changed the configuration", async () => {
  const clock = new FakeClock(Date.UTC(2026, 0, 2));
  await using test = await setUp({ REP_PUBLIC_A: "1" }, {
    clock,
    hotReload: false,
  });
  const before = await readStatus(test);
  await clock.tick(60_000);
  await test.set({ REP_PUBLIC_A: "1" });
  assertEquals((await readStatus(test)).configuration, before.configuration);
  await test.set({ REP_PUBLIC_TOKEN: "ghp_0123456789abcdefghij" });
  const { configuration, warnings, guardrails } = await readStatus(test);
  assertEquals([configuration.loaded, guardrails.warnings], [
    "2026-01-02T00:01:00.000Z",
    1,
  ]);
  assertNotEquals(configuration.hash, before.configuration.hash);
  assertEquals(warnings, [{
    name: "TOKEN",
    detail: "the value looks like a GitHub token",
  }]);
});

Deno.test("GET /status has the sources of the configuration in use, also after a rejected reload", async () => {
  let source = "old.env";
  await using test = await setUp({ REP_PUBLIC_A: "1", REP_SERVER_B: "2" }, {}, {
    sourceOf: () => source,
  });
  source = "new.env";
  await assertRejects(
    () => test.set({ REP_PUBLIC_A: "1", REP_SERVER_A: "2" }),
    ConfigurationError,
  );
  const { public: shown, sources } = await readStatus(test);
  assertEquals([shown[0]?.source, sources], ["old.env", { "old.env": 2 }]);
});

Deno.test("GET /status says since when reloads are rejected", async () => {
  const clock = new FakeClock(Date.UTC(2026, 0, 2));
  await using test = await setUp({ REP_PUBLIC_A: "1" }, { clock });
  const since = async () => (await readStatus(test)).rejected_since;
  const rejected = (name: string) =>
    assertRejects(
      () =>
        test.set({ [`REP_PUBLIC_${name}`]: "1", [`REP_SERVER_${name}`]: "1" }),
      ConfigurationError,
    );
  assertEquals(await since(), undefined);
  await rejected("A");
  clock.pass(60_000);
  await rejected("B");
  assertEquals(await since(), "2026-01-02T00:00:00.000Z");
  const shown = " Since <time>2026-01-02T00:00:00.000Z</time>, 60 s ago.</p>";
  assertEquals(await shownOf(test, shown), [shown]);
  await test.set({ REP_PUBLIC_A: "1" });
  assertEquals(await since(), undefined);
});

/** Two replicas on one store, the older of which is superseded. */
async function startRollout(options: GatewayOptions = {}) {
  const clock = new FakeClock();
  let isDown = false;
  const store = memoryStore();
  const common = {
    clock,
    store: fallibleStore(store, () => isDown),
    ...options,
  };
  const older = await setUp({ REP_PUBLIC_A: "1" }, {
    ...common,
    instanceId: "older:8080",
  });
  await clock.tick(10_000);
  const newer = await setUp({ REP_PUBLIC_A: "2" }, {
    ...common,
    instanceId: "newer:8080",
  });
  await clock.tick(10_000);
  return {
    ...{ clock, store, older, newer },
    setDown: (value: boolean) => void (isDown = value),
    async [Symbol.asyncDispose]() {
      await Promise.all([older.gateway.close(), newer.gateway.close()]);
    },
  };
}

Deno.test("GET /status of a superseded replica names the active configuration, and who has it", async () => {
  await using test = await startRollout();
  const [older, newer] = [
    await readStatus(test.older),
    await readStatus(test.newer),
  ];
  const active = newer.configuration.hash;
  assertEquals(older.status, "healthy");
  const states = [older, newer].map((it) => [
    it.configuration.state,
    it.configuration.active,
  ]);
  assertEquals(states, [["superseded", active], ["active", active]]);
  assertEquals(
    older.rollout.map((
      { hash, rank, role, place, state },
    ) => [hash, rank, role, place, state]),
    [
      [active, 2, "active", "newer:8080", "living"],
      [older.configuration.hash, 1, "superseded", "older:8080", "this process"],
    ],
  );
  const hint = "Pages have the PUBLIC values of a newer configuration";
  assertEquals(await shownOf(test.older, hint), [hint]);
});

Deno.test("GET /status answers without the store: since when it is down, why, and who stays active", async () => {
  await using test = await startRollout();
  test.setDown(true);
  await test.clock.tick(10_000);
  const { status, problems, store, rollout } = await readStatus(test.newer);
  assertEquals([status, problems, store.available], ["degraded", [
    "store_unavailable",
  ], false]);
  assertEquals([store.failure, rollout.length], [
    "Cannot use the store: down",
    2,
  ]);
  assertEquals(Date.parse(store.since) < test.clock.now(), true);
  await test.older.set({ REP_PUBLIC_A: "3" });
  const { configuration } = await readStatus(test.older);
  const active = (await readStatus(test.newer)).configuration.hash;
  assertEquals([configuration.state, configuration.active], [
    "unannounced",
    active,
  ]);
  test.setDown(false);
  await test.clock.tick(60_000);
  const recovered = await readStatus(test.older);
  assertEquals([
    recovered.status,
    recovered.configuration.state,
    recovered.store.failure,
  ], [
    "healthy",
    "active",
    undefined,
  ]);
});

Deno.test("GET /status answers although the store has never answered", async () => {
  await using test = await setUp({ REP_PUBLIC_A: "1" }, {
    store: fallibleStore(memoryStore(), () => true),
  });
  const { problems, rollout, events, configuration } = await readStatus(test);
  assertEquals([problems, rollout, events, configuration.state], [
    ["store_unavailable"],
    [],
    [],
    "active",
  ]);
});

/** Why a store fails, and what is shown of it. */
const CAUSES: Record<string, string> = {
  "no answer within 5000 ms": "no answer within 5000 ms",
  "database or disk is full": "database or disk is full",
  'the schema "a" has version 2': 'the schema "a" has version 2',
  'Cannot open "postgres://a:b@db.example": refused':
    'Cannot open "postgres://…@db.example": refused',
};

for (const [cause, shown] of Object.entries(CAUSES)) {
  Deno.test(`GET /status says why the store cannot be used, without credentials: ${shown}`, async () => {
    const error = new Error(cause);
    const store = fallibleStore(memoryStore(), () => true, { error });
    await using test = await setUp({ REP_PUBLIC_A: "1" }, { store });
    const { store: { failure } } = await readStatus(test);
    assertEquals(failure, `Cannot use the store: ${shown}`);
    const page = (await pageOf(test)).replaceAll("&#34;", '"');
    assertEquals(page.includes(failure ?? "none"), true);
    assertEquals(page.includes("store does not answer"), false);
  });
}

Deno.test("GET /status says that SENSITIVE values are missing as long as the master key is", async () => {
  let isDown = true;
  const clock = new FakeClock();
  const store = fallibleStore(memoryStore(), () => isDown);
  await using test = await setUp({ REP_PUBLIC_A: "1", REP_SENSITIVE_B: "2" }, {
    store,
    startWithoutStore: true,
    clock,
  });
  const hint = "<p>Pages have no SENSITIVE";
  const isMissing = async () => [
    (await readStatus(test)).has_master_key,
    await shownOf(test, hint),
  ];
  assertEquals(await isMissing(), [false, [hint]]);
  isDown = false;
  await clock.tick(10_000);
  await (await test.ask("/rep/session-key")).text();
  assertEquals(await isMissing(), [true, []]);
});

Deno.test("GET /status has the last 50 events, the newest first", async () => {
  await using test = await setUp(
    Object.fromEntries(
      Array.from({ length: 60 }, (_, n) => [`REP_PUBLIC_V${n}`, "1"]),
    ),
  );
  await test.set({ REP_PUBLIC_V0: "2" });
  const { events } = await readStatus(test);
  assertEquals([events.length, events[0]?.action], [50, "delete"]);
  await test.set({ REP_PUBLIC_V0: "3" });
  const [newest] = (await readStatus(test)).events;
  assertEquals([newest?.name, newest?.action, newest?.id], [
    "V0",
    "update",
    test.lines.findLast(({ key }) => key)?.id,
  ]);
  assertEquals(
    events.map(({ id }) => id),
    events.map(({ id }) => id).toSorted((a, b) => b - a),
  );
});

Deno.test("GET /status says of each event what the value was and is, who changed it and why, in every replica, also after a restart", async () => {
  const clock = new FakeClock(Date.UTC(2026, 0, 2));
  const store = memoryStore();
  const options = { clock, store: remoteStore(store) };
  const sourceOf = () => "/etc/app.env";
  const before = { REP_PUBLIC_A: "1", REP_PUBLIC_B: "", REP_PUBLIC_C: "c" };
  const one = await setUp(before, { ...options, instanceId: "one:8080" }, {
    sourceOf,
  });
  const other = await setUp(before, { ...options, instanceId: "other:8080" });
  const writes = [
    [{ A: "2" }, { by: "alice", why: "launch" }],
    [{ A: "", B: "new" }, { by: "bob" }],
    [{ A: undefined }, {}],
  ] as const;
  for (const [values, cause] of writes) {
    await setStoredVariables(store, values, { clock, ...cause });
    await clock.tick(5_000);
  }
  await one.set({ REP_PUBLIC_A: "1", REP_PUBLIC_C: "3" });
  await clock.tick(5_000);
  const changes = async (gate: TestGateway) =>
    (await readStatus(gate)).events.map(
      ({ name, action, before, value, by, why }) =>
        [name, action, before, value, by, why] as const,
    );
  const expected = [
    ["C", "update", "c", "3", "one:8080", "reload: /etc/app.env"],
    ["A", "update", "", "1", undefined, "module"],
    ["B", "update", "", "new", "bob", "module"],
    ["A", "update", "2", "", "bob", "module"],
    ["A", "update", "1", "2", "alice", "launch"],
    ["C", "update", undefined, "c", "one:8080", "start: /etc/app.env"],
    ["B", "update", undefined, "", "one:8080", "start: /etc/app.env"],
    ["A", "update", undefined, "1", "one:8080", "start: /etc/app.env"],
  ] as const;
  assertEquals<unknown>([await changes(one), await changes(other)], [
    expected,
    expected,
  ]);
  const row = "<td>update</td><td><i>(empty)</i></td><td>new</td><td>bob</td>";
  assertEquals(await shownOf(one, row), [row]);
  await one.gateway.close();
  await clock.tick(5_000);
  await using restarted = await setUp({
    REP_PUBLIC_A: "1",
    REP_PUBLIC_C: "3",
  }, options);
  assertEquals<unknown>((await changes(restarted)).slice(-8), expected);
  await other.gateway.close();
});

Deno.test("GET /status says that an event was a rollback", async () => {
  await using test = await startRollout();
  await test.newer.gateway.close();
  await test.clock.tick(60_000);
  const [event] = (await readStatus(test.older)).events;
  assertEquals([event?.before, event?.value, event?.by, event?.why], [
    "2",
    "1",
    "older:8080",
    "rollback",
  ]);
});

Deno.test("GET /status shows no value that is no longer PUBLIC, published or not, and none that a superseded replica no longer sends", async () => {
  const tiers = { sensitive: "REP_SENSITIVE_A", server: "REP_SERVER_A" };
  for (const [tier, name] of Object.entries(tiers)) {
    for (const isPublished of [true, false]) {
      const clock = new FakeClock();
      let isDown = false;
      const store = fallibleStore(memoryStore(), () => isDown);
      await using test = await setUp({ REP_PUBLIC_A: "once-public" }, {
        clock,
        store,
        masterKey: new Uint8Array(32),
      });
      await test.set({ REP_PUBLIC_A: "public-again" });
      isDown = !isPublished;
      await test.set({ [name]: "s3cret-now" });
      const { events } = await readStatus(test);
      const text = JSON.stringify(events) + await pageOf(test);
      assertEquals(
        /once-public|public-again|s3cret-now/.exec(text),
        null,
        `${tier}, ${isPublished ? "" : "not "}published`,
      );
      assertEquals(events[0]?.name, "A");
    }
  }
  await using test = await startRollout();
  const newest = await setUp({ REP_SENSITIVE_A: "s3cret" }, {
    clock: test.clock,
    store: remoteStore(test.store),
  });
  await test.clock.tick(10_000);
  const { configuration, events } = await readStatus(test.older);
  assertEquals(configuration.state, "superseded");
  assertEquals(
    events.map(({ name, before, value }) => [name, before, value]),
    [["A", undefined, undefined]],
  );
  await newest.gateway.close();
});

Deno.test("GET /status cuts long values and escapes hostile authors and reasons of events", async () => {
  const clock = new FakeClock();
  const store = memoryStore();
  const why = HOSTILE.replace("\0", "");
  await setStoredVariables(store, { A: "x".repeat(64_000), B: "1" }, {
    clock,
    by: why,
    why,
  });
  await using test = await setUp({}, { store, clock });
  const [short, long] = (await readStatus(test)).events;
  assertEquals([short?.by, short?.why], [why, why]);
  assertEquals([long?.value?.length, long?.by], [320, undefined]); // there is no room for who and why
  const page = await pageOf(test);
  assertEquals(/<img|\u202e/.test(page), false);
  const unknown = "<td>unknown</td><td>unknown</td>";
  assertEquals(page.split(unknown).length, 2);
});

/** An entry as ebbde15d writes it. */
const OLDER_MEMBER = {
  hash: "sha256-olderolderolder",
  rank: 1,
  heartbeatAt: Date.UTC(2026, 0, 2),
  instanceId: "older:8080",
};

Deno.test("GET /status shows version, build and place of each member, and what an older one does not say as unknown", async () => {
  const clock = new FakeClock(Date.UTC(2026, 0, 2));
  const store = memoryStore();
  await store.commit([], [
    { key: ["member", "~older"], value: OLDER_MEMBER },
    { key: ["rollout"], value: 1 },
  ]);
  const common = { clock, store: remoteStore(store) };
  const options = { ...common, instanceId: "host:8080", revision: "v2" };
  const version = "0.1.0+1a2b3c4d";
  await using test = await setUp({ REP_PUBLIC_A: "1" }, options, { version });
  await using _none = await setUp({ REP_PUBLIC_A: "1" }, {
    ...common,
    instanceId: "none:8080",
  });
  await clock.tick(5_000);
  const page = await pageOf(test);
  const rows = [...page.matchAll(/<tr><td>(\w+:8080)<\/td>(.*?)<\/tr>/g)]
    .map(([, place, cells]) => [place, ...cells!.matchAll(/<td>(.*?)<\/td>/g)])
    .map(([place, ...cells]) => [place, ...cells.map((cell) => cell?.[1])]);
  const shown = rows.map((
    [place, state, _role, version, build],
  ) => [place, state, version, build]);
  assertEquals(shown.toSorted(), [
    ["host:8080", "this process", version, "v2"],
    ["none:8080", "living", "0.1.0", "none"],
    ["older:8080", "living", "unknown", "unknown"],
  ]);
});

Deno.test("GET /status shows ranks only if there is more than one process", async () => {
  const clock = new FakeClock();
  const store = memoryStore();
  const options = { clock, store: remoteStore(store) };
  const rank = '<th scope="col">rank</th>';
  const first = await setUp({ REP_PUBLIC_A: "1" }, options);
  assertEquals(await shownOf(first, rank), []);
  const second = await setUp({ REP_PUBLIC_A: "2" }, options);
  await clock.tick(5_000);
  assertEquals(await shownOf(first, rank), [rank]);
  await first.gateway.close();
  await clock.tick(5_000);
  assertEquals((await readStatus(second)).rollout.length, 2); // the first one has left
  assertEquals(await shownOf(second, rank), []);
  await second.gateway.close();
});

Deno.test("GET /status has one format of times, that of the log", async () => {
  const clock = new FakeClock(Date.UTC(2026, 0, 2));
  const notAfter = () => Date.UTC(2026, 0, 1) / 1_000;
  const certificate = { ...UNKNOWN_PROCESS.certificate, notAfter };
  const store = memoryStore();
  const options = { clock, store: remoteStore(store) };
  const older = await setUp({ REP_PUBLIC_A: "1" }, options, { certificate });
  const newer = await setUp({ REP_PUBLIC_A: "2" }, options);
  await newer.gateway.close();
  await clock.tick(60_000); // a rollback, whose description has a time
  await older.set({ REP_PUBLIC_A: "1", REP_SERVER_A: "1" }).catch(() => {});
  const page = await pageOf(older);
  const [, main = ""] = /<main>([^]*)<\/main>/.exec(page) ?? [];
  const times = main.match(/\d{4}-\d\d-\d\d.{14}/g) ?? [];
  assertEquals(times.length > 8, true);
  for (const time of times) {
    assertMatch(time, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  }
  assertStringIncludes(main, "last active until");
  await older.gateway.close();
});

Deno.test("GET /status says that a value, an option or a revision is empty", async () => {
  const process = {
    shownOptions: () => Promise.resolve({ "--allowed-hosts": "" }),
  };
  await using test = await setUp({ REP_PUBLIC_A: "" }, {}, process);
  const rows = [
    "<td>A</td><td><i>(empty)</i></td><td>variables</td>",
    "<td>update</td><td><i>(empty)</i></td>",
    "<td>--allowed-hosts</td><td><i>(empty)</i></td>",
  ];
  assertEquals(await shownOf(test, ...rows), rows);
  assertEquals((await readStatus(test)).public[0]?.value, "");
});

Deno.test("GET /status has the open streams, and the session keys since the start", async () => {
  await using test = await setUp({ REP_SENSITIVE_A: "1" });
  const stream = await test.listen();
  for (const path of ["", "", "?kid=x"]) {
    await (await test.ask(`/rep/session-key${path}`)).text();
  }
  const { streams, keys, rejected_keys } = await readStatus(test);
  assertEquals([streams, keys, rejected_keys["malformed"]], [1, 2, 1]);
  const rows = [
    "<dt>Open streams</dt><dd>1</dd>",
    "<dt>Session keys issued</dt><dd>2</dd>",
    "<dt>Session keys rejected</dt><dd>1 malformed</dd>",
  ];
  assertEquals(await shownOf(test, ...rows), rows);
  await stream.close();
});

Deno.test("GET /status has the end of the certificate, and says if it has ended", async () => {
  const clock = new FakeClock(Date.UTC(2026, 0, 2));
  const notAfter = () => Date.UTC(2026, 0, 3) / 1_000;
  await using test = await setUp({ REP_PUBLIC_A: "1" }, {
    clock,
  }, { certificate: { ...UNKNOWN_PROCESS.certificate, notAfter } });
  assertEquals(
    (await readStatus(test)).certificate_end,
    "2026-01-03T00:00:00.000Z",
  );
  const [end, hint] = [
    ">until <time>2026-01-03T00:00:00.000Z<",
    "<p>The TLS certificate has expired",
  ];
  assertEquals(await shownOf(test, end, hint), [end]);
  clock.pass(86_400_000);
  assertEquals(await shownOf(test, hint), [hint]);
});

Deno.test("GET /status says that a certificate was rejected, and why", async () => {
  const rejection = () => ({ detail: "Cannot use cert.pem", since: 0 });
  await using test = await setUp({}, {}, {
    certificate: { ...UNKNOWN_PROCESS.certificate, rejection },
  });
  const { certificate_rejection } = await readStatus(test);
  assertEquals(certificate_rejection, "Cannot use cert.pem");
  const shown = [
    "<p>The new TLS certificate was rejected",
    "<li>Cannot use cert.pem",
  ];
  assertEquals(await shownOf(test, ...shown), shown);
});

Deno.test("GET /status is bounded with a thousand variables of each tier, warnings and long values", async () => {
  const names = Array.from({ length: 1_000 }, (_, index) => `V${index}`);
  const tier = (prefix: string, value: string) =>
    Object.fromEntries(names.map((name) => [prefix + name, value]));
  const secret = `ghp_0123456789abcdefghij${"a".repeat(1_000)}`;
  const variables = {
    ...tier("REP_PUBLIC_", secret),
    ...tier("REP_SENSITIVE_S", "s"),
    ...tier("REP_SERVER_T", "t"),
  };
  await using test = await setUp(variables, { hotReload: false });
  const status = await readStatus(test);
  assertEquals([
    status.public.length,
    status.sensitive.length,
    status.warnings.length,
  ], [300, 300, 300]);
  assertEquals(
    status.public[0]?.value,
    `${secret.slice(0, 300)}… (1024 characters)`,
  );
  assertEquals(status.sources, { variables: 3_000 });
  const page = await pageOf(test);
  assertEquals([
    page.includes("PUBLIC: the first 300 of 1000<"),
    page.length < 300_000,
  ], [true, true]);
});

const HOSTILE = `"><img src=x onerror=alert(1)>'&amp;</script><!--\u202e\0`;

Deno.test("GET /status escapes names, values and reasons, and shows characters that hide or reverse text", async () => {
  const variables = {
    [`REP_PUBLIC_${HOSTILE}`]: HOSTILE,
    [`REP_SENSITIVE_S${HOSTILE}`]: "s",
  };
  const process = {
    shownOptions: () => Promise.resolve({ [HOSTILE]: HOSTILE }),
    sourceOf: () => HOSTILE,
  };
  const options = { instanceId: HOSTILE };
  await using test = await setUp(variables, options, process);
  await assertRejects(() =>
    test.set({ [`REP_PUBLIC_${HOSTILE}`]: "1", [`REP_SERVER_${HOSTILE}`]: "1" })
  );
  const text = await pageOf(test);
  assertEquals(/<img|\u202e|\0/.test(text), false);
  assertEquals(text.split("<script").length, 2);
  const escaped =
    "&#34;&#62;&#60;img src=x onerror=alert(1)&#62;&#39;&#38;amp;&#60;/script&#62;&#60;!--\\u{202e}\\u{0}";
  assertEquals(text.includes(`<td>${escaped}</td><td>${escaped}</td>`), true);
});

Deno.test("GET /status of the command has the sources of the variables, and the options without credentials", async () => {
  await using directory = await TempDirectory.make();
  const [first, second] = [
    await directory.write("first.env", "REP_PUBLIC_A=1\nREP_PUBLIC_B=1\n"),
    await directory.write("second.env", "REP_PUBLIC_B=2\nREP_PUBLIC_C=2\n"),
  ];
  await withEnvironment({ REP_PUBLIC_C: "3" }, async () => {
    const args = ["--kv=:memory:", `--env-file=${first},${second}`];
    const context = {
      ...captureLog(),
      telemetry: undefined,
      clock: systemClock,
      droppedLines: () => 0,
    };
    const start = await readStart(args, {}) as Start;
    const service = new Service(start, context);
    await service.start();
    const gate = { gateway: { fetchHealth: service.fetchHealth } };
    const { public: shown, sources, options } = await readStatus(gate);
    await service.stop();
    assertEquals(
      shown.map(({ name, value, source }) => [name, value, source]),
      [
        ["A", "1", first],
        ["B", "2", second],
        ["C", "3", "environment"],
      ],
    );
    assertEquals(sources, { [first]: 1, [second]: 1, environment: 1 });
    assertEquals([options["--kv"], options["--env-file"], options["--drain"]], [
      ":memory:",
      `${first},${second}`,
      "10s",
    ]);
  });
});
