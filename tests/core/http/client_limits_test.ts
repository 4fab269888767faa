import { assertEquals } from "@std/assert";
import { ClientLimits } from "../../../src/core/http/client_limits.ts";
import { silentLog } from "../../../src/core/observe/log.ts";
import { Budget } from "../../../src/core/values/budget.ts";
import { FakeClock } from "../../../tools/fake_clock.ts";

Deno.test("ClientLimits of several gateways share a budget, of which each can take as much as its own limit", () => {
  const budget = new Budget(3);
  const [a, b] = [1, 2].map(() =>
    new ClientLimits({
      clock: new FakeClock(),
      log: silentLog,
      event: "rep.streams.rejected",
      name: "max_streams",
      max: 2,
      maxPerClient: 2,
      budget,
    })
  );
  for (const client of ["1", "2"]) a?.add(client);
  assertEquals(a?.limitOf({ clientKey: "3", address: "3" }), "max_streams");
  assertEquals(b?.limitOf({ clientKey: "3", address: "3" }), undefined);
  b?.add("3");
  assertEquals(b?.limitOf({ clientKey: "4", address: "4" }), "max_streams");
  a?.remove("1");
  assertEquals(b?.limitOf({ clientKey: "4", address: "4" }), undefined);
  a?.remove("2");
  assertEquals(budget.used, 1);
});
