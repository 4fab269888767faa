/**
 * Several gateways on one server: real processes, real connections, real time. The same tests run on every engine that
 * has a server.
 */
import {
  assertEquals,
  assertLess,
  assertLessOrEqual,
  assertMatch,
} from "@std/assert";
import { delay } from "@std/async/delay";
import {
  type LogLine,
  runCommand,
  type RunningCommand,
  startCommand,
  startWaitingCommand,
} from "./_command.ts";
import { Relay, type RequestCounter } from "./_relay.ts";
import {
  Client,
  has,
  heartbeatsOf,
  idsOf,
  valuesOf,
} from "./_stream_client.ts";
import { TempDirectory } from "./_temp.ts";
import {
  checkVariableCommands,
  type StoreAccess,
} from "./_variable_commands.ts";
import { medianOf, until, within } from "./_time.ts";

/** How long the server is down; a stream has a heartbeat every 12 to 15 s. */
const OUTAGE_MS = 20_000;
/** The time within which the gateways must recover: an idle machine needs less than 10 s. */
export const RECOVERY_MS = 30_000;
/**
 * How long requests are counted after an outage, and how many one gateway may send in that time: an idle one polls the
 * log and the stored variables once a second, and the members of the rollout; in addition it publishes, and saves its
 * counts.
 */
const BURST_MS = 3_000;
const MAX_REQUESTS = 50;
/** How soon changes reach the clients of all gateways. */
const USUAL_PROPAGATION_MS = 2_000;
/** How soon each of them does on a busy machine: before the next heartbeat. */
export const PROPAGATION_MS = 10_000;

/** A store on a server, for gateways on several machines. */
export interface Engine {
  /** For the names of the tests: "on …". */
  readonly name: string;
  /** Starts a server with an empty database. */
  start(): Promise<EngineServer>;
  /** Creates the counter of one connection. */
  readonly createCounter: () => RequestCounter;
  /** The message of a gateway whose credentials the server rejects. */
  readonly rejection: RegExp;
  /** How many lines Deno itself may print to the output of a gateway in an outage. */
  readonly maxDenoLines: number;
}

/** A server that can be killed and started again: same port, same data. */
export interface EngineServer extends AsyncDisposable {
  readonly port: number;
  kill(): Promise<void>;
  start(): Promise<void>;
  /** What a gateway needs to connect through a port of this machine. */
  access(port: number, credentials?: "valid" | "invalid"): StoreAccess;
}

/** Gateways on one server, behind a relay, that read their variables from one file. */
export interface Setup extends AsyncDisposable {
  readonly server: EngineServer;
  /** How to connect through the relay. */
  readonly access: StoreAccess;
  readonly relay: Relay;
  readonly gateways: RunningCommand[];
  /** Starts one more gateway, which may have to wait for the server. */
  start(): Promise<RunningCommand>;
  /** Writes the file. */
  write(value: string): Promise<void>;
  /** Writes the file, and has one gateway reload it. */
  publish(value: string, gateway: RunningCommand): Promise<void>;
}

/** Starts a server, a relay to it, and gateways. */
export async function setUp(engine: Engine, count: number): Promise<Setup> {
  await using stack = new AsyncDisposableStack();
  const directory = stack.use(await TempDirectory.make());
  const server = stack.use(await engine.start());
  const relay = stack.use(new Relay(server.port, engine.createCounter));
  const access = server.access(relay.port);
  const write = async (value: string) => {
    await directory.write(
      "app.env",
      `REP_PUBLIC_A=${value}\nREP_SENSITIVE_S=s\n`,
    );
  };
  await write("0");
  const flags = [
    "--hot-reload",
    "--env-file",
    directory.at("app.env"),
    "--kv",
    access.kv,
  ];
  const { env } = access;
  const starts = Array.from(
    { length: count },
    () => within(startCommand(flags, env)),
  );
  const gateways = [];
  for (const gateway of starts) gateways.push(stack.use(await gateway));
  const all = stack.move();
  return {
    server,
    access,
    relay,
    gateways,
    start: async () => all.use(await within(startWaitingCommand(flags, env))),
    write,
    async publish(value, gateway) {
      await write(value);
      gateway.signal("SIGHUP");
    },
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
}

/** A client of each of several gateways. */
class Clients implements AsyncDisposable {
  readonly all: readonly Client[];

  private constructor(all: readonly Client[]) {
    this.all = all;
  }

  static async open(gateways: readonly RunningCommand[]): Promise<Clients> {
    const opening = gateways.map((gateway) => Client.open(gateway));
    return new Clients(await Promise.all(opening));
  }

  /** Waits until a condition holds for each of them. */
  async until(holds: (client: Client) => boolean, ms?: number): Promise<void> {
    await Promise.all(this.all.map((client) => client.until(holds, ms)));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const client of this.all) await client[Symbol.asyncDispose]();
  }
}

/** Waits for one more heartbeat. */
async function nextHeartbeat(client: Client): Promise<void> {
  const before = heartbeatsOf(client);
  await client.until(() => heartbeatsOf(client) > before);
}

