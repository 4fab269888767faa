import { assertEquals, assertThrows } from "@std/assert";
import { readFigures, withFigure } from "../tools/figures.ts";

Deno.test("every page states the figures of their sources", async () => {
  for (const { text, places } of await readFigures()) {
    for (const [path, place] of places) {
      const page = await Deno.readTextFile(path);
      assertEquals(
        page.match(place)?.[0],
        text,
        `${path}; run: deno run $(deno run -A tools/std.ts) -A tools/figures.ts`,
      );
    }
  }
});

Deno.test("withFigure() replaces a figure in its place only, and rejects a text without it", () => {
  assertEquals(
    withFigure("8 KiB; a stream takes 9 KiB", /(?<=takes )\d+ KiB/, "64 KiB"),
    "8 KiB; a stream takes 64 KiB",
  );
  assertThrows(() => withFigure("8 KiB", /(?<=takes )\d+ KiB/, "64 KiB"), TypeError);
});
