/** Several gateways on one `denokv` server, over KV Connect: real processes, real connections, real time. */
import { assertEquals, assertLessOrEqual, assertMatch } from "@std/assert";
import { delay } from "@std/async/delay";
import { findDenokv } from "../tools/denokv.ts";
import { commandArgs, type LogLine, type RunningCommand, startCommand } from "./_command.ts";
import { Denokv, Relay, within } from "./_denokv.ts";
import { type Message, readSse, type SseReader } from "./_sse.ts";
import { TempDirectory } from "./_temp.ts";

/** How long the server is down; a stream has a heartbeat every 12 to 15 s. */
const OUTAGE_MS = 20_000;
/** The time within which the gateways must recover. */
const RECOVERY_MS = 10_000;
/**
 * How long requests are counted after an outage, and how many one gateway may send in that time: an idle one polls the log
 * and the stored variables once a second, and the members of the rollout; in addition it publishes, and saves its counts.
 */
const BURST_MS = 3_000;
const MAX_REQUESTS = 50;
/**
 * How many lines Deno may print in an outage: four a second for each operation in flight, of which there are up to four (log,
 * stored variables, members, a commit).
 */
const MAX_DENO_LINES = 350;

const program = await findDenokv();

/** Registers a test that needs the server; without one it is ignored, and its name says why. */
function testDenokv(name: string, fn: (program: string) => Promise<void>): void {
  if (program !== undefined) Deno.test(`on a denokv server: ${name}`, () => fn(program));
  else Deno.test({ name: `without denokv (deno task test:denokv installs it): ${name}`, ignore: true, fn() {} });
}

/** Gateways on one server, behind a relay, that read their variables from one file. */
interface Setup extends AsyncDisposable {
  readonly server: Denokv;
  readonly relay: Relay;
  readonly gateways: RunningCommand[];
  /** Starts one more gateway. */
  start(): Promise<RunningCommand>;
  /** Writes the file. */
  write(value: string): Promise<void>;
  /** Writes the file, and has one gateway reload it. */
  publish(value: string, gateway: RunningCommand): Promise<void>;
}

