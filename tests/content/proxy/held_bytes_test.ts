import { assertEquals } from "@std/assert";
import { HeldBytes } from "../../../src/content/proxy/held_bytes.ts";

const MIB = 1024 * 1024;

Deno.test("HeldBytes.hasRoomFor() returns true up to 64 MiB of all holders", () => {
  const all = new HeldBytes();
  const first = { heldBytes: 0 };
  assertEquals(all.hasRoomFor(first, 32 * MIB), true);
  first.heldBytes = 32 * MIB;
  const second = { heldBytes: 31 * MIB };
  assertEquals([all.hasRoomFor(second, MIB + 1), all.hasRoomFor(second, MIB)], [
    false,
    true,
  ]);
});

Deno.test("HeldBytes.hasRoomFor() counts what the holders hold now", () => {
  const all = new HeldBytes();
  const first = { heldBytes: 64 * MIB };
  all.hasRoomFor(first, 0);
  first.heldBytes = 32 * MIB;
  const second = { heldBytes: 0 };
  assertEquals([
    all.hasRoomFor(second, 32 * MIB + 1),
    all.hasRoomFor(second, 32 * MIB),
  ], [false, true]);
});

Deno.test("HeldBytes.hasRoomFor() returns true for a holder with up to 64 KiB", () => {
  const all = new HeldBytes();
  all.hasRoomFor({ heldBytes: 64 * MIB }, 0);
  const small = { heldBytes: 60_000 };
  assertEquals([all.hasRoomFor(small, 5_536), all.hasRoomFor(small, 5_537)], [
    true,
    false,
  ]);
});

Deno.test("HeldBytes.remove() stops counting a holder, also one that was not counted", () => {
  const all = new HeldBytes();
  const holder = { heldBytes: 64 * MIB };
  all.remove(holder);
  all.hasRoomFor(holder, 0);
  assertEquals(all.hasRoomFor({ heldBytes: 0 }, MIB), false);
  all.remove(holder);
  assertEquals(all.hasRoomFor({ heldBytes: 0 }, MIB), true);
});
