import { assertEquals } from "@std/assert";
import { type ByteRange, parseByteRange } from "../../src/http/byte_range.ts";

const SIZE = 100;

const RANGES: [header: string, range: ByteRange][] = [
  ["bytes=0-0", { start: 0, end: 1 }],
  ["bytes=0-99", { start: 0, end: 100 }],
  ["bytes=10-19", { start: 10, end: 20 }],
  ["bytes=90-", { start: 90, end: 100 }],
  ["bytes=90-1000", { start: 90, end: 100 }],
  ["bytes=90-99999999999999999999999999", { start: 90, end: 100 }],
  ["bytes=-10", { start: 90, end: 100 }],
  ["bytes=-1000", { start: 0, end: 100 }],
  ["BYTES=007-8", { start: 7, end: 9 }],
];

for (const [header, range] of RANGES) {
  Deno.test(`parseByteRange() parses ${header}`, () => {
    assertEquals(parseByteRange(header, SIZE), range);
  });
}

for (
  const header of [
    "bytes=100-",
    "bytes=100-200",
    "bytes=-0",
    "bytes=99999999999999999999999999-",
  ]
) {
  Deno.test(`parseByteRange() returns "unsatisfiable" for ${header} of 100 bytes`, () => {
    assertEquals(parseByteRange(header, SIZE), "unsatisfiable");
  });
}

for (const header of ["bytes=0-", "bytes=-1"]) {
  Deno.test(`parseByteRange() returns "unsatisfiable" for ${header} of an empty file`, () => {
    assertEquals(parseByteRange(header, 0), "unsatisfiable");
  });
}

const IGNORED = [
  "",
  "bytes",
  "bytes=",
  "bytes=-",
  "bytes=a-b",
  "bytes=5-4",
  "bytes=0-1,3-4",
  "bytes=0-1,",
  "bytes=--1",
]
  .concat([
    "bytes=1.5-2",
    "bytes=0x1-2",
    "bytes= 0-1",
    "bytes=+1-2",
    "items=0-1",
    "0-1",
    "bytes=0-1-2",
    "bytes=٣-٤",
  ]);

for (const header of IGNORED) {
  Deno.test(`parseByteRange() ignores "${header}"`, () => {
    assertEquals(parseByteRange(header, SIZE), undefined);
  });
}
