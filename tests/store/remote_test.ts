import { assertEquals, assertRejects } from "@std/assert";
import { memoryStore } from "../../src/store/memory.ts";
import { openRemoteStore } from "../../src/store/remote.ts";
import { type Store, StoreUnavailableError } from "../../src/store/store.ts";
import { FakeClock, settle } from "../../tools/fake_clock.ts";

/** A server that is there, refuses connections, refuses us, or says nothing. */
class Server {
  state: "up" | "down" | "refusing" | "silent" = "up";
  readonly clock = new FakeClock();
  readonly #data = memoryStore();
  readonly #held: (() => void)[] = [];
  /** How often somebody connected, or tried to, and how many connections are open. */
  tries = 0;
  open = 0;
  /** Operations that were sent. */
  asked = 0;

  connect = async (): Promise<Store> => {
    this.tries++;
    await this.#answer();
    if (this.state !== "up") throw new Error(this.state);
    this.open++;
    return {
      get: (key) => this.#ask(() => this.#data.get(key)),
      list: (prefix, options) => this.#ask(() => this.#data.list(prefix, options)),
      commit: (checks, writes) => this.#ask(() => this.#data.commit(checks, writes)),
      watch: (key, hint) => this.#data.watch(key, hint),
      close: () => void this.open--,
    };
  };

  async #ask<T>(operation: () => Promise<T>): Promise<T> {
    this.asked++;
    await this.#answer();
    if (this.state === "refusing") throw new Error("401");
    if (this.state === "down") return new Promise(() => {}); // KV Connect tries it again for ever
    return await operation();
  }

  async #answer(): Promise<void> {
    if (this.state === "silent") await new Promise<void>((resolve) => this.#held.push(resolve));
  }

  /** Is up again, and answers all that it was asked when it was silent. */
  speak(): void {
    this.state = "up";
    for (const answer of this.#held.splice(0)) answer();
  }
}

function openOn(server: Server, random = 1): Promise<Store> {
  const mayPass = (error: unknown) => error instanceof StoreUnavailableError || (error as Error).message === "down";
  return openRemoteStore({ open: server.connect, mayPass, clock: server.clock, random: () => random });
}

const LATE = "Cannot use the store: no answer within 5000 ms";

/** Has an operation sent that gets no answer. */
async function lose(server: Server, store: Store): Promise<void> {
  const operation = assertRejects(() => store.get(["a"]), StoreUnavailableError, LATE);
  await server.clock.tick(5_000);
  await operation;
}

Deno.test("openRemoteStore() passes on what the server does, over one connection", async () => {
  const server = new Server();
  const store = await openOn(server);
  const version = await store.commit([], [{ key: ["f", "a"], value: 1 }]);
  const entry = { key: ["f", "a"], value: 1, version: String(version) };
  assertEquals([await store.get(["f", "a"]), await store.list(["f"])], [entry, [entry]]);
  assertEquals([server.tries, server.open, server.clock.waiting], [1, 1, 0]);
  store.close();
  assertEquals([server.open, server.clock.waiting], [0, 0]);
});

Deno.test("openRemoteStore() throws what will not pass", async () => {
  const server = new Server();
  server.state = "refusing";
  await assertRejects(() => openOn(server), Error, "refusing");
  assertEquals([server.tries, server.clock.waiting], [1, 0]);
});

Deno.test("openRemoteStore() opens a store on a server that is down; it fails at once, and works when the server is up", async () => {
  const server = new Server();
  server.state = "down";
  const store = await openOn(server);
  for (const ask of [() => store.get(["a"]), () => store.list([]), () => store.commit([], [])]) {
    await assertRejects(ask, StoreUnavailableError, "Cannot use the store: down");
  }
  server.state = "up";
  await server.clock.tick(250);
  assertEquals(await store.get(["a"]), undefined);
  store.close();
});

Deno.test("openRemoteStore() does not wait for longer than 5 s for a server that says nothing", async () => {
  const server = new Server();
  server.state = "silent";
  const opening = openOn(server);
  await server.clock.tick(5_000);
  const store = await opening;
  await assertRejects(() => store.get(["a"]), StoreUnavailableError, LATE);
  server.speak();
  await settle();
  assertEquals([server.tries, server.open], [1, 0]); // the connection came too late, and was closed
  await server.clock.tick(250);
  assertEquals([server.tries, server.open], [2, 1]);
  store.close();
});

Deno.test("a connection that gives no answer is given up: nothing more is sent until there is another", async () => {
  const server = new Server();
  const store = await openOn(server);
  server.state = "down";
  await lose(server, store);
  assertEquals([server.open, server.asked], [0, 1]);
  await server.clock.tick(60_000);
  await assertRejects(() => store.get(["a"]), StoreUnavailableError, "Cannot use the store: down");
  assertEquals([server.open, server.asked], [0, 1]);
  server.state = "up";
  await server.clock.tick(2_000);
  assertEquals([await store.get(["a"]), server.open, server.asked], [undefined, 1, 2]);
  store.close();
});

Deno.test("connecting is tried again after a pause that grows from 250 ms to 2 s, half of it by chance", async () => {
  for (const [random, pauses] of [[1, [250, 500, 1_000, 2_000, 2_000]], [0, [125, 250, 500, 1_000, 1_000]]] as const) {
    const server = new Server();
    server.state = "down";
    const store = await openOn(server, random);
    const tries = [];
    for (const pause of pauses) {
      await server.clock.tick(pause - 1);
      tries.push(server.tries);
      await server.clock.tick(1);
      tries.push(server.tries);
    }
    assertEquals(tries, [1, 2, 2, 3, 3, 4, 4, 5, 5, 6]);
    store.close();
  }
});

Deno.test("several operations that fail together make one new connection", async () => {
  const server = new Server();
  const store = await openOn(server);
  server.state = "down";
  const operations = [1, 2, 3].map(() => assertRejects(() => store.get(["a"]), StoreUnavailableError, LATE));
  await server.clock.tick(5_000);
  await Promise.all(operations);
  server.state = "up";
  await server.clock.tick(10_000);
  assertEquals([server.tries, server.open], [2, 1]);
  store.close();
});

Deno.test("an operation that fails makes a new connection, one that its caller got wrong does not", async () => {
  const server = new Server();
  const store = await openOn(server);
  const wrong: Store["get"] = () => Promise.reject(new TypeError("Key too large"));
  const picky = await openRemoteStore({
    open: async () => ({ ...await server.connect(), get: wrong }),
    mayPass: () => false,
    clock: server.clock,
    random: () => 1,
  });
  await assertRejects(() => picky.get(["a"]), TypeError, "Key too large");
  assertEquals(server.open, 2);
  picky.close();

  server.state = "refusing";
  await assertRejects(() => store.get(["a"]), Error, "401");
  assertEquals(server.open, 0);
  server.state = "up";
  await server.clock.tick(250);
  assertEquals(server.open, 1);
  store.close();
});

Deno.test("watch() goes on over a new connection, until it is ended", async () => {
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
  await lose(server, store);
  server.state = "up";
  await server.clock.tick(250);
  assertEquals(await write(), 2);
  stop();
  assertEquals(await write(), 2);
  store.close();
});

Deno.test("close() ends the search for a connection, also one that is on its way", async () => {
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
  server.speak();
  await settle();
  assertEquals([server.open, server.clock.waiting], [0, 0]);
});
