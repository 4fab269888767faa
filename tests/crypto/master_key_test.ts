import { assert, assertEquals, assertNotEquals, assertRejects, assertThrows } from "@std/assert";
import { encodeBase64 } from "@std/encoding/base64";
import { MASTER_KEY_BYTES, parseMasterKey, sharedMasterKey } from "../../src/crypto/master_key.ts";
import { memoryStore } from "../../src/store/memory.ts";
import { type Store, StoreUnavailableError } from "../../src/store/store.ts";
import { FakeClock } from "../../tools/fake_clock.ts";

const BYTES = Uint8Array.from({ length: 32 }, (_, index) => index + 224);
const OPTIONS = { clock: new FakeClock(), random: () => 0 };

Deno.test("parseMasterKey() reads base64 of 32 bytes", () => {
  assertEquals(parseMasterKey(encodeBase64(BYTES)), BYTES);
});

Deno.test("parseMasterKey() reads it with the line end that a file has", () => {
  assertEquals(parseMasterKey(` ${encodeBase64(BYTES)}\r\n`), BYTES);
});

Deno.test("parseMasterKey() refuses every other number of bytes, and says how many there are", () => {
  for (const length of [0, 16, 31, 33, 64]) {
    const error = assertThrows(() => parseMasterKey(encodeBase64(new Uint8Array(length))), RangeError);
    assertEquals(error.message, `Cannot use the master key: expected base64 of 32 bytes, got ${length} bytes`);
  }
});

Deno.test("parseMasterKey() refuses what is no base64, without repeating it", () => {
  for (const text of ["secret!", "a", "ä".repeat(43), `${encodeBase64(BYTES)}\0`, "ff".repeat(32) + "?"]) {
    const error = assertThrows(() => parseMasterKey(text), RangeError);
    assertEquals(error.message, "Cannot use the master key: expected base64 of 32 bytes, got something else");
    assertEquals(error.cause, undefined);
  }
});

Deno.test("sharedMasterKey() makes 32 bytes and keeps them in the store", async () => {
  const store = memoryStore();
  const made = await sharedMasterKey(store, OPTIONS);
  assertEquals(made.length, MASTER_KEY_BYTES);
  assertEquals(await sharedMasterKey(store, OPTIONS), made);
  assertEquals((await store.get(["master-key"]))?.value, made);
});

Deno.test("sharedMasterKey() makes another one for another store", async () => {
  const made = await sharedMasterKey(memoryStore(), OPTIONS);
  assertNotEquals(await sharedMasterKey(memoryStore(), OPTIONS), made);
  assert(new Set(made).size > 8, "32 random bytes are not nearly all the same");
});

Deno.test("sharedMasterKey() gives all who ask at once the same secret", async () => {
  const store = memoryStore();
  const clock = new FakeClock();
  const asked = Array.from({ length: 20 }, () => sharedMasterKey(store, { clock, random: () => 0 }));
  await clock.tick(0); // one of them made it; the others met with that
  await clock.tick(0);
  const kept = (await store.get(["master-key"]))?.value;
  assertEquals<unknown[]>(await Promise.all(asked), Array(20).fill(kept));
});

Deno.test("sharedMasterKey() takes the secret of whoever was faster", async () => {
  const store = memoryStore();
  const others = new Uint8Array(32).fill(9);
  const slow: Store = {
    ...storeOf(store),
    commit: async (checks, writes) => {
      await store.commit([], [{ key: ["master-key"], value: others }]); // between our reading and our writing
      return await store.commit(checks, writes);
    },
  };
  const clock = new FakeClock();
  const secret = sharedMasterKey(slow, { clock, random: () => 0 });
  await clock.tick(0);
  await clock.tick(1);
  assertEquals(await secret, others);
});

Deno.test("sharedMasterKey() makes none of its own when the store does not answer", async () => {
  const broken: Store = {
    ...storeOf(memoryStore()),
    get: () => Promise.reject(new StoreUnavailableError("Cannot use the store: it has just failed")),
  };
  await assertRejects(() => sharedMasterKey(broken, OPTIONS), StoreUnavailableError);
});

function storeOf(store: Store): Store {
  return {
    get: (key) => store.get(key),
    list: (prefix, options) => store.list(prefix, options),
    commit: (checks, writes) => store.commit(checks, writes),
    watch: (key, hint) => store.watch(key, hint),
    close: () => store.close(),
  };
}
