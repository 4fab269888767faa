import { assertEquals } from "@std/assert";
import { sizeOf, takeAfter } from "../../src/changes/frame.ts";

const FRAMES = [10, 20, 30, 40].map((id) => ({
  id,
  bytes: new Uint8Array(id),
}));

function idsAfter(cursor: number, maxBytes: number): number[] {
  return takeAfter(FRAMES, cursor, maxBytes).map(({ id }) => id);
}

Deno.test("sizeOf() adds up the bytes of frames", () => {
  assertEquals([sizeOf([]), sizeOf(FRAMES)], [0, 100]);
});

Deno.test("takeAfter() returns the frames after a cursor", () => {
  assertEquals(
    [0, 9, 10, 39, 40, 41].map((cursor) => idsAfter(cursor, 1_000)),
    [
      [10, 20, 30, 40],
      [10, 20, 30, 40],
      [20, 30, 40],
      [40],
      [],
      [],
    ],
  );
});

Deno.test("takeAfter() returns frames of at most maxBytes in total, but at least one", () => {
  assertEquals([idsAfter(0, 59), idsAfter(0, 60), idsAfter(20, 1)], [[10, 20], [
    10,
    20,
    30,
  ], [30]]);
});
