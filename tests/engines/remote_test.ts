import { assertEquals, assertRejects } from "@std/assert";
import { silentLog } from "../../src/core/observe/log.ts";
import { memoryStore } from "../../src/engines/memory.ts";
import { openRemoteStore } from "../../src/engines/remote.ts";
import {
  type Store,
  StoreIncompatibleError,
  StoreUnavailableError,
} from "../../src/core/store/store.ts";
import { FakeClock, settle } from "../../tools/fake_clock.ts";
import { interceptedStore, OPERATIONS } from "../_store.ts";

const DOWN = "Cannot use the store: down";
const TIMED_OUT = "Cannot use the store: no answer within 5000 ms";

/** A fake server: reachable, unreachable, denying access, not answering, or with another database. */
class Server {
  state: "up" | "down" | "denying" | "silent" | "incompatible" = "up";
  readonly clock = new FakeClock();
  readonly #data = memoryStore();
  readonly #held: (() => void)[] = [];
  /** The number of connection attempts. */
  attempts = 0;
  /** The number of open connections. */
  open = 0;
  /** The number of operations received. */
  operations = 0;

  connect = async (): Promise<Store> => {
    this.attempts++;
    await this.#answer();
    if (this.state === "down") throw new StoreUnavailableError(DOWN);
    if (this.state === "incompatible") throw new StoreIncompatibleError("new");
    if (this.state !== "up") throw new Error(this.state);
    this.open++;
    return {
      ...interceptedStore(this.#data, () => this.#receive()),
      close: () => void this.open--,
    };
  };

  async #receive(): Promise<void> {
    this.operations++;
    await this.#answer();
    if (this.state === "denying") throw new Error("401");
    if (this.state === "down") await new Promise(() => {}); // KV Connect retries forever
  }

  async #answer(): Promise<void> {
    if (this.state === "silent") {
      await new Promise<void>((resolve) => this.#held.push(resolve));
    }
  }

