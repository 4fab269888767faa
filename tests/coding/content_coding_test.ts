import { assertEquals } from "@std/assert";
import {
  contentCodings,
  isCompressible,
  isEncoded,
} from "../../src/coding/content_coding.ts";

for (
  const [header, codings] of [
    ["", []],
    ["identity", []],
    ["GZip", ["gzip"]],
    ["gzip, identity, br", ["gzip", "br"]],
  ] as const
) {
  Deno.test(`contentCodings() and isEncoded() ignore identity and capitals in "${header}"`, () => {
    const headers = new Headers({ "content-encoding": header });
    assertEquals([contentCodings(headers), isEncoded(headers)], [
      [...codings],
      codings.length > 0,
    ]);
  });
}

const TYPES: [type: string, expected: boolean][] = [
  ["text/html; charset=UTF-8", true],
  ["text/css", true],
  ["TEXT/JavaScript; charset=UTF-8", true],
  ["application/json; charset=UTF-8", true],
  ["application/manifest+json", true],
  ["application/wasm", true],
  ["image/svg+xml", true],
  ["image/x-icon", true],
  ["font/ttf", true],
  ["font/woff2", false],
  ["image/png", false],
  ["video/mp4", false],
  ["application/pdf", false],
  ["application/zip", false],
  ["application/octet-stream", false],
  ["", false],
];

for (const [type, expected] of TYPES) {
  Deno.test(`isCompressible() returns ${expected} for "${type}"`, () =>
    assertEquals(isCompressible(type, 1_024), expected));
}

Deno.test("isCompressible() returns false for content that fits into a packet", () => {
  assertEquals(isCompressible("text/css", 1_023), false);
});
