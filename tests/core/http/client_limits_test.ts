import { assertEquals } from "@std/assert";
import { ClientLimits } from "../../../src/core/http/client_limits.ts";
import { silentLog } from "../../../src/core/observe/log.ts";
import { Budget } from "../../../src/core/values/budget.ts";
import { FakeClock } from "../../../tools/fake_clock.ts";

/** The limits of two gateways that share a budget. */
function setUp(shared: Budget) {
  return [1, 2].map(() =>
    new ClientLimits({
      clock: new FakeClock(),
      log: silentLog,
      event: "rep.streams.rejected",
      name: "max_streams",
      max: 2,
      maxPerClient: 2,
      shared,
    })
  ) as [ClientLimits<"max_streams">, ClientLimits<"max_streams">];
}

function client(clientKey: string) {
  return { clientKey, address: clientKey };
}

Deno.test("ClientLimits of several gateways share a budget, of which each can take as much as its own limit", () => {
  const shared = new Budget(3, 3);
  const [a, b] = setUp(shared);
  for (const key of ["1", "2"]) a.add(key);
  assertEquals(a.limitOf(client("3")), "max_streams");
  assertEquals(b.limitOf(client("3")), undefined);
  b.add("3");
  assertEquals(b.limitOf(client("4")), "max_streams");
  a.remove("1");
  assertEquals(b.limitOf(client("4")), undefined);
  a.remove("2");
  assertEquals([a.count, shared.count], [0, 1]);
});

Deno.test("ClientLimits count a client in all gateways together as well", () => {
  const [a, b] = setUp(new Budget(10, 1));
  a.add("1");
  assertEquals(b.limitOf(client("1")), "max_streams_per_client");
  assertEquals(b.limitOf(client("2")), undefined);
});
