/** A gateway that starts while its store cannot be read. */
import { assertEquals, assertRejects } from "@std/assert";
import { writeVariables } from "../src/stored/write_variables.ts";
import {
  EVENTS,
  type StoredEvent,
  toEvents,
} from "../src/core/changes/event_log.ts";
import { ConfigurationError } from "../src/core/config/variables/snapshot.ts";
import { createGateway } from "../src/gateway.ts";
import type { GatewayOptions } from "../src/options.ts";
import { memoryStore } from "../src/engines/memory.ts";
import type { Store } from "../src/core/store/store.ts";
import { FakeClock, settle } from "../tools/fake_clock.ts";
import { answerOf } from "./_answer.ts";
import { captureLog, setUp, type TestGateway } from "./_gateway.ts";
import {
  delegate,
  fallibleStore,
  interceptedStore,
  remoteStore,
} from "./_store.ts";
import { TempDirectory } from "./_temp.ts";

const VARIABLES = { REP_PUBLIC_A: "environment", REP_SENSITIVE_S: "secret" };

const NOT_READY = {
  status: 503,
  headers: {
    "cache-control": "no-store",
    "content-type": "application/problem+json",
    "retry-after": "5",
  },
  body: {
    title: "Service Unavailable",
    status: 503,
    detail: "The gateway is starting: it has not read its store yet",
  },
};

/** A store that is down, in which `set` has written a variable, and a gateway that starts on it. */
async function setUpOutage(
  variables: Record<string, string>,
  options: GatewayOptions = {},
) {
  const clock = new FakeClock();
  const inner = memoryStore();
  await writeVariables(inner, new Map([["A", "stored"]]), {
    clock,
    random: () => 0,
    ifId: undefined,
  });
  const state = { isDown: true, operations: 0 };
  const store = fallibleStore(inner, () => {
    state.operations++;
    return state.isDown;
  });
  const gate = await setUp(variables, { store, clock, ...options });
  return { clock, inner, state, gate, store };
}

function page(): Response {
  const headers = { "content-type": "text/html" };
  return new Response("<head></head>", { headers });
}

/** Returns the PUBLIC values of a page; its status if there is none. */
async function valuesOfPage({ gateway }: TestGateway): Promise<unknown> {
  const response = await gateway.inject(page());
  const text = await response.text();
  const [, payload] = /<script[^>]*>(.*)<\/script>/.exec(text) ?? [];
  return payload === undefined ? response.status : JSON.parse(payload).public;
}

async function healthOf(gate: TestGateway): Promise<unknown[]> {
  const response = await gate.ask("/rep/health");
  const { status, problems } = await response.json();
  return [response.status, status, problems];
}

async function probe({ gateway }: TestGateway, path: string) {
  const request = new Request(`http://health.test${path}`);
  const response = await gateway.fetchHealth(request);
  return [response.status, await response.text()];
}

Deno.test("a gateway that has never read its store serves nothing, and then what its neighbours serve", async () => {
  await using directory = await TempDirectory.make({
    "index.html": "<head></head>",
    "app.js": "",
  });
  const options = { staticDir: directory.path, ofrep: true };
  const { clock, state, gate } = await setUpOutage(VARIABLES, options);
  await using _ = gate;
  const paths = [
    "/",
    "/app.js",
    "/rep/session-key",
    "/rep/client.js",
    "/rep/other",
    "/ofrep/v1/evaluate/flags",
  ];
  for (const path of paths) {
    assertEquals([path, await answerOf(await gate.ask(path))], [
      path,
      NOT_READY,
    ]);
  }
  const starting = [503, "starting", ["store_unavailable"]];
  assertEquals(await healthOf(gate), starting);
  assertEquals(await probe(gate, "/readyz"), [
    503,
    "starting store_unavailable\n",
  ]);
  assertEquals(await probe(gate, "/livez"), [200, "live\n"]);
  await clock.tick(600_000);
  assertEquals(await healthOf(gate), starting);
  assertEquals(gate.logged("rep.start.waiting").map(({ detail }) => detail), [
    "not ready until the store has been read: Cannot use the store: down",
  ]);
  assertEquals(gate.logged("rep.config.loaded"), []);

  state.isDown = false;
  await clock.tick(1_000);
  await gate.gateway.ready;
  assertEquals(await healthOf(gate), [200, "healthy", undefined]);
  assertEquals(await probe(gate, "/readyz"), [200, "healthy\n"]);
  assertEquals(await valuesOfPage(gate), { A: "stored" });
  assertEquals((await gate.ask("/rep/session-key")).status, 200);
  assertEquals((await gate.ask("/app.js")).status, 200);
  assertEquals(gate.logged("rep.config.loaded").length, 1);
});