async function setUp(program: string, count: number): Promise<Setup> {
  await using stack = new AsyncDisposableStack();
  const token = crypto.randomUUID();
  const directory = stack.use(await TempDirectory.make());
  const server = stack.use(await Denokv.launch({ program, path: directory.at("kv.sqlite3"), token }));
  const relay = stack.use(new Relay(server.port));
  const write = async (value: string) => {
    await directory.write("app.env", `REP_PUBLIC_A=${value}\nREP_SENSITIVE_S=s\n`);
  };
  await write("0");
  const flags = ["--hot-reload", "--env-file", directory.at("app.env"), "--kv", `http://127.0.0.1:${relay.port}`];
  const env = { DENO_KV_ACCESS_TOKEN: token, NO_COLOR: "1" };
  const starts = Array.from({ length: count }, () => within(startCommand(flags, env)));
  const gateways = [];
  for (const gateway of starts) gateways.push(stack.use(await gateway));
  const all = stack.move();
  return {
    server,
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

/** A client that reads its stream continuously. */
class Client implements AsyncDisposable {
  readonly messages: Message[];
  readonly #sse: SseReader;
  readonly #checks = new Set<() => void>();
  readonly #reading: Promise<void>;
  #isOpen = true;

  private constructor(sse: SseReader) {
    this.#sse = sse;
    this.messages = sse.arrived();
    this.#reading = this.#read();
  }

  static async open({ url }: RunningCommand, cursor?: number): Promise<Client> {
    const headers = cursor === undefined ? {} : { "last-event-id": String(cursor) };
    const sse = readSse(await fetch(`${url}/rep/changes`, { headers }));
    await sse.pull(); // the opening bytes: from here on nothing is missed
    return new Client(sse);
  }

  /** Whether the stream has not ended. */
  get isOpen(): boolean {
    return this.#isOpen;
  }

  /** Returns all text that has arrived. */
  text(): string {
    return this.#sse.text();
  }

  /** Waits until a condition holds, for this long at most. */
  until(holds: (client: Client) => boolean, ms?: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const check = () => void (holds(this) && resolve());
    this.#checks.add(check);
    check();
    return within(promise, ms).finally(() => this.#checks.delete(check));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#sse.close().catch(() => {}); // the stream has failed already
    await this.#reading;
  }

  async #read(): Promise<void> {
    try {
      while (await this.#sse.pull()) {
        this.messages.push(...this.#sse.arrived());
        this.#runChecks();
      }
    } catch {
      // The gateway was killed, which also ends the stream.
    }
    this.#isOpen = false;
    this.#runChecks();
  }

  #runChecks(): void {
    for (const check of [...this.#checks]) check();
  }
}

function valuesOf({ messages }: Client): unknown[] {
  return messages.map(({ data }) => data.value);
}

function has(value: string): (client: Client) => boolean {
  return ({ messages }) => messages.some(({ data }) => data.value === value);
}

function idsOf({ messages }: Client): number[] {
  return messages.map(({ id }) => id);
}

async function statusOf({ url }: RunningCommand): Promise<string> {
  const response = await within(fetch(`${url}/rep/health`));
  return (await response.json()).status;
}

async function requestKey({ url }: RunningCommand, query = ""): Promise<{ status: number; key: string | undefined }> {
  const response = await within(fetch(`${url}/rep/session-key${query}`));
  const { key } = await response.json();
  return { status: response.status, key };
}

/** Requests this many keys, one after the other. */
async function requestKeys(gateway: RunningCommand, count: number): Promise<number[]> {
  const statuses = [];
  for (let index = 0; index < count; index++) statuses.push((await requestKey(gateway)).status);
  return statuses;
}

function logged(gateways: readonly RunningCommand[], event: string, ms?: number): Promise<LogLine[]> {
  return within(Promise.all(gateways.map((gateway) => gateway.logged(({ msg }) => msg === event))), ms);
}

/** Counts the lines that Deno itself prints while it retries operations. */
function denoLines({ output }: RunningCommand): number {
  return output.filter((line) => line.startsWith("KV Connect")).length;
}

testDenokv(
  "a change published by one gateway reaches the clients of all gateways within 2 s, once, with one id",
  async (program) => {
    await using setup = await setUp(program, 3);
    await using clients = new AsyncDisposableStack();
    const all = [];
    for (const gateway of setup.gateways) all.push(clients.use(await Client.open(gateway)));
    const values = ["1", "2", "3", "4", "5", "6"];
    for (const [index, value] of values.entries()) {
      await setup.publish(value, at(setup.gateways, index % 3));
      await Promise.all(all.map((client) => client.until(has(value), 2_000)));
    }
    assertEquals(all.map(valuesOf), [values, values, values]);
    const [ids = []] = all.map(idsOf);
    assertEquals(all.map(idsOf), [ids, ids, ids]);
    assertEquals(ids, [...new Set(ids)].sort((a, b) => a - b));
  },
);

testDenokv("30 concurrent requests of one client to three gateways are issued 10 keys", async (program) => {
  await using setup = await setUp(program, 3);
  const requests = Array.from({ length: 30 }, (_, index) => requestKey(at(setup.gateways, index % 3)));
  const statuses = (await Promise.all(requests)).map(({ status }) => status);
  assertEquals(statuses.sort(), [...Array<number>(10).fill(200), ...Array<number>(20).fill(429)]);
});

testDenokv("all gateways issue the same key for a page", async (program) => {
  await using setup = await setUp(program, 3);
  const { key } = await requestKey(at(setup.gateways, 0));
  const { key_id: kid } = await at(setup.gateways, 0).logged(({ msg }) => msg === "rep.session_key.issued");
  const issued = await Promise.all(setup.gateways.map((gateway) => requestKey(gateway, `?kid=${kid}`)));
  assertEquals(issued, Array(3).fill({ status: 200, key }));
});

testDenokv("the client of a gateway that is killed resumes at another, and misses no change", async (program) => {
  await using setup = await setUp(program, 3);
  const [killed, publisher, other] = [at(setup.gateways, 0), at(setup.gateways, 1), at(setup.gateways, 2)];
  await using observer = await Client.open(publisher);
  await using first = await Client.open(killed);
  const values = ["1", "2", "3", "4", "5", "6", "7", "8"];
  for (const value of values) {
    await setup.publish(value, publisher);
    if (value === "4") killed.signal("SIGKILL"); // the change has been delivered, is being delivered, or will not be
    await observer.until(has(value));
  }
  await first.until(({ isOpen }) => !isOpen);
  await using second = await Client.open(other, first.messages.at(-1)?.id);
  await second.until(has("8"));
  assertEquals([...valuesOf(first), ...valuesOf(second)], values);
  assertEquals([...idsOf(first), ...idsOf(second)], idsOf(observer));
});

/** Kinds of outages, and how each ends. */
const OUTAGES: Record<string, { begin: (setup: Setup) => unknown; end: (setup: Setup) => unknown }> = {
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

for (const [outage, { begin, end }] of Object.entries(OUTAGES)) {
  testDenokv(
    `${outage}: 20 s end no stream, lose no change and no count, and cause no burst of requests`,
    async (program) => {
      await using setup = await setUp(program, 3);
      await using clients = new AsyncDisposableStack();
      const all: Client[] = [];
      for (const gateway of setup.gateways) all.push(clients.use(await Client.open(gateway)));
      const [first, second, third] = [at(setup.gateways, 0), at(setup.gateways, 1), at(setup.gateways, 2)];
      await setup.publish("before", first);
      await Promise.all(all.map((client) => client.until(has("before"))));
      assertEquals(await requestKeys(first, 3), [200, 200, 200]);
      assertEquals(await requestKeys(second, 3), [200, 200, 200]);

      await begin(setup);
      const outageEnd = delay(OUTAGE_MS);
      await logged(setup.gateways, "rep.store.down");
      assertEquals(await Promise.all(setup.gateways.map(statusOf)), ["degraded", "degraded", "degraded"]);
      await setup.publish("meanwhile", third);
      await logged([third], "rep.config.not_published");
      assertEquals(await requestKeys(second, 6), [200, 200, 200, 200, 429, 429]);
      const heartbeats = all.map(heartbeatsOf);
      await Promise.all(all.map((client, index) => client.until(() => heartbeatsOf(client) > at(heartbeats, index))));
      await outageEnd;
      assertEquals(all.map(valuesOf), Array(3).fill(["before"]));

      const requests = setup.relay.passed.requests;
      await end(setup);
      const burst = delay(BURST_MS).then(() => setup.relay.passed.requests - requests);
      await logged(setup.gateways, "rep.store.up", RECOVERY_MS);
      await Promise.all(all.map((client) => client.until(has("meanwhile"), RECOVERY_MS)));
      assertEquals(await Promise.all(setup.gateways.map(statusOf)), ["healthy", "healthy", "healthy"]);
      await logged([second], "rep.rate_limit.saved");
      assertEquals((await Promise.all(setup.gateways.map((gateway) => requestKeys(gateway, 1)))).flat(), [
        429,
        429,
        429,
      ]);
      await setup.publish("after", second);
      await Promise.all(all.map((client) => client.until(has("after"), 2_000)));

      assertEquals(all.map(valuesOf), Array(3).fill(["before", "meanwhile", "after"]));
      assertEquals(all.map(idsOf), Array(3).fill(idsOf(at(all, 0))));
      assertEquals(all.map(({ isOpen }) => isOpen), [true, true, true]);
      assertLessOrEqual(await burst, 3 * MAX_REQUESTS);
      assertLessOrEqual(Math.max(...setup.gateways.map(denoLines)), MAX_DENO_LINES);
    },
  );
}

testDenokv("a gateway that starts while the server is down is degraded, and recovers", async (program) => {
  await using setup = await setUp(program, 1);
  await setup.server.kill();
  const late = await setup.start();
  await logged([late], "rep.store.unreachable");
  assertEquals(await statusOf(late), "degraded");
  assertEquals((await requestKey(late)).status, 503); // the master key is in the store
  assertMatch(
    await (await within(fetch(`${late.url}/rep/changes`))).text(),
    /: the store is unavailable; reconnect later/,
  );

  await setup.server.start();
  await logged([late], "rep.store.up");
  assertEquals(await statusOf(late), "healthy");
  assertEquals((await requestKey(late)).status, 200);
  await using client = await Client.open(late);
  await setup.publish("1", at(setup.gateways, 0));
  await client.until(has("1"));
});

testDenokv("a gateway that the server rejects does not start, and reports why", async (program) => {
  await using directory = await TempDirectory.make();
  const token = crypto.randomUUID();
  await using server = await Denokv.launch({ program, path: directory.at("kv.sqlite3"), token });
  const kv = `http://127.0.0.1:${server.port}`;
  const env = { DENO_KV_ACCESS_TOKEN: `not ${token}`, NO_COLOR: "1" };
  const command = new Deno.Command(Deno.execPath(), { args: commandArgs(["--port", "0", "--kv", kv]), env });
  const { code, stderr } = await within(command.output());
  assertEquals(code, 1);
  assertMatch(new TextDecoder().decode(stderr), new RegExp(`^Cannot open --kv "${kv}": .* status 401 `));
});

function heartbeatsOf(client: Client): number {
  return client.text().split(": heartbeat").length - 1;
}

function at<T>(items: readonly T[], index: number): T {
  const item = items[index];
  if (item === undefined) throw new RangeError(`There is no item ${index}`);
  return item;
}
