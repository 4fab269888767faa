import { assertEquals, assertRejects } from "@std/assert";
import * as client from "../../../src/client/mod.ts";
import * as double from "../../../src/client/testing/mod.ts";

Deno.test("the double has the exports of the client, and setVariables()", () => {
  assertEquals(
    Object.keys(double).sort(),
    [...Object.keys(client), "setVariables"].sort(),
  );
  assertEquals(Object.keys(double.rep).sort(), Object.keys(client.rep).sort());
});

Deno.test("setVariables() calls the listeners of what changes, also of what is deleted", () => {
  double.setVariables({ A: "1", B: "1" });
  const seen: unknown[][] = [];
  const stop = double.onAnyChange((...change) => void seen.push(change));
  double.setVariables({ A: "1", C: "1" });
  stop();
  double.setVariables({});
  assertEquals(seen, [["B", undefined, "1"], ["C", "1", undefined]]);
});

Deno.test("the double has SENSITIVE variables, and rejects others as the client does", async () => {
  double.setVariables({}, { KEY: "secret" });
  assertEquals(await double.getSecure("KEY"), "secret");
  const message = 'Cannot find "OTHER" among the SENSITIVE variables';
  await assertRejects(
    () => double.getSecure("OTHER"),
    double.REPError,
    message,
  );
});