  /** Becomes reachable and answers everything it received while silent. */
  recover(): void {
    this.state = "up";
    for (const answer of this.#held.splice(0)) answer();
  }
}

function openOn(server: Server, random = 1): Promise<Store> {
  const { connect, clock } = server;
  return openRemoteStore(
    { connect, maxChecks: 7, engine: "a test" },
    silentLog,
    { clock, random: () => random },
  );
}

/** Lets an operation time out. */
async function timeOut(server: Server, store: Store) {
  const operation = assertRejects(
    () => store.get(["a"]),
    StoreUnavailableError,
    TIMED_OUT,
  );
  await server.clock.tick(5_000);
  await operation;
}

Deno.test("openRemoteStore() forwards operations to the server over one connection", async () => {
  const server = new Server();
  const store = await openOn(server);
  const version = await store.commit([], [{ key: ["f", "a"], value: 1 }]);
  const entry = { key: ["f", "a"], value: 1, version: String(version) };
  assertEquals([await store.get(["f", "a"]), await store.list(["f"])], [entry, [
    entry,
  ]]);
  assertEquals([await store.getMany([["f", "a"], ["b"]]), store.maxChecks], [[
    entry,
    undefined,
  ], 7]);
  assertEquals([server.attempts, server.open, server.clock.waiting], [1, 1, 0]);
  store.close();
  assertEquals([server.open, server.clock.waiting], [0, 0]);
});

Deno.test("openRemoteStore() throws an error that is not transient", async () => {
  const server = new Server();
  server.state = "denying";
  await assertRejects(() => openOn(server), Error, "denying");
  assertEquals([server.attempts, server.clock.waiting], [1, 0]);
});

Deno.test("openRemoteStore() opens a store on an unreachable server; operations fail immediately until the server is up", async () => {
  const server = new Server();
  server.state = "down";
  const store = await openOn(server);
  for (const run of Object.values(OPERATIONS)) {
    await assertRejects(() => run(store), StoreUnavailableError, DOWN);
  }
  server.state = "up";
  await server.clock.tick(250);
  assertEquals(await store.get(["a"]), undefined);
  store.close();
});

Deno.test("openRemoteStore() throws a StoreIncompatibleError, and so do operations if it is met later", async () => {
  const server = new Server();
  server.state = "incompatible";
  await assertRejects(() => openOn(server), StoreIncompatibleError, "new");

  server.state = "down";
  const store = await openOn(server);
  server.state = "incompatible";
  await server.clock.tick(250);
  await assertRejects(() => store.get(["a"]), StoreIncompatibleError, "new");
  store.close();
});

Deno.test("openRemoteStore() waits at most 5 s for a server that does not answer", async () => {
  const server = new Server();
  server.state = "silent";
  const opening = openOn(server);
  await server.clock.tick(5_000);
  const store = await opening;
  await assertRejects(() => store.get(["a"]), StoreUnavailableError, TIMED_OUT);
  server.recover();
  await settle();
  assertEquals([server.attempts, server.open], [1, 0]); // the late connection was closed
  await server.clock.tick(250);
  assertEquals([server.attempts, server.open], [2, 1]);
  store.close();
});

Deno.test("a connection that times out is dropped, and nothing is sent until there is a new one", async () => {
  const server = new Server();
  const store = await openOn(server);
  server.state = "down";
  await timeOut(server, store);
  assertEquals([server.open, server.operations], [0, 1]);
  await server.clock.tick(60_000);
  await assertRejects(
    () => store.get(["a"]),
    StoreUnavailableError,
    DOWN,
  );
  assertEquals([server.open, server.operations], [0, 1]);
  server.state = "up";
  await server.clock.tick(2_000);
  assertEquals([await store.get(["a"]), server.open, server.operations], [
    undefined,
    1,
    2,
  ]);
  store.close();
});

Deno.test("reconnecting backs off from 250 ms to 2 s, half of it random", async () => {
  for (
    const [random, backoffs] of [[1, [250, 500, 1_000, 2_000, 2_000]], [0, [
      125,
      250,
      500,
      1_000,
      1_000,
    ]]] as const
  ) {
    const server = new Server();
    server.state = "down";
    const store = await openOn(server, random);
    const attempts = [];
    for (const backoff of backoffs) {
      await server.clock.tick(backoff - 1);
      attempts.push(server.attempts);
      await server.clock.tick(1);
      attempts.push(server.attempts);
    }
    assertEquals(attempts, [1, 2, 2, 3, 3, 4, 4, 5, 5, 6]);
    store.close();
  }
});

Deno.test("several operations that fail together cause one reconnect", async () => {
  const server = new Server();
  const store = await openOn(server);
  server.state = "down";
  const operations = [1, 2, 3].map(() =>
    assertRejects(() => store.get(["a"]), StoreUnavailableError, TIMED_OUT)
  );
  await server.clock.tick(5_000);
  await Promise.all(operations);
  server.state = "up";
  await server.clock.tick(10_000);
  assertEquals([server.attempts, server.open], [2, 1]);
  store.close();
});

Deno.test("an operation that fails causes a reconnect, an invalid argument does not", async () => {
  const server = new Server();
  const store = await openOn(server);
  const reject: Store["get"] = () =>
    Promise.reject(new TypeError("Key too large"));
  const connect = async () => ({ ...await server.connect(), get: reject });
  const strict = await openRemoteStore(
    { connect, maxChecks: 7, engine: "a test" },
    silentLog,
    { clock: server.clock, random: () => 1 },
  );
  await assertRejects(() => strict.get(["a"]), TypeError, "Key too large");
  assertEquals(server.open, 2);
  strict.close();

  server.state = "denying";
  await assertRejects(() => store.get(["a"]), Error, "401");
  assertEquals(server.open, 0);
  server.state = "up";
  await server.clock.tick(250);
  assertEquals(server.open, 1);
  store.close();
});

Deno.test("watch() continues over a new connection until it is stopped", async () => {
  const server = new Server();
  const store = await openOn(server);
  let hints = 0;
  const stop = store.watch(["a"], () => void hints++);
  const write = async () => {
    await store.commit([], [{ key: ["a"], value: 1 }]);
    await settle();
    return hints;
  };
  assertEquals(await write(), 1);
  server.state = "down";
  await timeOut(server, store);
  server.state = "up";
  await server.clock.tick(250);
  assertEquals(await write(), 2);
  stop();
  assertEquals(await write(), 2);
  store.close();
});

Deno.test("close() stops reconnecting and closes a connection that is being opened", async () => {
  const server = new Server();
  server.state = "down";
  const waiting = await openOn(server);
  waiting.close();
  await settle();
  assertEquals(server.clock.waiting, 0);

  const connecting = await openOn(server);
  server.state = "silent";
  await server.clock.tick(250);
  connecting.close();
  server.recover();
  await settle();
  assertEquals([server.open, server.clock.waiting], [0, 0]);
});
