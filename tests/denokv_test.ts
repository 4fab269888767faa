/** Several gateways on one `denokv` server, over KV Connect: real processes, real connections, real time. */
import { assertEquals, assertLessOrEqual, assertMatch } from "@std/assert";
import { delay } from "@std/async/delay";
import { findDenokv } from "../tools/denokv.ts";
import { commandArgs, type LogLine, type RunningCommand, startCommand } from "./_command.ts";
import { type Denokv, type Relay, startDenokv, startRelay, within } from "./_denokv.ts";
import { type Message, readSse } from "./_sse.ts";
import { TempDirectory } from "./_temp.ts";

/** How long the server is away; a stream has a heartbeat every 12 to 15 s. */
const OUTAGE_MS = 20_000;
/** When all has to be well again. */
const RECOVERY_MS = 10_000;
/**
 * How long after an outage a herd is looked for, and what one gateway may ask for in this time: at rest it asks for the log and
 * the stored variables once a second, and for the rollout's members; a publishing and the saved counts come on top.
 */
const HERD_MS = 3_000;
const MAX_REQUESTS = 50;
/**
 * How many lines Deno may write in an outage: four a second for an operation that was under way, of which there are up to four
 * (log, stored variables, members, a commit).
 */
const MAX_NOISE = 350;

const program = await findDenokv();

/** A test that needs the server; where it is missing, the list of tests says so. */
function testDenokv(name: string, fn: (program: string) => Promise<void>): void {
  if (program !== undefined) Deno.test(`on a denokv server: ${name}`, () => fn(program));
  else Deno.test({ name: `without denokv (deno task test:denokv installs it): ${name}`, ignore: true, fn() {} });
}

/** Gateways on one server, behind a relay, and the one file that all read their variables from. */
interface Stage extends AsyncDisposable {
  readonly server: Denokv;
  readonly relay: Relay;
  readonly gateways: RunningCommand[];
  /** Starts one more. */
  start(): Promise<RunningCommand>;
  /** Writes the file; nobody is told. */
  write(value: string): Promise<void>;
  /** Writes the file, and tells one gateway. */
  publish(value: string, gateway: RunningCommand): Promise<void>;
}

