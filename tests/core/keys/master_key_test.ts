import {
  assert,
  assertEquals,
  assertNotEquals,
  assertRejects,
  assertThrows,
} from "@std/assert";
import { encodeBase64 } from "@std/encoding/base64";
import {
  EXPECTED_MASTER_KEY,
  MASTER_KEY_BYTES,
  parseMasterKey,
  sharedMasterKey,
} from "../../../src/core/keys/master_key.ts";
import { memoryStore } from "../../../src/engines/memory.ts";
import { StoreUnavailableError } from "../../../src/core/store/store.ts";
import { FakeClock } from "../../../tools/fake_clock.ts";
import { fallibleStore, interceptedStore } from "../../_store.ts";

const BYTES = Uint8Array.from({ length: 32 }, (_, index) => index + 224);
const OPTIONS = { clock: new FakeClock(), random: () => 0 };

Deno.test("parseMasterKey() decodes base64 of 32 bytes, with whitespace around it", () => {
  assertEquals(parseMasterKey(encodeBase64(BYTES)), BYTES);
  assertEquals(parseMasterKey(` ${encodeBase64(BYTES)}\r\n`), BYTES);
});

Deno.test("parseMasterKey() throws for another number of bytes, which it names", () => {
  for (const length of [0, 16, 31, 33, 64]) {
    const error = assertThrows(
      () => parseMasterKey(encodeBase64(new Uint8Array(length))),
      RangeError,
    );
    assertEquals(
      error.message,
      `Cannot use the master key: expected ${EXPECTED_MASTER_KEY}, got ${length} bytes`,
    );
  }
});

Deno.test("parseMasterKey() throws for invalid base64 without repeating it", () => {
  for (
    const text of [
      "secret!",
      "a",
      "ä".repeat(43),
      `${encodeBase64(BYTES)}\0`,
      "ff".repeat(32) + "?",
    ]
  ) {
    const error = assertThrows(() => parseMasterKey(text), RangeError);
    assertEquals(
      error.message,
      `Cannot use the master key: expected ${EXPECTED_MASTER_KEY}, got invalid base64`,
    );
    assertEquals(error.cause, undefined);
  }
});

Deno.test("sharedMasterKey() creates 32 bytes and stores them", async () => {
  const store = memoryStore();
  const created = await sharedMasterKey(store, OPTIONS);
  assertEquals(created.length, MASTER_KEY_BYTES);
  assertEquals(await sharedMasterKey(store, OPTIONS), created);
  assertEquals((await store.get(["master-key"]))?.value, created);
});

Deno.test("sharedMasterKey() creates another secret for another store", async () => {
  const created = await sharedMasterKey(memoryStore(), OPTIONS);
  assertNotEquals(await sharedMasterKey(memoryStore(), OPTIONS), created);
  assert(new Set(created).size > 8, "Expected random bytes");
});

Deno.test("sharedMasterKey() returns the same secret to concurrent callers", async () => {
  const store = memoryStore();
  const clock = new FakeClock();
  const secrets = Array.from(
    { length: 20 },
    () => sharedMasterKey(store, { clock, random: () => 0 }),
  );
  await clock.tick(0); // one of them creates it, the others conflict and retry
  await clock.tick(0);
  const kept = (await store.get(["master-key"]))?.value;
  assertEquals<unknown[]>(await Promise.all(secrets), Array(20).fill(kept));
});

Deno.test("sharedMasterKey() returns the secret of another process that was faster", async () => {
  const store = memoryStore();
  const others = new Uint8Array(32).fill(9);
  const slow = interceptedStore(store, async (operation) => {
    if (operation !== "commit") return;
    await store.commit([], [{ key: ["master-key"], value: others }]); // between read and commit
  });
  const clock = new FakeClock();
  const secret = sharedMasterKey(slow, { clock, random: () => 0 });
  await clock.tick(0);
  await clock.tick(1);
  assertEquals(await secret, others);
});

Deno.test("sharedMasterKey() writes the known secret back to a store that has lost it, and over no other", async () => {
  const store = memoryStore();
  const known = new Uint8Array(32).fill(7);
  const options = { ...OPTIONS, known };
  assertEquals(await sharedMasterKey(store, options), known);
  assertEquals((await store.get(["master-key"]))?.value, known);
  const other = memoryStore();
  const created = await sharedMasterKey(other, OPTIONS);
  assertEquals(await sharedMasterKey(other, options), created);
  assertEquals((await other.get(["master-key"]))?.value, created);
});

Deno.test("sharedMasterKey() rejects if the store is unavailable", async () => {
  const error = new StoreUnavailableError("Cannot use the store: a test");
  const broken = fallibleStore(memoryStore(), () => true, { error });
  await assertRejects(
    () => sharedMasterKey(broken, OPTIONS),
    StoreUnavailableError,
  );
});
