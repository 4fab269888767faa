import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import { writeVariables } from "../../src/config/stored_variables.ts";
import { StoredVariablesSource } from "../../src/config/stored_variables_source.ts";
import { memoryStore } from "../../src/store/memory.ts";
import { type Store, StoreUnavailableError } from "../../src/store/store.ts";
import { FakeClock } from "../../tools/fake_clock.ts";

/** A store whose lists reject with `error` while that is set. */
class FailingStore implements Store {
  readonly #store = memoryStore();
  readonly maxChecks = this.#store.maxChecks;
  error: Error | undefined;
  get: Store["get"] = (key) => this.#store.get(key);
  getMany: Store["getMany"] = (keys) => this.#store.getMany(keys);
  commit: Store["commit"] = (checks, writes) => this.#store.commit(checks, writes);
  watch: Store["watch"] = (key, hint) => this.#store.watch(key, hint);
  close: Store["close"] = () => this.#store.close();
  list: Store["list"] = (prefix, options) =>
    this.error ? Promise.reject(this.error) : this.#store.list(prefix, options);
}

function setUp() {
  const failing = new FailingStore();
  const options = { clock: new FakeClock(), random: () => 0, ifId: undefined };
  return { failing, set: (value: string) => writeVariables(failing, new Map([["A", value]]), options) };
}

const DOWN = new StoreUnavailableError("gone");

Deno.test("StoredVariablesSource.read() reads the variables from the store each time", async () => {
  const { failing, set } = setUp();
  const source = new StoredVariablesSource(failing);
  assertEquals([source.isKnown, await source.read(), source.isKnown], [false, {}, true]);
  await set("1");
  assertEquals(await source.read(), { REP_PUBLIC_A: "1" });
});

Deno.test("StoredVariablesSource.read() returns the variables that were read last while the store is unavailable", async () => {
  const { failing, set } = setUp();
  const source = new StoredVariablesSource(failing);
  await set("1");
  await source.read();
  await set("2");
  failing.error = DOWN;
  assertEquals(await source.read(), { REP_PUBLIC_A: "1" });
  failing.error = undefined;
  assertEquals(await source.read(), { REP_PUBLIC_A: "2" });
});

Deno.test("StoredVariablesSource.read() returns no variables until the store has been available once", async () => {
  const { failing, set } = setUp();
  const source = new StoredVariablesSource(failing);
  await set("1");
  failing.error = DOWN;
  assertEquals([await source.read(), source.isKnown], [{}, false]);
  failing.error = undefined;
  assertEquals([await source.read(), source.isKnown], [{ REP_PUBLIC_A: "1" }, true]);
});

Deno.test("StoredVariablesSource.throwIfStale() throws if the store was unavailable, StoredVariablesSource.read() rejects on other errors only", async () => {
  const { failing } = setUp();
  const source = new StoredVariablesSource(failing);
  failing.error = DOWN;
  await source.read();
  assertEquals(assertThrows(() => source.throwIfStale()), DOWN);
  failing.error = new TypeError("a bug");
  await assertRejects(() => source.read(), TypeError, "a bug");
  assertEquals(source.isKnown, false);
});
