import { assertEquals } from "@std/assert";
import { createEventLog } from "../../src/events/event_log.ts";
import { Tail } from "../../src/events/tail.ts";
import { memoryStore } from "../../src/store/memory.ts";
import type { Store } from "../../src/store/store.ts";
import { FakeClock } from "../../tools/fake_clock.ts";

/** A store that answers when it is told to. */
function heldStore(store: Store): Store & { answer: () => void } {
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

Deno.test("readNew() keeps every event once when it is called again before a slow store has answered", async () => {
  const clock = new FakeClock(1_000);
  const store = memoryStore();
  const log = createEventLog(store, { clock });
  await log.append([{ name: "A", value: "1" }, { name: "B", value: "2" }], await log.state());
  const held = heldStore(store);
  const tail = new Tail(createEventLog(held, { clock }), () => {});
  const following = [tail.readNew(), tail.readNew(), tail.readNew()];
  held.answer();
  await Promise.all(following);
  await tail.readNew();
  assertEquals(tail.cached(0, 1_000).map(({ id }) => id), [1_000, 1_001]);
  await tail.close();
});