Deno.test("the functions of a gateway that is not ready give no values, and leave everything but pages to the app", async () => {
  const { gate } = await setUpOutage(VARIABLES);
  await using _ = gate;
  const { gateway } = gate;
  assertEquals(await answerOf(await gateway.inject(page())), NOT_READY);
  const other = new Response("app");
  assertEquals(await (await gateway.inject(other)).text(), "app");
  const forApp = new Request("http://gateway.test/users");
  assertEquals(await gateway.handle(forApp), undefined);
  await assertRejects(() => gateway.configScript(), Error, "is starting");
  assertEquals([gateway.get("A"), gateway.getPrivate("S")], [
    undefined,
    undefined,
  ]);
});

Deno.test("with startWithoutStore, a gateway serves its own values until the store answers", async () => {
  const options = { startWithoutStore: true };
  const { clock, state, gate } = await setUpOutage(VARIABLES, options);
  await using _ = gate;
  assertEquals(await healthOf(gate), [200, "degraded", [
    "store_unavailable",
    "change_waiting",
  ]]);
  assertEquals(await valuesOfPage(gate), { A: "environment" });
  assertEquals(gate.logged("rep.start.waiting"), []);
  state.isDown = false;
  await clock.tick(2_000);
  assertEquals(await valuesOfPage(gate), { A: "stored" });
});

Deno.test("with startWithoutStore, what was read in an outage is published also if the file is invalid when the store answers", async () => {
  let isInvalid = false;
  const variables = () => {
    if (isInvalid) throw new ConfigurationError(["Cannot read the file"]);
    return { REP_PUBLIC_B: "1" };
  };
  const options = { startWithoutStore: true, variables };
  const { clock, inner, state, gate } = await setUpOutage({}, options);
  await using _ = gate;
  isInvalid = true;
  await assertRejects(() => gate.gateway.reload(), ConfigurationError);
  state.isDown = false;
  await clock.tick(6_000);
  const events = toEvents(await inner.list<StoredEvent>(EVENTS));
  assertEquals(events.map(({ name, value }) => [name, value]), [
    ["A", "stored"],
    ["B", "1"],
  ]);
});

Deno.test("with startWithoutStore, a replica of a superseded configuration has what is published at once if the store answers", async () => {
  const clock = new FakeClock();
  const shared = { store: remoteStore(memoryStore()), clock };
  const old = { REP_PUBLIC_A: "old" };
  await using _first = await setUp(old, shared);
  await using _active = await setUp({ REP_PUBLIC_A: "new" }, shared);
  const options = { ...shared, startWithoutStore: true };
  await using restarted = await setUp(old, options);
  assertEquals(await valuesOfPage(restarted), { A: "new" });
});

Deno.test("a gateway whose store is in memory is ready at once", async () => {
  await using gate = await setUp(VARIABLES);
  assertEquals(await healthOf(gate), [200, "healthy", undefined]);
});

Deno.test("without hot reload, a gateway waits for the variables in its store, too", async () => {
  const { clock, state, gate } = await setUpOutage(VARIABLES, {
    hotReload: false,
  });
  await using _ = gate;
  assertEquals(await valuesOfPage(gate), 503);
  state.isDown = false;
  await clock.tick(1_000);
  await gate.gateway.ready;
  assertEquals(await valuesOfPage(gate), { A: "stored" });
});

Deno.test("with hot reload, a gateway waits until it has read which values are published", async () => {
  const clock = new FakeClock();
  const inner = memoryStore();
  await using _other = await setUp({ REP_PUBLIC_A: "old" }, {
    store: inner,
    clock,
  });
  let isDown = true;
  const list: Store["list"] = async (prefix, options) => {
    if (isDown && prefix[0] === "state") throw new Error("down");
    return await inner.list(prefix, options);
  };
  const store = { ...delegate(inner), list };
  await using gate = await setUp({ REP_PUBLIC_A: "new" }, { store, clock });
  assertEquals(await valuesOfPage(gate), 503);
  isDown = false;
  await clock.tick(1_000);
  await gate.gateway.ready;
  assertEquals(await valuesOfPage(gate), { A: "new" });
});

/** Whether a gateway waits for a store that can be read but not written, so that no master key can be created. */
const WITHOUT_MASTER_KEY: Record<string, [GatewayOptions, boolean]> = {
  "SENSITIVE variables": [{ variables: VARIABLES }, true],
  "SENSITIVE variables and a master key of its own": [{
    variables: VARIABLES,
    masterKey: new Uint8Array(32),
  }, false],
  "no SENSITIVE variable": [{ variables: { REP_PUBLIC_A: "1" } }, false],
};

