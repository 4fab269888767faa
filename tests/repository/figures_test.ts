import { assertEquals, assertThrows } from "@std/assert";
import { readFigures, withFigure } from "../../tools/figures.ts";

Deno.test("every page states the figures of their sources", async () => {
  const refresh =
    "run: deno run $(deno run -A tools/std.ts) -A tools/figures.ts";
  for (const { text, places } of await readFigures()) {
    for (const [path, place] of places) {
      const [stated] = place.exec(await Deno.readTextFile(path)) ?? [];
      assertEquals(stated?.replace(/\s+/, " "), text, `${path}; ${refresh}`); // a line may be broken there
    }
  }
});

Deno.test("withFigure() replaces a figure in its place only, and rejects a text without it", () => {
  assertEquals(
    withFigure("8 KiB; a stream takes 9 KiB", /(?<=takes )\d+ KiB/, "64 KiB"),
    "8 KiB; a stream takes 64 KiB",
  );
  assertThrows(
    () => withFigure("8 KiB", /(?<=takes )\d+ KiB/, "64 KiB"),
    TypeError,
  );
});
