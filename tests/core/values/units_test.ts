import { assertEquals } from "@std/assert";
import {
  formatByteSize,
  formatDuration,
  parseByteSize,
  parseDuration,
} from "../../../src/core/values/units.ts";

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
    " 1",
    "1 ",
    "1\n",
    "64 MiB",
    ..."MiB 1.5MiB -1 +1 64MB 64mib 64M 64B 1e3".split(" "),
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

Deno.test("parseDuration() parses hours, minutes, seconds and milliseconds, alone and combined", () => {
  const texts = [
    "0s",
    "30s",
    "5m",
    "1h",
    "500ms",
    "1h30m",
    "1m30s500ms",
    "90m",
    "24h",
    "720h",
  ];
  assertEquals(
    texts.map(parseDuration),
    [
      0,
      30_000,
      300_000,
      3_600_000,
      500,
      5_400_000,
      90_500,
      5_400_000,
      86_400_000,
      2_592_000_000,
    ],
  );
});

for (
  const text of [
    "",
    "1 s",
    " 1s",
    "1s ",
    "1s\n",
    "1h 30m",
    ..."30 s 1.5h -1s +1s 1d 1S 1e3s ٣s".split(" "),
  ]
) {
  Deno.test(`parseDuration() returns undefined for ${JSON.stringify(text)}`, () => {
    assertEquals(parseDuration(text), undefined);
  });
}

Deno.test("formatDuration() uses the largest units that fit", () => {
  assertEquals(
    [0, 1, 1_500, 30_000, 600_000, 5_400_000, 86_400_000].map(formatDuration),
    ["0s", "1ms", "1s500ms", "30s", "10m", "1h30m", "24h"],
  );
});
