/**
 * Several gateways on one server: real processes, real connections, real time. The same tests run on every engine that has a server.
 */
import { assertEquals, assertLessOrEqual, assertMatch } from "@std/assert";
import { delay } from "@std/async/delay";
import { type LogLine, runCommand, type RunningCommand, startCommand } from "./_command.ts";
import { type Relay, type RequestCounter, startRelay, within } from "./_relay.ts";
import { type Client, has, heartbeatsOf, idsOf, openStream, valuesOf } from "./_stream_client.ts";
import { TempDirectory } from "./_temp.ts";
import { checkVariableCommands, type StoreAccess } from "./_variable_commands.ts";

/** How long an outage lasts; a stream has a heartbeat every 12 to 15 s. */
const OUTAGE_MS = 20_000;
/** How long a recovery may take. */
export const RECOVERY_MS = 10_000;
/**
 * How long after an outage requests are counted, and how many one gateway may send in this time: at rest it asks for the log and the
 * stored variables once a second, and for the rollout's members; a publication and the saved counts come on top.
 */
const HERD_MS = 3_000;
const MAX_REQUESTS = 50;
/** How soon a change reaches the clients of all gateways. */
export const PROPAGATION_MS = 2_000;

/** A store on a server, for gateways on several machines. */
export interface Engine {
  /** For the names of the tests: "on …". */
  readonly name: string;
  /** Starts a server with an empty database. */
  start(): Promise<EngineServer>;
  /** Counts the requests of one connection. */
  readonly requestCounter: () => RequestCounter;
  /** What a gateway says if the server refuses its credentials. */
  readonly refusal: RegExp;
  /** How many lines Deno itself may write to the output of a gateway during an outage. */
  readonly maxNoise: number;
}

/** A server that can be killed and started again: same port, same data. */
export interface EngineServer extends AsyncDisposable {
  readonly port: number;
  kill(): Promise<void>;
  start(): Promise<void>;
  /** What a gateway needs to connect through a port of this machine. */
  access(port: number, credentials?: "valid" | "invalid"): StoreAccess;
}

/** Gateways on one server, behind a relay, and the file from which all read their variables. */
export interface Scenario extends AsyncDisposable {
  readonly server: EngineServer;
  /** How to connect through the relay. */
  readonly access: StoreAccess;
  readonly relay: Relay;
  readonly gateways: RunningCommand[];
  /** Starts another gateway. */
  start(): Promise<RunningCommand>;
  /** Writes the file, without a signal. */
  write(value: string): Promise<void>;
  /** Writes the file, and signals one gateway to reload. */
  publish(value: string, gateway: RunningCommand): Promise<void>;
}

