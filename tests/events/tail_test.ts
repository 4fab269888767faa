import { assertEquals } from "@std/assert";
import { EventLog } from "../../src/events/event_log.ts";
import { Tail } from "../../src/events/tail.ts";
import { memoryStore } from "../../src/store/memory.ts";
import type { Store } from "../../src/store/store.ts";
import { FakeClock, settle } from "../../tools/fake_clock.ts";
import { countedStore } from "../_store.ts";

/** A store that answers reads only after `answer()`. */
function pausedStore(store: Store): Store & { answer: () => void } {
  const { promise, resolve } = Promise.withResolvers<void>();
  return {
    get: (key) => promise.then(() => store.get(key)),
    list: (prefix, options) => promise.then(() => store.list(prefix, options)),
    commit: (checks, writes) => store.commit(checks, writes),
    watch: (key, hint) => store.watch(key, hint),
    close: () => store.close(),
    answer: resolve,
  };
}

Deno.test("Tail.readNew() caches each event once if it is called again before a slow store has answered", async () => {
  const clock = new FakeClock(1_000);
  const store = memoryStore();
  const log = new EventLog(store, { clock });
  await log.append([{ name: "A", value: "1" }, { name: "B", value: "2" }], await log.state());
  const paused = pausedStore(store);
  const tail = new Tail(new EventLog(paused, { clock }), () => {});
  const reads = [tail.readNew(), tail.readNew(), tail.readNew()];
  paused.answer();
  await Promise.all(reads);
  await tail.readNew();
  assertEquals(tail.cached(0, 1_000).map(({ id }) => id), [1_000, 1_001]);
  await tail.close();
});

Deno.test("Tail.newestOfEach() returns nothing beyond the head while the log is read for the first time", async () => {
  const clock = new FakeClock(1_000);
  const store = countedStore(memoryStore());
  const log = new EventLog(store, { clock });
  const append = async (name: string, value: string) => void await log.append([{ name, value }], await log.state());
  await append("A", "1");
  await append("B", "1");
  const { promise: held, resolve: release } = Promise.withResolvers<void>();
  const reads = [() => append("A", "2"), () => Promise.resolve(), () => held]; // newest events, state, refresh
  const list: Store["list"] = async (prefix, options) => {
    const entries = await store.list(prefix, options);
    await reads.shift()?.();
    return entries as never;
  };
  const tail = new Tail(new EventLog({ ...store, list }, { clock }), () => {});
  const read = tail.readNew();
  await settle();
  const idsOf = () => tail.newestOfEach(0, 1_000).map(({ id }) => id);
  assertEquals([tail.isLoaded, tail.head, idsOf()], [true, 1_001, [1_001]]);
  release();
  await read;
  assertEquals([tail.head, idsOf()], [1_002, [1_001, 1_002]]);
  await tail.close();
});
