import { assertEquals } from "@std/assert";
import { EventLog } from "../../src/events/event_log.ts";
import { Tail } from "../../src/events/tail.ts";
import { memoryStore } from "../../src/store/memory.ts";
import type { Store } from "../../src/store/store.ts";
import { FakeClock } from "../../tools/fake_clock.ts";

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
