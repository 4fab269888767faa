import { assertEquals, assertNotEquals, assertRejects } from "@std/assert";
import { readHead } from "../../../../src/core/config/stored/stored_variables.ts";
import { writeVariables } from "../../../../src/stored/write_variables.ts";
import { StoredVariablesSource } from "../../../../src/core/config/stored/stored_variables_source.ts";
import { memoryStore } from "../../../../src/engines/memory.ts";
import {
  type Store,
  StoreUnavailableError,
} from "../../../../src/core/store/store.ts";
import { silentLog } from "../../../../src/core/observe/log.ts";
import { FakeClock, settle } from "../../../../tools/fake_clock.ts";
import { delegate } from "../../../_store.ts";

const START = 1_700_000_000_000;
const DOWN = new StoreUnavailableError("gone");

/** A source, and a store whose lists reject with `error` while that is set. */
class World {
  readonly clock = new FakeClock(START);
  readonly stop = new AbortController();
  readonly store = memoryStore();
  readonly source: StoredVariablesSource;
  /** What each reload has read. */
  readonly reloads: Record<string, string>[] = [];
  error: Error | undefined;
  /** Awaited by every reload before it reads. */
  reloading: Promise<unknown> = Promise.resolve();

  constructor(random: () => number = () => 0) {
    const { clock, stop: { signal } } = this;
    const list: Store["list"] = (...args) =>
      this.error ? Promise.reject(this.error) : this.store.list(...args);
    this.source = new StoredVariablesSource({
      store: { ...delegate(this.store), list },
      clock,
      random,
      log: silentLog,
      signal,
    });
  }

  readonly reload = async (): Promise<void> => {
    await this.reloading;
    this.reloads.push({ ...(await this.source.read())?.environment });
  };

  /** Writes a variable, and returns the id of the write. */
  readonly set = async (value: string): Promise<number> => {
    const options = { clock: this.clock, random: () => 0, ifId: undefined };
    const [write] = await writeVariables(
      this.store,
      new Map([["A", value]]),
      options,
    );
    return write?.id ?? 0;
  };

  /** Follows a write, with whatever timers that takes. */
  async follow(newest: number): Promise<void> {
    const following = this.source.follow(newest, this.reload);
    following.catch(() => {}); // awaited below
    await this.clock.tick(0);
    await following;
  }
}

Deno.test("StoredVariablesSource.read() reads the variables from the store each time", async () => {
  const { source, store, set } = new World();
  const empty = {
    environment: {},
    version: null,
    newestWrite: 0,
    lineage: undefined,
  };
  assertEquals(await source.read(), { ...empty, variables: [] });
  const newestWrite = await set("1");
  const head = await readHead(store);
  assertEquals(await source.read(), {
    variables: [{ name: "A", value: "1", id: newestWrite, at: START }],
    environment: { REP_PUBLIC_A: "1" },
    version: head?.version ?? null,
    newestWrite,
    lineage: head?.value.lineage,
  });
});

Deno.test("StoredVariablesSource.read() returns the variables that were read last while the store is unavailable", async () => {
  const world = new World();
  await world.set("1");
  const before = await world.source.read();
  assertEquals(before?.environment, { REP_PUBLIC_A: "1" });
  await world.set("2");
  world.error = DOWN;
  assertEquals(await world.source.read(), before);
  world.error = undefined;
  assertNotEquals((await world.source.read())?.version, before?.version);
});

Deno.test("StoredVariablesSource.read() returns `undefined` until the store has been available once", async () => {
  const world = new World();
  await world.set("1");
  world.error = DOWN;
  assertEquals(await world.source.read(), undefined);
  world.error = undefined;
  const { environment } = await world.source.read() ?? {};
  assertEquals(environment, { REP_PUBLIC_A: "1" });
});

Deno.test("StoredVariablesSource.read() rejects on other errors than that the store is unavailable", async () => {
  const world = new World();
  world.error = new TypeError("a bug");
  await assertRejects(() => world.source.read(), TypeError, "a bug");
});

Deno.test("StoredVariablesSource.follow() reloads once for a write, and not for one that is known", async () => {
  const world = new World();
  await world.source.read();
  await world.follow(0);
  const id = await world.set("1");
  for (let calls = 0; calls < 2; calls++) await world.follow(id);
  assertEquals(world.reloads, [{ REP_PUBLIC_A: "1" }]);
});

Deno.test("StoredVariablesSource.follow() reloads if the variables have never been read, even if there are none", async () => {
  const world = new World();
  world.error = DOWN;
  await world.source.read();
  await world.follow(0);
  world.error = undefined;
  for (let calls = 0; calls < 2; calls++) await world.follow(0);
  assertEquals(world.reloads, [{}, {}]); // the first one could not read them
});

Deno.test("StoredVariablesSource.follow() reloads again after one that could not read the variables", async () => {
  const world = new World();
  await world.source.read();
  const id = await world.set("1");
  world.error = DOWN;
  for (let calls = 0; calls < 2; calls++) await world.follow(id);
  world.error = undefined;
  for (let calls = 0; calls < 2; calls++) await world.follow(id);
  assertEquals(world.reloads, [{}, {}, { REP_PUBLIC_A: "1" }]);
});

Deno.test("StoredVariablesSource.follow() reloads for a database that was emptied, which gets the variables back", async () => {
  const world = new World();
  await world.source.read();
  const id = await world.set("1");
  await world.follow(id);
  await world.store.commit([], [{ key: ["variables"] }, {
    key: ["variable", "A"],
  }]);
  await world.follow(0);
  assertEquals(world.reloads, Array(2).fill({ REP_PUBLIC_A: "1" }));
  assertEquals((await world.source.read())?.newestWrite, id + 1); // so that the other replicas follow it
});

Deno.test("StoredVariablesSource.follow() waits for a random time before it reloads, once for all writes meanwhile", async () => {
  const world = new World(() => 0.5);
  await world.source.read();
  const first = world.source.follow(await world.set("1"), world.reload);
  await world.clock.tick(249);
  await world.source.follow(await world.set("2"), world.reload); // does not wait
  assertEquals(world.reloads, []);
  await world.clock.tick(1);
  await first;
  await world.clock.tick(60_000);
  assertEquals(world.reloads, [{ REP_PUBLIC_A: "2" }]);
});

Deno.test("StoredVariablesSource.follow() reloads no more for writes that a reload has read, and once for all later ones", async () => {
  const world = new World();
  await world.source.read();
  const gate = Promise.withResolvers<void>();
  world.reloading = gate.promise;
  const following = world.source.follow(await world.set("1"), world.reload);
  await world.clock.tick(0);
  const during = await world.set("2");
  await world.source.follow(during, world.reload); // does not wait
  gate.resolve();
  await following;
  await world.follow(during);
  assertEquals(world.reloads, [{ REP_PUBLIC_A: "2" }]);
  await world.set("3");
  await world.follow(await world.set("4"));
  assertEquals(world.reloads, [{ REP_PUBLIC_A: "2" }, { REP_PUBLIC_A: "4" }]);
});

Deno.test("StoredVariablesSource.follow() does not reload once its signal is aborted, and leaves no timer behind", async () => {
  const world = new World(() => 0.5);
  await world.source.read();
  const following = world.source.follow(await world.set("1"), world.reload);
  await settle();
  world.stop.abort();
  await following;
  await world.source.follow(await world.set("2"), world.reload);
  assertEquals([world.reloads, world.clock.waiting], [[], 0]);
});
