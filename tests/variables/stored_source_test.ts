import { assertEquals, assertRejects } from "@std/assert";
import { memoryStore } from "../../src/store/memory.ts";
import { type Store, StoreUnavailableError } from "../../src/store/store.ts";
import { setVariables } from "../../src/variables/stored.ts";
import { StoredSource } from "../../src/variables/stored_source.ts";
import { FakeClock } from "../../tools/fake_clock.ts";

/** A store of which lists fail with an error as long as there is one. */
class FailingStore implements Store {
  readonly #store = memoryStore();
  error: Error | undefined;
  get: Store["get"] = (key) => this.#store.get(key);
  commit: Store["commit"] = (checks, writes) => this.#store.commit(checks, writes);
  watch: Store["watch"] = (key, hint) => this.#store.watch(key, hint);
  close: Store["close"] = () => this.#store.close();
  list: Store["list"] = (prefix, options) =>
    this.error ? Promise.reject(this.error) : this.#store.list(prefix, options);
}

function failingStore() {
  const failing = new FailingStore();
  const options = { clock: new FakeClock(), random: () => 0 };
  return { failing, set: (value: string) => setVariables(failing, new Map([["A", value]]), options) };
}

const DOWN = new StoreUnavailableError("gone");

Deno.test("StoredSource.read() is what the store holds, each time anew", async () => {
  const { failing, set } = failingStore();
  const source = new StoredSource(failing);
  assertEquals([source.isKnown, await source.read(), source.isKnown], [false, {}, true]);
  await set("1");
  assertEquals(await source.read(), { REP_PUBLIC_A: "1" });
});

Deno.test("StoredSource.read() is what it was while the store does not answer", async () => {
  const { failing, set } = failingStore();
  const source = new StoredSource(failing);
  await set("1");
  await source.read();
  await set("2");
  failing.error = DOWN;
  assertEquals(await source.read(), { REP_PUBLIC_A: "1" });
  failing.error = undefined;
  assertEquals(await source.read(), { REP_PUBLIC_A: "2" });
});

Deno.test("StoredSource.read() is nothing, and not known, until the store has answered once", async () => {
  const { failing, set } = failingStore();
  const source = new StoredSource(failing);
  await set("1");
  failing.error = DOWN;
  assertEquals([await source.read(), source.isKnown], [{}, false]);
  failing.error = undefined;
  assertEquals([await source.read(), source.isKnown], [{ REP_PUBLIC_A: "1" }, true]);
});

Deno.test("StoredSource.refresh() fails with the store, and StoredSource.read() with any other error", async () => {
  const { failing } = failingStore();
  const source = new StoredSource(failing);
  failing.error = DOWN;
  assertEquals(await assertRejects(() => source.refresh()), DOWN);
  failing.error = new TypeError("a bug");
  await assertRejects(() => source.read(), TypeError, "a bug");
  assertEquals(source.isKnown, false);
});
