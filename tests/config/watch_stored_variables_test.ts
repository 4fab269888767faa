import { assertEquals, assertRejects, fail as assertFail } from "@std/assert";
import { newestWrite, writeVariables } from "../../src/config/stored_variables.ts";
import { watchStoredVariables, type WatchStoredVariablesOptions } from "../../src/config/watch_stored_variables.ts";
import { kvStore } from "../../src/store/kv.ts";
import { memoryStore } from "../../src/store/memory.ts";
import { type Store, StoreUnavailableError } from "../../src/store/store.ts";
import { FakeClock, settle } from "../../tools/fake_clock.ts";
import { type CountedStore, countedStore } from "../_store.ts";

const START = 1_700_000_000_000;

interface Watch {
  clock: FakeClock;
  /** The ids of all calls. */
  calls: number[];
  set: (value: string) => Promise<unknown>;
  stop: () => Promise<void>;
  /** The promise of watchStoredVariables(). */
  ended: Promise<void>;
}

/** Starts a watch. */
async function startWatch(
  store: Store,
  { onChange, ...options }: Partial<WatchStoredVariablesOptions> & { onChange?: (id: number) => Promise<void> } = {},
): Promise<Watch> {
  const clock = new FakeClock(START);
  const calls: number[] = [];
  const stop = new AbortController();
  const callback = onChange ?? ((id) => Promise.resolve(void calls.push(id)));
  const defaults = { clock, signal: stop.signal, after: 0, poll: undefined, isBackground: false };
  const ended = watchStoredVariables(store, callback, { ...defaults, ...options });
  await settle();
  return {
    clock,
    calls,
    ended,
    set: async (value) => {
      await writeVariables(store, new Map([["A", value]]), { clock, random: () => 0, ifId: undefined });
      await settle();
    },
    stop() {
      stop.abort();
      return ended;
    },
  };
}

/** Wraps a store so that it does not notify, as for writes of another process. */
function withoutNotifications(store: Store): Store {
  return { ...countedStore(store), watch: () => () => {} };
}

Deno.test("watchStoredVariables() calls back at once when the store notifies", async () => {
  const { calls, set, stop } = await startWatch(memoryStore());
  await set("1");
  await set("2");
  assertEquals(calls, [START, START + 1]);
  await stop();
});

Deno.test("watchStoredVariables() calls back within a second when the store does not notify", async () => {
  const { calls, set, stop, clock } = await startWatch(withoutNotifications(memoryStore()));
  await set("1");
  await set("2");
  await clock.tick(999);
  assertEquals(calls, []);
  await clock.tick(1);
  assertEquals(calls, [START + 1]);
  await clock.tick(60_000);
  assertEquals(calls, [START + 1]);
  await stop();
});

Deno.test("watchStoredVariables() calls back for earlier writes unless they are known", async () => {
  const store = memoryStore();
  const writer = await startWatch(store);
  await writer.set("1");
  await writer.stop();
  const unaware = await startWatch(store);
  const aware = await startWatch(store, { after: await newestWrite(store) });
  assertEquals([unaware.calls, aware.calls], [[START], []]);
  await unaware.stop();
  await aware.stop();
});