/** Returns the status in the health report. */
export async function statusOf({ url }: RunningCommand): Promise<string> {
  const response = await within(fetch(`${url}/rep/health`));
  return (await response.json()).status;
}

/** Waits until the health report of each gateway has a status. */
async function allAre(
  status: string,
  gateways: readonly RunningCommand[],
): Promise<void> {
  await until(async () => {
    const statuses = await Promise.all(gateways.map(statusOf));
    return statuses.every((it) => it === status);
  });
}

async function requestKey(
  { url }: RunningCommand,
  query = "",
): Promise<{ status: number; key: string | undefined }> {
  const response = await within(fetch(`${url}/rep/session-key${query}`));
  const { key } = await response.json();
  return { status: response.status, key };
}

/** Requests this many keys, one after the other. */
export async function requestKeys(
  gateway: RunningCommand,
  count: number,
): Promise<number[]> {
  const statuses = [];
  for (let index = 0; index < count; index++) {
    statuses.push((await requestKey(gateway)).status);
  }
  return statuses;
}

/** Waits until every gateway has logged an event. */
export function logged(
  gateways: readonly RunningCommand[],
  event: string,
  ms?: number,
): Promise<LogLine[]> {
  return within(
    Promise.all(
      gateways.map((gateway) => gateway.logged(({ msg }) => msg === event)),
    ),
    ms,
  );
}

/** Counts the lines that Deno itself prints while it retries operations of KV Connect. */
function denoLines({ output }: RunningCommand): number {
  return output.filter((line) => line.startsWith("KV Connect")).length;
}

interface Outage {
  readonly begin: (setup: Setup) => unknown;
  readonly end: (setup: Setup) => unknown;
}

/** The leak checks cannot distinguish concurrent steps; those of the whole test remain. */
const CONCURRENT = {
  sanitizeOps: false,
  sanitizeResources: false,
  sanitizeExit: false,
} as const;

/** Kinds of outages, and how each ends. */
const OUTAGES: Record<string, Outage> = {
  "the server is restarted": {
    begin: ({ server }) => server.kill(),
    end: ({ server }) => server.start(),
  },
  "the connection is silent, and then resumes": {
    begin: ({ relay }) => relay.cut(),
    end: ({ relay }) => relay.mend(),
  },
  "the connection is silent, and then dropped": {
    begin: ({ relay }) => relay.cut(),
    end: ({ relay }) => relay.drop(),
  },
};

/** Registers the tests of an engine; without one they are ignored, and their names say what is missing. */
export function testMultipleGateways(
  engine: Engine | undefined,
  missing: string,
): void {
  for (const [name, fn] of TESTS) {
    if (engine !== undefined) {
      Deno.test(`on ${engine.name}: ${name}`, (context) => fn(engine, context));
    } else {
      Deno.test.ignore(`without ${missing}: ${name}`, () => {});
    }
  }
}

const TESTS = new Map<
  string,
  (engine: Engine, context: Deno.TestContext) => Promise<void>
>();

function testEngine(
  name: string,
  fn: (engine: Engine, context: Deno.TestContext) => Promise<void>,
): void {
  TESTS.set(name, fn);
}

testEngine(
  "a change published by one gateway reaches the clients of all gateways within 2 s, once, with one id",
  async (engine) => {
    await using setup = await setUp(engine, 3);
    await using clients = await Clients.open(setup.gateways);
    const values = ["1", "2", "3", "4", "5", "6"];
    const times: number[] = [];
    for (const [index, value] of values.entries()) {
      const start = performance.now();
      await setup.publish(value, at(setup.gateways, index % 3));
      await clients.until(has(value), PROPAGATION_MS);
      times.push(performance.now() - start);
    }
    assertLess(medianOf(times), USUAL_PROPAGATION_MS, `${times}`);
    assertEquals(clients.all.map(valuesOf), [values, values, values]);
    const [ids = []] = clients.all.map(idsOf);
    assertEquals(clients.all.map(idsOf), [ids, ids, ids]);
    assertEquals(ids, [...new Set(ids)].sort((a, b) => a - b));
  },
);

testEngine(
  "30 concurrent requests of one client to three gateways are issued 10 keys",
  async (engine) => {
    await using setup = await setUp(engine, 3);
    const requests = Array.from(
      { length: 30 },
      (_, index) => requestKey(at(setup.gateways, index % 3)),
    );
    const statuses = (await Promise.all(requests)).map(({ status }) => status);
    assertEquals(statuses.sort(), [
      ...Array<number>(10).fill(200),
      ...Array<number>(20).fill(429),
    ]);
  },
);

testEngine(
  "the client of a gateway that is killed resumes at another, and misses no change",
  async (engine) => {
    await using setup = await setUp(engine, 3);
    const [killed, publisher, other] = [
      at(setup.gateways, 0),
      at(setup.gateways, 1),
      at(setup.gateways, 2),
    ];
    await using observer = await Client.open(publisher);
    await using first = await Client.open(killed);
    const values = ["1", "2", "3", "4", "5", "6", "7", "8"];
    for (const value of values) {
      await setup.publish(value, publisher);
      if (value === "4") killed.signal("SIGKILL"); // the change has been delivered, is being delivered, or will not be
      await observer.until(has(value));
    }
    await first.until(({ isOpen }) => !isOpen);
    await using second = await Client.open(other, first.lastEventId);
    await second.until(has("8"));
    assertEquals([...valuesOf(first), ...valuesOf(second)], values);
    assertEquals([...idsOf(first), ...idsOf(second)], idsOf(observer));
  },
);

