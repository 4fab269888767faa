import { assertEquals } from "@std/assert";
import {
  CODINGS,
  contentCodings,
  isEncoded,
  preferredCoding,
} from "../../src/coding/content_coding.ts";

const NAMES = CODINGS.map(({ name }) => name);

const ALL: [accepted: string, name: string | undefined][] = [
  ["gzip, deflate, br, zstd", "br"],
  ["gzip, deflate, zstd", "zstd"],
  ["gzip, deflate", "gzip"],
  ["br", "br"],
  ["BR", "br"],
  ["*", "br"],
  ["*, br;q=0", "zstd"],
  ["gzip;q=0.5, br;q=0.5", "br"],
  ["gzip;q=1, br;q=0.5", "gzip"],
  ["gzip;q=1.000, br ; q=0.999", "gzip"],
  ["br;q=0, gzip", "gzip"],
  ["br;q=0, gzip;q=0", undefined],
  ["br;q=0", undefined],
  ["br;q=high, gzip;q=0.001", "gzip"],
  ["br;q=-1", undefined],
  ["*;q=0", undefined],
  ["identity", undefined],
  ["identity;q=1, *;q=0", undefined], // sent by Chromium with a range of a video
  ["identity, br;q=0.1", undefined],
  ["identity;q=0.5, br;q=0.5", "br"],
  ["identity;q=0", undefined],
  ["deflate", undefined],
  ["brx, gzipx", undefined],
  ["", undefined],
];

for (const [accepted, name] of ALL) {
  Deno.test(`preferredCoding() selects ${name ?? "none"} of ${NAMES} for "${accepted}"`, () => {
    assertEquals(preferredCoding(accepted, NAMES), name);
  });
}

Deno.test("preferredCoding() selects none without an Accept-Encoding header", () => {
  assertEquals(preferredCoding(null, NAMES), undefined);
});

Deno.test("preferredCoding() selects only an available coding", () => {
  assertEquals(preferredCoding("gzip, br", ["gzip"]), "gzip");
  assertEquals(preferredCoding("gzip, br", []), undefined);
});

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
