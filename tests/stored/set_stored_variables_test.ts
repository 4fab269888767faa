import { assertEquals, assertRejects } from "@std/assert";
import { setStoredVariables } from "../../src/stored/set_stored_variables.ts";
import {
  listVariables,
  readHistory,
} from "../../src/core/config/stored/stored_variables.ts";
import { OptionError } from "../../src/core/values/option_error.ts";
import { ConfigurationError } from "../../src/core/config/variables/snapshot.ts";
import { memoryStore } from "../../src/engines/memory.ts";

Deno.test("setStoredVariables() sets and removes variables, by names with and without their prefix", async () => {
  const store = memoryStore();
  const values = async () =>
    (await listVariables(store)).map(({ name, value }) => [name, value]);
  const writes = await setStoredVariables(store, { REP_PUBLIC_A: "1", B: "2" });
  assertEquals(writes.map(({ name, value }) => [name, value]), [["A", "1"], [
    "B",
    "2",
  ]]);
  assertEquals(await values(), [["A", "1"], ["B", "2"]]);
  assertEquals(
    (await setStoredVariables(store, { A: undefined, B: "3", C: undefined }))
      .length,
    2,
  );
  assertEquals(await values(), [["B", "3"]]);
});

Deno.test("setStoredVariables() rejects a value that looks like a secret, unless it is forced", async () => {
  const store = memoryStore();
  const values = { KEY: `ghp_${"a1B2".repeat(9)}` };
  await assertRejects(
    () => setStoredVariables(store, values),
    ConfigurationError,
    "use force to set it anyway",
  );
  assertEquals(await listVariables(store), []);
  await setStoredVariables(store, values, { force: true });
  assertEquals((await listVariables(store)).length, 1);
});

Deno.test("setStoredVariables() removes a variable whose default in the manifest looks like a secret", async () => {
  const store = memoryStore();
  const token = `ghp_${"a1B2".repeat(9)}`;
  const manifest =
    `version: "0.1.0"\nvariables:\n  KEY: { tier: public, default: ${token} }\n`;
  await setStoredVariables(store, { KEY: "1" });
  await setStoredVariables(store, { KEY: undefined }, { manifest });
  assertEquals(await listVariables(store), []);
});

Deno.test("setStoredVariables() records who writes and why, within bounds", async () => {
  const store = memoryStore();
  const [by, why] = ["\u{1f600}".repeat(128), "y".repeat(512)];
  await setStoredVariables(store, { A: "1" }, { by, why });
  const [write] = await readHistory(store, 1);
  assertEquals([write?.command, write?.by, write?.why], ["module", by, why]);
  for (
    const [options, message] of [
      [{ by: `${by}x` }, "Cannot use by: expected 1 to 128 characters"],
      [{ by: "" }, "got 0 characters"],
      [{ by: "a\0" }, "without NUL"],
      [{ by: "\ud800" }, "Cannot use by"],
      [{ why: `${why}y` }, "Cannot use why: expected 1 to 512 characters"],
    ] as const
  ) {
    await assertRejects(
      () => setStoredVariables(store, { A: "2" }, options),
      OptionError,
      message,
    );
  }
  assertEquals((await readHistory(store, 9)).length, 1);
});
