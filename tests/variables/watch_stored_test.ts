import { assertEquals, assertRejects } from "@std/assert";
import { kvStore } from "../../src/store/kv.ts";
import { memoryStore } from "../../src/store/memory.ts";
import { type Store, StoreUnavailableError } from "../../src/store/store.ts";
import { newestWrite, setVariables } from "../../src/variables/stored.ts";
import { watchVariables, type WatchVariablesOptions } from "../../src/variables/watch_stored.ts";
import { FakeClock, settle } from "../../tools/fake_clock.ts";
import { countedStore } from "../_store.ts";

const START = 1_700_000_000_000;

interface Bench {
  clock: FakeClock;
  /** What it was told. */
  told: number[];
  set: (value: string) => Promise<unknown>;
  stop: () => Promise<void>;
  /** What the watching comes to. */
  ended: Promise<void>;
}

/** Watches until it is stopped. */
async function watching(
  store: Store,
  { onChange, ...options }: Partial<WatchVariablesOptions> & { onChange?: (id: number) => Promise<void> } = {},
): Promise<Bench> {
  const clock = new FakeClock(START);
  const told: number[] = [];
  const stop = new AbortController();
  const tell = onChange ?? ((id) => Promise.resolve(void told.push(id)));
  const ended = watchVariables(store, tell, { clock, signal: stop.signal, ...options });
  await settle();
  return {
    clock,
    told,
    ended,
    set: async (value) => {
      await setVariables(store, new Map([["A", value]]), { clock, random: () => 0 });
      await settle();
    },
    stop() {
      stop.abort();
      return ended;
    },
  };
}

/** A store of another process's: it gives no hints. */
function withoutHints(store: Store): Store {
  return { ...countedStore(store), watch: () => () => {} };
}

Deno.test("watchVariables() tells at once what the store gives a hint of, without any time going by", async () => {
  const { told, set, stop } = await watching(memoryStore());
  await set("1");
  await set("2");
  assertEquals(told, [START, START + 1]);
  await stop();
});

Deno.test("watchVariables() tells within a second what it gets no hint of", async () => {
  const { told, set, stop, clock } = await watching(withoutHints(memoryStore()));
  await set("1");
  await set("2");
  await clock.tick(999);
  assertEquals(told, []);
  await clock.tick(1);
  assertEquals(told, [START + 1]);
  await clock.tick(60_000);
  assertEquals(told, [START + 1]);
  await stop();
});

Deno.test("watchVariables() tells of what was there before, unless it is known", async () => {
  const store = memoryStore();
  const writer = await watching(store);
  await writer.set("1");
  await writer.stop();
  const stranger = await watching(store);
  const friend = await watching(store, { after: await newestWrite(store) });
  assertEquals([stranger.told, friend.told], [[START], []]);
  await stranger.stop();
  await friend.stop();
});

Deno.test("watchVariables() waits for the callback, and tells once of all that came meanwhile", async () => {
  const started: number[] = [];
  const waiting: (() => void)[] = [];
  const { set, stop } = await watching(memoryStore(), {
    onChange(id) {
      started.push(id);
      return new Promise((resolve) => waiting.push(resolve));
    },
  });
  await set("1");
  await set("2");
  await set("3");
  assertEquals(started, [START]);
  waiting.shift()?.();
  await settle();
  assertEquals(started, [START, START + 2]);
  const ending = stop();
  let hasEnded = false;
  void ending.then(() => hasEnded = true);
  await settle();
  assertEquals(hasEnded, false); // the callback is under way still
  waiting.shift()?.();
  await ending;
});

Deno.test("watchVariables() tells again after a callback that could not reach the store", async () => {
  const told: number[] = [];
  const { set, stop, clock } = await watching(memoryStore(), {
    onChange(id) {
      told.push(id);
      return told.length < 3 ? Promise.reject(new StoreUnavailableError("gone")) : Promise.resolve();
    },
  });
  await set("1");
  assertEquals(told, [START]);
  await clock.tick(1_000);
  await clock.tick(1_000);
  assertEquals(told, [START, START, START]);
  await clock.tick(60_000);
  assertEquals(told.length, 3);
  await stop();
});

Deno.test("watchVariables() goes on when the store does not answer, and tells what came meanwhile", async () => {
  const memory = memoryStore();
  let isDown = false;
  const { told, stop, clock } = await watching({
    ...withoutHints(memory),
    get: (key) => isDown ? Promise.reject(new StoreUnavailableError("gone")) : memory.get(key),
  });
  isDown = true;
  await setVariables(memory, new Map([["A", "1"]]), { clock, random: () => 0 });
  await clock.tick(20_000);
  assertEquals(told, []);
  isDown = false;
  await clock.tick(1_000);
  assertEquals(told, [START]);
  await stop();
});

Deno.test("watchVariables() ends with any other error of the callback, and leaves nothing behind", async () => {
  const { set, ended, clock } = await watching(memoryStore(), {
    onChange: () => Promise.reject(new TypeError("a bug")),
  });
  const rejected = assertRejects(() => ended, TypeError, "a bug");
  await set("1");
  await rejected;
  assertEquals(clock.waiting, 0);
});

Deno.test("watchVariables() does nothing when it is stopped already, and nothing after it was", async () => {
  const store = memoryStore();
  const { told, set, stop, clock } = await watching(store, { signal: AbortSignal.abort() });
  await stop();
  await set("1");
  const other = await watching(store, { after: START });
  await other.stop();
  await set("2");
  assertEquals([told, other.told], [[], []]);
  assertEquals([clock.waiting, other.clock.waiting], [0, 0]);
});

Deno.test("watchVariables() tells of a database that was emptied and begins anew", async () => {
  const store = memoryStore();
  const { told, set, stop } = await watching(store);
  await set("1");
  await store.commit([], [{ key: ["variables"] }]);
  await settle();
  assertEquals(told, [START, 0]);
  await stop();
});

Deno.test("watchVariables() ends while kv.watch goes on over a real database", async () => {
  const store = kvStore(await Deno.openKv(":memory:"));
  const { set, stop, told } = await watching(store);
  await set("1");
  for (let turn = 0; turn < 100 && told.length === 0; turn++) await settle(); // the hint comes when it comes
  assertEquals(told, [START]);
  await stop();
  store.close();
});
