import { assertEquals } from "@std/assert";
import { formatByteSize, parseByteSize } from "../../src/values/byte_size.ts";

Deno.test("parseByteSize() parses bytes, KiB, MiB and GiB", () => {
  const texts = ["0", "1000", "512KiB", "64MiB", "1GiB", "0MiB"];
  assertEquals(texts.map(parseByteSize), [
    0,
    1_000,
    524_288,
    67_108_864,
    1_073_741_824,
    0,
  ]);
});

for (
  const text of [
    "",
    "MiB",
    "1.5MiB",
    "-1",
    "+1",
    "64 MiB",
    " 1",
    "1 ",
    "1\n",
    "64MB",
    "64mib",
    "64M",
    "64B",
    "1e3",
  ]
) {
  Deno.test(`parseByteSize() returns undefined for ${JSON.stringify(text)}`, () => {
    assertEquals(parseByteSize(text), undefined);
  });
}

Deno.test("formatByteSize() is the inverse of parseByteSize(), in the largest unit that fits", () => {
  const texts = ["0", "1000", "1KiB", "1025", "64MiB", "1GiB", "1025MiB"];
  assertEquals(
    texts.map((text) => formatByteSize(parseByteSize(text) ?? NaN)),
    texts,
  );
});
