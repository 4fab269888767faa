import { assertEquals, assertRejects } from "@std/assert";
import {
  setStoredVariables,
  type SetStoredVariablesOptions,
} from "../../../src/config/stored/set_stored_variables.ts";
import { ConfigurationError } from "../../../src/config/variables/snapshot.ts";
import {
  ConflictError,
  listVariables,
} from "../../../src/config/stored/stored_variables.ts";
import { memoryStore } from "../../../src/store/memory.ts";

const MANIFEST =
  'version: "0.1.0"\nvariables:\n  PLAN: { tier: public, type: enum, values: [free, pro] }\n';
const TOKEN = `ghp_${"a1B2".repeat(9)}`;

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

Deno.test("setStoredVariables() rejects what a gateway would, and writes none of it", async () => {
  const store = memoryStore();
  const issuesOf = async (
    values: Record<string, string>,
    options: SetStoredVariablesOptions = {},
  ) =>
    (await assertRejects(
      () => setStoredVariables(store, { GOOD: "1", ...values }, options),
      ConfigurationError,
    ))
      .issues;
  const [secret = ""] = await issuesOf({ KEY: TOKEN });
  assertEquals([
    secret.includes("use force to set it anyway"),
    secret.includes(TOKEN),
  ], [true, false]);
  assertEquals(
    (await issuesOf({ PLAN: "gold" }, { manifest: MANIFEST })).length,
    1,
  );
  assertEquals((await issuesOf({ REP_SENSITIVE_A: "1" })).length, 1);
  assertEquals(
    (await issuesOf({ A: "1" }, { environment: { REP_SERVER_A: "1" } })).length,
    1,
  );
  assertEquals(await listVariables(store), []);
  assertEquals(
    (await setStoredVariables(store, { KEY: TOKEN }, { force: true }))
      .length,
    1,
  );
});

Deno.test("setStoredVariables() rejects a write to a variable that has changed", async () => {
  const store = memoryStore();
  const [first] = await setStoredVariables(store, { A: "1" });
  await setStoredVariables(store, { A: "2" });
  await assertRejects(
    () => setStoredVariables(store, { A: "3" }, { ifId: first?.id }),
    ConflictError,
  );
});
