import { assert, assertEquals } from "@std/assert";
import { brotliDecompressSync, gunzipSync } from "node:zlib";
import { Compressor } from "../../src/coding/compressor.ts";

Deno.test.sanitizer({ ops: true, resources: true }); // off by default since Deno 2.8

const TEXT = new TextEncoder().encode(
  Array.from({ length: 20_000 }, (_, i) => `const value${i} = ${i * 7919};\n`)
    .join(""),
);

Deno.test("Compressor compresses with Brotli and gzip", async () => {
  const compressor = new Compressor();
  for (
    const [coding, decompress] of [["br", brotliDecompressSync], [
      "gzip",
      gunzipSync,
    ]] as const
  ) {
    const bytes = await compressor.compress(TEXT, coding) ?? new Uint8Array();
    assert(bytes.length > 0 && bytes.length < TEXT.length / 2);
    assertEquals(new Uint8Array(decompress(bytes)), TEXT);
  }
});

Deno.test("Compressor returns nothing if the result is not smaller", async () => {
  const random = crypto.getRandomValues(new Uint8Array(40_000));
  const compressor = new Compressor();
  assertEquals(await compressor.compress(random, "br"), undefined);
  assertEquals(await compressor.compress(new Uint8Array(), "gzip"), undefined);
});

Deno.test("Compressor lets other work run while it compresses", async () => {
  const compressor = new Compressor();
  let turns = 0;
  const timer = setInterval(() => turns++, 0);
  await compressor.compress(TEXT, "br");
  clearInterval(timer);
  assert(turns >= 10, `expected at least 10 other turns, got ${turns}`);
});

Deno.test("Compressor compresses one after the other, and says when it is idle", async () => {
  const compressor = new Compressor();
  const order: string[] = [];
  void compressor.compress(TEXT, "br").then(() => order.push("first"));
  void compressor.compress(TEXT.subarray(0, 2_000), "br").then(() =>
    order.push("second")
  );
  await compressor.idle();
  assertEquals(order, ["first", "second"]);
});

Deno.test("Compressor ends when it is closed", async () => {
  const compressor = new Compressor();
  const results = [
    compressor.compress(TEXT, "br"),
    compressor.compress(TEXT, "gzip"),
  ];
  compressor.close();
  assertEquals(await Promise.all(results), [undefined, undefined]);
});

Deno.test("Compressor is busy if more than 32 results are waited for", async () => {
  const compressor = new Compressor();
  const states = Array.from({ length: 33 }, () => {
    const { isBusy } = compressor;
    void compressor.compress(TEXT.subarray(0, 100), "gzip");
    return isBusy;
  });
  assertEquals(states, [...Array.from({ length: 32 }, () => false), true]);
  await compressor.idle();
  assertEquals(compressor.isBusy, false);
});