for (const [what, [options, waits]] of Object.entries(WITHOUT_MASTER_KEY)) {
  Deno.test(`a gateway with ${what} ${waits ? "waits" : "does not wait"} for the master key in the store`, async () => {
    const clock = new FakeClock();
    let isFull = true;
    const store = fallibleStore(memoryStore(), () => isFull, {
      operations: ["commit"],
    });
    await using gate = await setUp({}, { store, clock, ...options });
    const { status } = await gate.ask("/rep/health");
    assertEquals(status, waits ? 503 : 200);
    isFull = false;
    await clock.tick(1_000);
    await gate.gateway.ready;
    assertEquals(gate.logged("rep.config.loaded").length, 1);
    assertEquals((await gate.ask("/rep/health")).status, 200);
  });
}

Deno.test("a gateway that becomes ready has what its sources contain then, and a reload waits for that", async () => {
  let variables: Record<string, string> = { REP_PUBLIC_B: "before" };
  const { clock, state, gate } = await setUpOutage({}, {
    variables: () => variables,
  });
  await using _ = gate;
  let isReloaded = false;
  const reloading = gate.gateway.reload().then(() => isReloaded = true);
  variables = { REP_PUBLIC_B: "meanwhile" };
  await settle();
  assertEquals(isReloaded, false);
  state.isDown = false;
  await clock.tick(1_000);
  await reloading;
  assertEquals(await valuesOfPage(gate), { A: "stored", B: "meanwhile" });
  assertEquals(gate.logged("rep.config.rejected"), []);
});

Deno.test("a variable that only the store has is not missing while the store cannot be read", async () => {
  const manifest =
    'version: "0.1.0"\nvariables:\n  A: { tier: public, type: string, required: true }\n';
  const { clock, state, gate } = await setUpOutage({}, { manifest });
  await using _ = gate;
  state.isDown = false;
  await clock.tick(1_000);
  await gate.gateway.ready;
  assertEquals(await valuesOfPage(gate), { A: "stored" });
});

Deno.test("a start that fails after it has waited says why, and closes the gateway", async () => {
  const clock = new FakeClock();
  let isDown = true;
  const store = fallibleStore(memoryStore(), () => isDown);
  const { log, lines } = captureLog();
  const variables = { REP_PUBLIC_A: "1", REP_SERVER_A: "2" };
  const gateway = await createGateway({ variables, store, clock, log });
  isDown = false;
  const failing = assertRejects(() => gateway.ready, Error, "REP_SERVER_A");
  await clock.tick(1_000);
  await failing;
  const failed = lines.filter(({ msg }) => msg === "rep.start.failed");
  assertEquals(failed.map(({ detail }) => String(detail).slice(0, 10)), [
    "Cannot use",
  ]);
  const request = new Request("http://gateway.test/rep/health");
  const response = await gateway.fetch(request);
  assertEquals((await response.json()).status, "stopping");
});

Deno.test("a gateway that is closed while it waits leaves the store alone from then on", async () => {
  const { clock, state, gate } = await setUpOutage(VARIABLES);
  await gate.gateway.close({ drainMs: 60_000 });
  state.isDown = false;
  state.operations = 0;
  await clock.tick(60_000);
  assertEquals(state.operations, 0);
  assertEquals([clock.waiting, gate.logged("rep.config.loaded")], [0, []]);
});

Deno.test("a gateway that is closed while its store answers starts nothing", async () => {
  const clock = new FakeClock();
  const inner = memoryStore();
  const answer = Promise.withResolvers<void>();
  let isDown = true;
  const store = interceptedStore(inner, async (operation) => {
    if (isDown) throw new Error("down");
    if (operation === "commit") await answer.promise; // that of the master key
  });
  const gate = await setUp(VARIABLES, { store, clock });
  isDown = false;
  await clock.tick(1_000);
  await gate.gateway.close();
  answer.resolve();
  await settle();
  assertEquals([clock.waiting, gate.logged("rep.config.changed")], [0, []]);
});

Deno.test("a gateway that is closed during its first publication starts no tasks", async () => {
  const clock = new FakeClock();
  const answer = Promise.withResolvers<void>();
  let isDown = true;
  const store = interceptedStore(memoryStore(), async (operation) => {
    if (isDown) throw new Error("down");
    if (operation === "commit") await answer.promise; // that of the publication
  });
  const options = { store, clock, masterKey: new Uint8Array(32) };
  const gate = await setUp({ REP_PUBLIC_A: "1" }, options);
  isDown = false;
  await clock.tick(1_000);
  const closing = gate.gateway.close();
  await clock.tick(10_000); // it does not wait for the store for ever
  await closing;
  answer.resolve();
  await settle();
  assertEquals(clock.waiting, 0);
});
