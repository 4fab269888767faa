import { assertEquals, assertLess } from "@std/assert";
import { rendezvous } from "../../src/keys/rendezvous.ts";

const ADDRESSES = Array.from({ length: 20_000 }, (_, index) => `10.0.${index >> 8}.${index & 255}`);
const NAMES = ["http://a.example", "http://b.example", "http://c.example", "http://d.example"];

/** The names of the nodes of all addresses. */
function assign(names: readonly string[]): (string | undefined)[] {
  const nodeOf = rendezvous(names);
  return ADDRESSES.map((address) => names[nodeOf(address)]);
}

Deno.test("rendezvous() distributes adjacent addresses evenly", () => {
  for (const names of [NAMES, NAMES.slice(2), ["/data/1", "/data/2", "/data/3"]]) {
    const share = ADDRESSES.length / names.length;
    const counts = Object.values(Object.groupBy(assign(names), (name) => name ?? "none")).map((all) =>
      all?.length ?? 0
    );
    assertEquals(counts.length, names.length);
    for (const count of counts) assertLess(Math.abs(count - share) / share, 0.05);
  }
});

Deno.test("rendezvous() does not depend on the order of the names", () => {
  assertEquals(assign(NAMES.toReversed()), assign(NAMES));
});

Deno.test("rendezvous() moves the keys of one node only when that is added or removed", () => {
  const [before, after] = [assign(NAMES), assign([...NAMES, "http://e.example"])];
  const moved = after.filter((name, index) => name !== before[index]);
  assertEquals(new Set(moved), new Set(["http://e.example"]));
  assertLess(Math.abs(moved.length / ADDRESSES.length - 0.2), 0.01);
});

Deno.test("rendezvous() assigns the same nodes in every version of the gateway", () => {
  const nodeOf = rendezvous(NAMES);
  assertEquals(ADDRESSES.slice(0, 8).map(nodeOf), [2, 2, 1, 0, 3, 1, 2, 3]);
});

Deno.test("rendezvous() assigns everything to a single node", () => {
  assertEquals(new Set(assign(["only"])), new Set(["only"]));
});
