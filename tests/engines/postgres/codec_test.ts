import { assertEquals, assertThrows } from "@std/assert";
import {
  decodeName,
  decodeValue,
  encodeKey,
  encodeName,
  encodeValue,
} from "../../../src/engines/postgres/codec.ts";

/** In the order of the contract: strings before numbers. */
const NAMES = [
  "",
  "\0",
  "\0a",
  "\x01",
  "\x01\x01",
  "\x02",
  "A",
  "a",
  "a\0",
  "aa",
  "ä",
  "\u{1f600}",
];
const NUMBERS = [
  0,
  5e-324,
  0.5,
  1,
  2,
  1_700_000_000_000,
  Number.MAX_SAFE_INTEGER,
];

/** PostgreSQL orders text with the collation "C" by its bytes. */
function compareBytes(a: string, b: string) {
  const [left, right] = [a, b].map((text) =>
    new TextEncoder().encode(text).toHex()
  );
  return left === right ? 0 : String(left) < String(right) ? -1 : 1;
}

Deno.test("encodeName() preserves the order of names and numbers, and contains no NUL", () => {
  const encoded = [...NAMES, ...NUMBERS].map(encodeName);
  assertEquals(encoded.toSorted(compareBytes), encoded);
  assertEquals(encoded.filter((name) => name.includes("\0")), []);
});

Deno.test("decodeName() returns what was encoded", () => {
  const names = [...NAMES, ...NUMBERS];
  assertEquals(names.map(encodeName).map(decodeName), names);
});

Deno.test("encodeName() makes -0 the same as 0, and unpaired surrogates U+FFFD", () => {
  assertEquals([encodeName(-0), encodeName("\ud800")], [
    encodeName(0),
    "-\ufffd",
  ]);
});

Deno.test("encodeKey() separates the last part from the others", () => {
  assertEquals(encodeKey(["a", 1, "b"]), ['["a",1]', "-b"]);
  assertEquals(encodeKey(["head"]), ["[]", "-head"]);
});

Deno.test("decodeValue() returns what was encoded, bytes at any depth included", () => {
  const bytes = new Uint8Array([0, 1, 255]);
  const values = [null, 0, "", "\0\ud800", [bytes], { a: { b: bytes } }, {
    $a: 1,
  }];
  assertEquals(values.map(encodeValue).map(decodeValue), values);
});

Deno.test("encodeValue() is JSON that can be read", () => {
  assertEquals(
    encodeValue({ value: new TextEncoder().encode("hi"), id: 1 }),
    '{"value":{"$bytes":"aGk="},"id":1}',
  );
});

Deno.test("encodeValue() rejects what has no JSON", () => {
  for (const value of [() => {}, 1n]) {
    assertThrows(() => encodeValue(value), TypeError);
  }
});