Deno.test("watchStoredVariables() waits for the callback, and calls it once for all writes meanwhile", async () => {
  const started: number[] = [];
  const waiting: (() => void)[] = [];
  const { set, stop } = await startWatch(memoryStore(), {
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
  const stopped = stop();
  let hasEnded = false;
  void stopped.then(() => hasEnded = true);
  await settle();
  assertEquals(hasEnded, false); // the callback is still pending
  waiting.shift()?.();
  await stopped;
});

Deno.test("watchStoredVariables() repeats a call that failed because the store is unavailable", async () => {
  const calls: number[] = [];
  const { set, stop, clock } = await startWatch(memoryStore(), {
    onChange(id) {
      calls.push(id);
      return calls.length < 3 ? Promise.reject(new StoreUnavailableError("gone")) : Promise.resolve();
    },
  });
  await set("1");
  assertEquals(calls, [START]);
  await clock.tick(1_000);
  await clock.tick(1_000);
  assertEquals(calls, [START, START, START]);
  await clock.tick(60_000);
  assertEquals(calls.length, 3);
  await stop();
});

Deno.test("watchStoredVariables() reads only what a poll of the caller reports, and repeats what has failed", async () => {
  const memory = memoryStore();
  const store = withoutNotifications(memory) as CountedStore;
  let report = (_id: number) => {};
  const poll = (callback: typeof report) => {
    report = callback;
    return () => report = () => assertFail("the watch has ended");
  };
  const calls: number[] = [];
  let isFailing = true;
  const onChange = (id: number) => {
    calls.push(id);
    return isFailing ? Promise.reject(new StoreUnavailableError("gone")) : Promise.resolve();
  };
  const { clock, stop } = await startWatch(store, { poll, onChange });
  store.reset();
  await clock.tick(60_000);
  report(0);
  await settle();
  assertEquals([store.counts.get, clock.waiting], [0, 0]);
  await writeVariables(memory, new Map([["A", "1"]]), { clock, random: () => 0, ifId: undefined });
  for (let polls = 0; polls < 2; polls++) {
    report(await newestWrite(memory));
    await settle();
  }
  isFailing = false;
  for (let polls = 0; polls < 2; polls++) {
    report(await newestWrite(memory));
    await settle();
  }
  const id = await newestWrite(memory);
  assertEquals([calls, store.counts.get], [[id, id, id], 3]);
  await stop();
});

Deno.test("watchStoredVariables() continues while the store is unavailable, and calls back for the writes meanwhile", async () => {
  const memory = memoryStore();
  let isDown = false;
  const { calls, stop, clock } = await startWatch({
    ...withoutNotifications(memory),
    get: (key) => isDown ? Promise.reject(new StoreUnavailableError("gone")) : memory.get(key),
  });
  isDown = true;
  await writeVariables(memory, new Map([["A", "1"]]), { clock, random: () => 0, ifId: undefined });
  await clock.tick(20_000);
  assertEquals(calls, []);
  isDown = false;
  await clock.tick(1_000);
  assertEquals(calls, [START]);
  await stop();
});

Deno.test("watchStoredVariables() rejects with any other error of the callback, and leaves no timer behind", async () => {
  const { set, ended, clock } = await startWatch(memoryStore(), {
    onChange: () => Promise.reject(new TypeError("a bug")),
  });
  const rejected = assertRejects(() => ended, TypeError, "a bug");
  await set("1");
  await rejected;
  assertEquals(clock.waiting, 0);
});

Deno.test("watchStoredVariables() does not call back once its signal is aborted", async () => {
  const store = memoryStore();
  const { calls, set, stop, clock } = await startWatch(store, { signal: AbortSignal.abort() });
  await stop();
  await set("1");
  const other = await startWatch(store, { after: START });
  await other.stop();
  await set("2");
  assertEquals([calls, other.calls], [[], []]);
  assertEquals([clock.waiting, other.clock.waiting], [0, 0]);
});

Deno.test("watchStoredVariables() calls back for a database that was emptied", async () => {
  const store = memoryStore();
  const { calls, set, stop } = await startWatch(store);
  await set("1");
  await store.commit([], [{ key: ["variables"] }]);
  await settle();
  assertEquals(calls, [START, 0]);
  await stop();
});

Deno.test("watchStoredVariables() works with kv.watch on a real database", async () => {
  const store = kvStore(await Deno.openKv(":memory:"));
  const { set, stop, calls } = await startWatch(store);
  await set("1");
  for (let turn = 0; turn < 100 && calls.length === 0; turn++) await settle(); // the notification takes an unknown time
  assertEquals(calls, [START]);
  await stop();
  store.close();
});

Deno.test("watchStoredVariables() ends its watch of the store when it is aborted, and when the callback fails", async () => {
  let watches = 0;
  const memory = memoryStore();
  const store: Store = {
    ...countedStore(memory),
    watch(key, hint) {
      const stop = memory.watch(key, hint);
      watches++;
      return () => {
        watches--;
        stop();
      };
    },
  };
  const aborted = await startWatch(store);
  const failed = await startWatch(store, { onChange: () => Promise.reject(new TypeError("a bug")) });
  assertEquals(watches, 2);
  await aborted.stop();
  assertEquals(watches, 1);
  const rejected = assertRejects(() => failed.ended, TypeError, "a bug");
  await failed.set("1");
  await rejected;
  assertEquals(watches, 0);
});