/** Starts a server, a relay to it, and gateways. */
export async function setUp(engine: Engine, count: number): Promise<Scenario> {
  await using stack = new AsyncDisposableStack();
  const directory = stack.use(await TempDirectory.make());
  const server = stack.use(await engine.start());
  const relay = stack.use(startRelay(server.port, engine.requestCounter));
  const access = server.access(relay.port);
  const write = async (value: string) => {
    await directory.write("app.env", `REP_PUBLIC_A=${value}\nREP_SENSITIVE_S=s\n`);
  };
  await write("0");
  const flags = ["--hot-reload", "--env-file", directory.at("app.env"), "--kv", access.kv];
  const { env } = access;
  const starting = Array.from({ length: count }, () => within(startCommand(flags, env)));
  const gateways = [];
  for (const gateway of starting) gateways.push(stack.use(await gateway));
  const all = stack.move();
  return {
    server,
    access,
    relay,
    gateways,
    start: async () => all.use(await within(startCommand(flags, env))),
    write,
    async publish(value, gateway) {
      await write(value);
      gateway.signal("SIGHUP");
    },
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
}

/** Returns the status in the health report. */
export async function statusOf({ url }: RunningCommand): Promise<string> {
  const response = await within(fetch(`${url}/rep/health`));
  return (await response.json()).status;
}

async function askKey({ url }: RunningCommand, query = ""): Promise<{ status: number; key: string | undefined }> {
  const response = await within(fetch(`${url}/rep/session-key${query}`));
  const { key } = await response.json();
  return { status: response.status, key };
}

/** Requests several keys, one after the other. */
export async function askKeys(gateway: RunningCommand, count: number): Promise<number[]> {
  const statuses = [];
  for (let index = 0; index < count; index++) statuses.push((await askKey(gateway)).status);
  return statuses;
}

/** Waits until every gateway has logged an event. */
export function logged(gateways: readonly RunningCommand[], event: string, ms?: number): Promise<LogLine[]> {
  return within(Promise.all(gateways.map((gateway) => gateway.logged(({ msg }) => msg === event))), ms);
}

/** Lines that Deno writes itself for every attempt of KV Connect. */
function noiseOf({ output }: RunningCommand): number {
  return output.filter((line) => line.startsWith("KV Connect")).length;
}

interface Outage {
  readonly begin: (scenario: Scenario) => unknown;
  readonly end: (scenario: Scenario) => unknown;
}

/** The leak checks cannot tell steps apart that run at the same time; those of the test that they belong to remain. */
const CONCURRENT = { sanitizeOps: false, sanitizeResources: false, sanitizeExit: false } as const;

/** The outages, and how each begins and ends. */
const OUTAGES: Record<string, Outage> = {
  "the server is restarted": {
    begin: ({ server }) => server.kill(),
    end: ({ server }) => server.start(),
  },
  "the connection is silent, and then goes on": {
    begin: ({ relay }) => relay.cut(),
    end: ({ relay }) => relay.mend(),
  },
  "the connection is silent, and then dropped": {
    begin: ({ relay }) => relay.cut(),
    end: ({ relay }) => relay.drop(),
  },
};

/** Registers the tests of an engine; without one, a test that says what is missing and is ignored. */
export function testMultipleGateways(engine: Engine | undefined, missing: string): void {
  for (const [name, fn] of TESTS) {
    if (engine !== undefined) Deno.test(`on ${engine.name}: ${name}`, (context) => fn(engine, context));
    else Deno.test({ name: `without ${missing}: ${name}`, ignore: true, fn() {} });
  }
}

const TESTS = new Map<string, (engine: Engine, context: Deno.TestContext) => Promise<void>>();

function testEngine(name: string, fn: (engine: Engine, context: Deno.TestContext) => Promise<void>): void {
  TESTS.set(name, fn);
}

testEngine(
  "a change published by one gateway reaches the clients of all within 2 s, once, with one id",
  async (engine) => {
    await using scenario = await setUp(engine, 3);
    await using clients = new AsyncDisposableStack();
    const all = [];
    for (const gateway of scenario.gateways) all.push(clients.use(await openStream(gateway)));
    const values = ["1", "2", "3", "4", "5", "6"];
    for (const [index, value] of values.entries()) {
      await scenario.publish(value, at(scenario.gateways, index % 3));
      await Promise.all(all.map((client) => client.until(has(value), PROPAGATION_MS)));
    }
    assertEquals(all.map(valuesOf), [values, values, values]);
    const [ids = []] = all.map(idsOf);
    assertEquals(all.map(idsOf), [ids, ids, ids]);
    assertEquals(ids, [...new Set(ids)].sort((a, b) => a - b));
  },
);

testEngine("30 requests of one client at three gateways at once are issued 10 keys", async (engine) => {
  await using scenario = await setUp(engine, 3);
  const asked = Array.from({ length: 30 }, (_, index) => askKey(at(scenario.gateways, index % 3)));
  const statuses = (await Promise.all(asked)).map(({ status }) => status);
  assertEquals(statuses.sort(), [...Array<number>(10).fill(200), ...Array<number>(20).fill(429)]);
});

testEngine("all gateways issue the same key for a page", async (engine) => {
  await using scenario = await setUp(engine, 3);
  const query = `?kid=${Math.floor(Date.now() / 600_000) * 600}`;
  const asked = await Promise.all(scenario.gateways.map((gateway) => askKey(gateway, query)));
  const [first] = asked;
  assertEquals(asked, Array(3).fill({ status: 200, key: first?.key }));
});

testEngine("the client of a gateway that is killed goes on at another, and misses nothing", async (engine) => {
  await using scenario = await setUp(engine, 3);
  const [killed, publisher, other] = [at(scenario.gateways, 0), at(scenario.gateways, 1), at(scenario.gateways, 2)];
  await using witness = await openStream(publisher);
  await using first = await openStream(killed);
  const values = ["1", "2", "3", "4", "5", "6", "7", "8"];
  for (const value of values) {
    await scenario.publish(value, publisher);
    if (value === "4") killed.signal("SIGKILL"); // the change is on its way, or has come, or will not
    await witness.until(has(value));
  }
  await first.until(({ isOpen }) => !isOpen);
  await using second = await openStream(other, first.messages.at(-1)?.id);
  await second.until(has("8"));
  assertEquals([...valuesOf(first), ...valuesOf(second)], values);
  assertEquals([...idsOf(first), ...idsOf(second)], idsOf(witness));
});

testEngine("20 s of outage end no stream, lose no change and no count, and bring no herd", async (engine, { step }) => {
  const steps = Object.entries(OUTAGES).map(([name, outage]) =>
    step({ name, fn: () => surviveOutage(engine, outage), ...CONCURRENT })
  );
  assertEquals(await Promise.all(steps), steps.map(() => true));
});

testEngine("a gateway that starts while the server is down is degraded, and recovers by itself", async (engine) => {
  await using scenario = await setUp(engine, 1);
  await scenario.server.kill();
  const late = await scenario.start();
  await logged([late], "rep.store.unreachable");
  assertEquals(await statusOf(late), "degraded");
  assertEquals((await askKey(late)).status, 503); // the master key is in the store
  assertMatch(
    await (await within(fetch(`${late.url}/rep/changes`))).text(),
    /: the store is unavailable; reconnect later/,
  );

  await scenario.server.start();
  await logged([late], "rep.store.up");
  assertEquals(await statusOf(late), "healthy");
  assertEquals((await askKey(late)).status, 200);
  await using client = await openStream(late);
  await scenario.publish("1", at(scenario.gateways, 0));
  await client.until(has("1"));
});

testEngine("a gateway that the server refuses does not start, and says why", async (engine) => {
  await using server = await engine.start();
  const { kv, env } = server.access(server.port, "invalid");
  const { code, stderr } = await within(runCommand(["--port", "0", "--kv", kv], env));
  assertEquals(code, 1);
  assertMatch(stderr, engine.refusal);
});

testEngine("set, unset, list, history and watch work, and a gateway serves what they write", async (engine) => {
  await using scenario = await setUp(engine, 1);
  await using client = await openStream(at(scenario.gateways, 0));
  await checkVariableCommands(scenario.access);
  await client.until(has("3"), PROPAGATION_MS);
});

/** An outage of 20 s ends no stream, loses no change and no count, and brings no herd. */
async function surviveOutage(engine: Engine, { begin, end }: Outage): Promise<void> {
  await using scenario = await setUp(engine, 3);
  await using clients = new AsyncDisposableStack();
  const all: Client[] = [];
  for (const gateway of scenario.gateways) all.push(clients.use(await openStream(gateway)));
  const [first, second, third] = [at(scenario.gateways, 0), at(scenario.gateways, 1), at(scenario.gateways, 2)];
  await scenario.publish("before", first);
  await Promise.all(all.map((client) => client.until(has("before"))));
  assertEquals(await askKeys(first, 3), [200, 200, 200]);
  assertEquals(await askKeys(second, 3), [200, 200, 200]);

  await begin(scenario);
  const outage = delay(OUTAGE_MS);
  await logged(scenario.gateways, "rep.store.down");
  assertEquals(await Promise.all(scenario.gateways.map(statusOf)), ["degraded", "degraded", "degraded"]);
  await scenario.publish("meanwhile", third);
  await logged([third], "rep.config.not_published");
  assertEquals(await askKeys(second, 6), [200, 200, 200, 200, 429, 429]);
  const heartbeats = all.map(heartbeatsOf);
  await Promise.all(all.map((client, index) => client.until(() => heartbeatsOf(client) > at(heartbeats, index))));
  await outage;
  assertEquals(all.map(valuesOf), Array(3).fill(["before"]));

  const requests = scenario.relay.passed.requests;
  await end(scenario);
  const herd = delay(HERD_MS).then(() => scenario.relay.passed.requests - requests);
  await logged(scenario.gateways, "rep.store.up", RECOVERY_MS);
  await Promise.all(all.map((client) => client.until(has("meanwhile"), RECOVERY_MS)));
  assertEquals(await Promise.all(scenario.gateways.map(statusOf)), ["healthy", "healthy", "healthy"]);
  await logged([second], "rep.rate_limit.saved");
  assertEquals((await Promise.all(scenario.gateways.map((gateway) => askKeys(gateway, 1)))).flat(), [429, 429, 429]);
  await scenario.publish("after", second);
  await Promise.all(all.map((client) => client.until(has("after"), PROPAGATION_MS)));

  assertEquals(all.map(valuesOf), Array(3).fill(["before", "meanwhile", "after"]));
  assertEquals(all.map(idsOf), Array(3).fill(idsOf(at(all, 0))));
  assertEquals(all.map(({ isOpen }) => isOpen), [true, true, true]);
  assertLessOrEqual(await herd, 3 * MAX_REQUESTS);
  assertLessOrEqual(Math.max(...scenario.gateways.map(noiseOf)), engine.maxNoise);
}

/** Returns the item at an index. */
export function at<T>(items: readonly T[], index: number): T {
  const item = items[index];
  if (item === undefined) throw new RangeError(`There is no item ${index}`);
  return item;
}