async function stage(program: string, count: number): Promise<Stage> {
  await using stack = new AsyncDisposableStack();
  const token = crypto.randomUUID();
  const directory = stack.use(await TempDirectory.make());
  const server = stack.use(await startDenokv({ program, path: directory.at("kv.sqlite3"), token }));
  const relay = stack.use(startRelay(server.port));
  const write = async (value: string) => {
    await directory.write("app.env", `REP_PUBLIC_A=${value}\nREP_SENSITIVE_S=s\n`);
  };
  await write("0");
  const flags = ["--hot-reload", "--env-file", directory.at("app.env"), "--kv", `http://127.0.0.1:${relay.port}`];
  const env = { DENO_KV_ACCESS_TOKEN: token, NO_COLOR: "1" };
  const starting = Array.from({ length: count }, () => within(startCommand(flags, env)));
  const gateways = [];
  for (const gateway of starting) gateways.push(stack.use(await gateway));
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

/** A client that reads its stream all the time. */
interface Client extends AsyncDisposable {
  readonly messages: Message[];
  /** Whether the stream has not come to an end. */
  readonly isOpen: boolean;
  /** All text that has arrived. */
  text(): string;
  /** Waits until something that is looked for has arrived, for so long at the most. */
  until(arrived: (client: Client) => boolean, ms?: number): Promise<void>;
}

async function listen({ url }: RunningCommand, cursor?: number): Promise<Client> {
  const headers = cursor === undefined ? {} : { "last-event-id": String(cursor) };
  const sse = readSse(await fetch(`${url}/rep/changes`, { headers }));
  await sse.pull(); // the opening bytes: from here on nothing is missed
  const messages: Message[] = [];
  const waiting = new Set<() => void>();
  let isOpen = true;

  async function read(): Promise<void> {
    try {
      for (;;) {
        if (!await sse.pull()) break;
        messages.push(...sse.arrived());
        for (const look of [...waiting]) look();
      }
    } catch {
      // Its gateway was killed, which is one way for a stream to end.
    }
    isOpen = false;
    for (const look of [...waiting]) look();
  }

  messages.push(...sse.arrived());
  const reading = read();
  const client: Client = {
    messages,
    get isOpen() {
      return isOpen;
    },
    text: sse.text,
    until(arrived, ms) {
      const { promise, resolve } = Promise.withResolvers<void>();
      const look = () => void (arrived(client) && resolve());
      waiting.add(look);
      look();
      return within(promise, ms).finally(() => waiting.delete(look));
    },
    async [Symbol.asyncDispose]() {
      await sse.close().catch(() => {}); // an error of the stream is one of its ends
      await reading;
    },
  };
  return client;
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

async function askKey({ url }: RunningCommand, query = ""): Promise<{ status: number; key: string | undefined }> {
  const response = await within(fetch(`${url}/rep/session-key${query}`));
  const { key } = await response.json();
  return { status: response.status, key };
}

/** Asks so many times, one after the other. */
async function askKeys(gateway: RunningCommand, count: number): Promise<number[]> {
  const statuses = [];
  for (let index = 0; index < count; index++) statuses.push((await askKey(gateway)).status);
  return statuses;
}

function logged(gateways: readonly RunningCommand[], event: string, ms?: number): Promise<LogLine[]> {
  return within(Promise.all(gateways.map((gateway) => gateway.logged(({ msg }) => msg === event))), ms);
}

/** Lines that Deno writes itself, since it tries an operation again and again. */
function noiseOf({ output }: RunningCommand): number {
  return output.filter((line) => line.startsWith("KV Connect")).length;
}

testDenokv(
  "a change published by one gateway reaches the clients of all within 2 s, once, with one id",
  async (program) => {
    await using set = await stage(program, 3);
    await using clients = new AsyncDisposableStack();
    const all = [];
    for (const gateway of set.gateways) all.push(clients.use(await listen(gateway)));
    const values = ["1", "2", "3", "4", "5", "6"];
    for (const [index, value] of values.entries()) {
      await set.publish(value, at(set.gateways, index % 3));
      await Promise.all(all.map((client) => client.until(has(value), 2_000)));
    }
    assertEquals(all.map(valuesOf), [values, values, values]);
    const [ids = []] = all.map(idsOf);
    assertEquals(all.map(idsOf), [ids, ids, ids]);
    assertEquals(ids, [...new Set(ids)].sort((a, b) => a - b));
  },
);

testDenokv("30 requests of one client at three gateways at once are issued 10 keys", async (program) => {
  await using set = await stage(program, 3);
  const asked = Array.from({ length: 30 }, (_, index) => askKey(at(set.gateways, index % 3)));
  const statuses = (await Promise.all(asked)).map(({ status }) => status);
  assertEquals(statuses.sort(), [...Array<number>(10).fill(200), ...Array<number>(20).fill(429)]);
});

testDenokv("all gateways issue the same key for a page", async (program) => {
  await using set = await stage(program, 3);
  const { key } = await askKey(at(set.gateways, 0));
  const { key_id: kid } = await at(set.gateways, 0).logged(({ msg }) => msg === "rep.session_key.issued");
  const asked = await Promise.all(set.gateways.map((gateway) => askKey(gateway, `?kid=${kid}`)));
  assertEquals(asked, Array(3).fill({ status: 200, key }));
});

testDenokv("the client of a gateway that is killed goes on at another, and misses nothing", async (program) => {
  await using set = await stage(program, 3);
  const [killed, publisher, other] = [at(set.gateways, 0), at(set.gateways, 1), at(set.gateways, 2)];
  await using witness = await listen(publisher);
  await using first = await listen(killed);
  const values = ["1", "2", "3", "4", "5", "6", "7", "8"];
  for (const value of values) {
    await set.publish(value, publisher);
    if (value === "4") killed.signal("SIGKILL"); // the change is on its way, or has come, or will not
    await witness.until(has(value));
  }
  await first.until(({ isOpen }) => !isOpen);
  await using second = await listen(other, first.messages.at(-1)?.id);
  await second.until(has("8"));
  assertEquals([...valuesOf(first), ...valuesOf(second)], values);
  assertEquals([...idsOf(first), ...idsOf(second)], idsOf(witness));
});

/** Ways for the server to be away, and to come back. */
const OUTAGES: Record<string, { begin: (set: Stage) => unknown; end: (set: Stage) => unknown }> = {
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

for (const [what, { begin, end }] of Object.entries(OUTAGES)) {
  testDenokv(`${what}: 20 s end no stream, lose no change and no count, and bring no herd`, async (program) => {
    await using set = await stage(program, 3);
    await using clients = new AsyncDisposableStack();
    const all: Client[] = [];
    for (const gateway of set.gateways) all.push(clients.use(await listen(gateway)));
    const [first, second, third] = [at(set.gateways, 0), at(set.gateways, 1), at(set.gateways, 2)];
    await set.publish("before", first);
    await Promise.all(all.map((client) => client.until(has("before"))));
    assertEquals(await askKeys(first, 3), [200, 200, 200]);
    assertEquals(await askKeys(second, 3), [200, 200, 200]);

    await begin(set);
    const outage = delay(OUTAGE_MS);
    await logged(set.gateways, "rep.store.down");
    assertEquals(await Promise.all(set.gateways.map(statusOf)), ["degraded", "degraded", "degraded"]);
    await set.publish("meanwhile", third);
    await logged([third], "rep.config.not_published");
    assertEquals(await askKeys(second, 6), [200, 200, 200, 200, 429, 429]);
    const heartbeats = all.map(heartbeatsOf);
    await Promise.all(all.map((client, index) => client.until(() => heartbeatsOf(client) > at(heartbeats, index))));
    await outage;
    assertEquals(all.map(valuesOf), Array(3).fill(["before"]));

    const requests = set.relay.passed.requests;
    await end(set);
    const herd = delay(HERD_MS).then(() => set.relay.passed.requests - requests);
    await logged(set.gateways, "rep.store.up", RECOVERY_MS);
    await Promise.all(all.map((client) => client.until(has("meanwhile"), RECOVERY_MS)));
    assertEquals(await Promise.all(set.gateways.map(statusOf)), ["healthy", "healthy", "healthy"]);
    await logged([second], "rep.rate_limit.saved");
    assertEquals((await Promise.all(set.gateways.map((gateway) => askKeys(gateway, 1)))).flat(), [429, 429, 429]);
    await set.publish("after", second);
    await Promise.all(all.map((client) => client.until(has("after"), 2_000)));

    assertEquals(all.map(valuesOf), Array(3).fill(["before", "meanwhile", "after"]));
    assertEquals(all.map(idsOf), Array(3).fill(idsOf(at(all, 0))));
    assertEquals(all.map(({ isOpen }) => isOpen), [true, true, true]);
    assertLessOrEqual(await herd, 3 * MAX_REQUESTS);
    assertLessOrEqual(Math.max(...set.gateways.map(noiseOf)), MAX_NOISE);
  });
}

testDenokv("a gateway that starts while the server is down is degraded, and recovers by itself", async (program) => {
  await using set = await stage(program, 1);
  await set.server.kill();
  const late = await set.start();
  await logged([late], "rep.store.unreachable");
  assertEquals(await statusOf(late), "degraded");
  assertEquals((await askKey(late)).status, 503); // the master key is in the store
  assertMatch(
    await (await within(fetch(`${late.url}/rep/changes`))).text(),
    /: the store is unavailable; reconnect later/,
  );

  await set.server.start();
  await logged([late], "rep.store.up");
  assertEquals(await statusOf(late), "healthy");
  assertEquals((await askKey(late)).status, 200);
  await using client = await listen(late);
  await set.publish("1", at(set.gateways, 0));
  await client.until(has("1"));
});

testDenokv("a gateway that the server refuses does not start, and says why", async (program) => {
  await using directory = await TempDirectory.make();
  const token = crypto.randomUUID();
  await using server = await startDenokv({ program, path: directory.at("kv.sqlite3"), token });
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