testEngine(
  "20 s of outage end no stream, lose no change, and cause no burst of requests",
  async (engine, { step }) => {
    const steps = Object.entries(OUTAGES).map(([name, outage]) =>
      step({ name, fn: () => surviveOutage(engine, outage), ...CONCURRENT })
    );
    assertEquals(await Promise.all(steps), steps.map(() => true));
  },
);

testEngine(
  "a gateway that starts while the server is down serves nothing, and then what is stored",
  async (engine) => {
    await using setup = await setUp(engine, 1);
    const { kv, env } = setup.access;
    const { code } = await runCommand(["set", "A=stored", "--kv", kv], env);
    assertEquals(code, 0);
    await setup.server.kill();
    const late = await setup.start();
    assertEquals(await statusOf(late), "starting");
    assertEquals((await requestKey(late)).status, 503);
    assertMatch(
      await (await within(fetch(`${late.url}/rep/changes`))).text(),
      /: the store is unavailable; reconnect later/,
    );

    await setup.server.start();
    await logged([late], "rep.listening");
    assertEquals(await statusOf(late), "healthy");
    assertEquals((await requestKey(late)).status, 200);
    await using client = await Client.open(late, 0);
    await client.until(has("stored"));
    assertEquals(valuesOf(client), ["0", "stored"]);
  },
);

testEngine(
  "a gateway that the server rejects does not start, and reports why",
  async (engine) => {
    await using server = await engine.start();
    const { kv, env } = server.access(server.port, "invalid");
    const { code, stderr } = await within(
      runCommand(["--port", "0", "--kv", kv], env),
    );
    assertEquals(code, 1);
    assertMatch(stderr, engine.rejection);
  },
);

testEngine(
  "set, unset, list and history work, and a gateway serves what they write",
  async (engine) => {
    await using setup = await setUp(engine, 1);
    await using client = await Client.open(at(setup.gateways, 0));
    await checkVariableCommands(setup.access);
    await client.until(has("3"), PROPAGATION_MS);
    const { kv, env } = setup.access;
    const { code, stderr } = await runCommand(["unset", "A", "--kv", kv], {
      ...env,
    });
    assertEquals([code, stderr], [0, "Taken by 1 gateway\n"]);
  },
);

/** An outage of 20 s ends no stream, loses no change, and causes no burst of requests. */
async function surviveOutage(
  engine: Engine,
  { begin, end }: Outage,
): Promise<void> {
  await using setup = await setUp(engine, 3);
  const { gateways, relay } = setup;
  const [first, second, third] = gateways as [
    RunningCommand,
    RunningCommand,
    RunningCommand,
  ];
  await using clients = await Clients.open(gateways);
  await setup.publish("before", first);
  await clients.until(has("before"));
  assertEquals(await requestKeys(first, 3), [200, 200, 200]);
  assertEquals(await requestKeys(second, 3), [200, 200, 200]);

  await begin(setup);
  const outageEnd = delay(OUTAGE_MS);
  await logged(gateways, "rep.store.down");
  await allAre("degraded", gateways); // on a busy machine, the line may be of a shorter outage before
  await setup.publish("meanwhile", third);
  await logged([third], "rep.config.not_published");
  assertEquals(await requestKeys(second, 6), [200, 200, 200, 200, 429, 429]);
  await Promise.all(clients.all.map(nextHeartbeat));
  await outageEnd;
  assertEquals(clients.all.map(valuesOf), Array(3).fill(["before"]));

  const { requests } = relay.passed;
  await end(setup);
  const burst = delay(BURST_MS).then(() => relay.passed.requests - requests);
  await within(allAre("healthy", gateways), RECOVERY_MS);
  await logged(gateways, "rep.store.up");
  await clients.until(has("meanwhile"), RECOVERY_MS);
  assertEquals(await requestKeys(second, 1), [429]);
  await setup.publish("after", second);
  await clients.until(has("after"), PROPAGATION_MS);

  const values = ["before", "meanwhile", "after"];
  assertEquals(clients.all.map(valuesOf), Array(3).fill(values));
  assertEquals(new Set(clients.all.map((it) => String(idsOf(it)))).size, 1);
  assertEquals(clients.all.map(({ isOpen }) => isOpen), [true, true, true]);
  assertLessOrEqual(await burst, 3 * MAX_REQUESTS);
  for (const gateway of gateways) {
    assertLessOrEqual(denoLines(gateway), engine.maxDenoLines);
  }
}

/** Returns the item at an index. */
export function at<T>(items: readonly T[], index: number): T {
  const item = items[index];
  if (item === undefined) throw new RangeError(`There is no item ${index}`);
  return item;
}
