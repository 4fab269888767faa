import { assertEquals } from "@std/assert";
import { setUp } from "./_gateway.ts";

const VARIABLES = {
  REP_PUBLIC_A: "1",
  REP_SENSITIVE_B: "2",
  REP_SERVER_C: "3",
};

Deno.test("get() returns PUBLIC values only, and getPrivate() those of the other tiers only", async () => {
  await using gate = await setUp(VARIABLES);
  const { get, getPrivate } = gate.gateway;
  assertEquals(["A", "B", "C", "D"].map(get), [
    "1",
    undefined,
    undefined,
    undefined,
  ]);
  assertEquals(["A", "B", "C", "D"].map(getPrivate), [
    undefined,
    "2",
    "3",
    undefined,
  ]);
});

Deno.test("onChange() calls back after a reload that changes the variable, in any tier, until it is ended", async () => {
  await using gate = await setUp(VARIABLES);
  const heard: unknown[] = [];
  const ends = ["A", "B", "C", "D"].map((name) =>
    gate.gateway.onChange(
      name,
      (...values) => heard.push([name, ...values, gate.gateway.get("A")]),
    )
  );
  await gate.set({
    REP_PUBLIC_A: "1",
    REP_SENSITIVE_B: "changed",
    REP_SERVER_C: "changed",
    REP_PUBLIC_D: "new",
  });
  assertEquals(heard.splice(0), [["B", "changed", "2", "1"], [
    "C",
    "changed",
    "3",
    "1",
  ], ["D", "new", undefined, "1"]]);
  const kept = { REP_SENSITIVE_KEPT: "1", REP_SERVER_KEPT_TOO: "1" };
  await gate.set({ REP_PUBLIC_A: "changed", ...kept });
  assertEquals(heard.splice(0).map((change) => (change as unknown[])[1]), [
    "changed",
    undefined,
    undefined,
    undefined,
  ]);
  ends.forEach((end) => end());
  await gate.set({ REP_PUBLIC_A: "again", ...kept });
  assertEquals(heard, []);
});

Deno.test("onChange() logs the error of a listener, and calls the others", async () => {
  await using gate = await setUp({ REP_PUBLIC_A: "1" });
  const heard: unknown[] = [];
  gate.gateway.onChange("A", () => {
    throw new Error("mine");
  });
  gate.gateway.onChange("A", (value) => heard.push(value));
  await gate.set({ REP_PUBLIC_A: "2" });
  assertEquals(heard, ["2"]);
  const failures = gate.lines.filter(({ msg }) => msg === "rep.task.failed");
  assertEquals(
    failures.map(({ task, detail }) => [task, String(detail).split("\n")[0]]),
    [[
      "onChange",
      "Error: mine",
    ]],
  );
});
