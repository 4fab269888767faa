import { assertEquals } from "@std/assert";
import { CODINGS, preferredCoding } from "../../src/static/content_coding.ts";

const BOTH: [accepted: string, name: string | undefined][] = [
  ["gzip, deflate, br, zstd", "br"],
  ["gzip, deflate", "gzip"],
  ["br", "br"],
  ["BR", "br"],
  ["*", "br"],
  ["gzip;q=0.5, br;q=0.5", "br"],
  ["gzip;q=1, br;q=0.5", "gzip"],
  ["br;q=0, gzip", "gzip"],
  ["br;q=0, gzip;q=0", undefined],
  ["br;q=0", undefined],
  ["*;q=0", undefined],
  ["identity", undefined],
  ["identity;q=1, *;q=0", undefined], // sent by Chromium with a range of a video
  ["identity, br;q=0.1", undefined],
  ["deflate, zstd", undefined],
  ["brx, gzipx", undefined],
  ["", undefined],
];

for (const [accepted, name] of BOTH) {
  Deno.test(`preferredCoding() selects ${name ?? "none"} of br and gzip for "${accepted}"`, () => {
    const headers = new Headers({ "accept-encoding": accepted });
    assertEquals(preferredCoding(headers, CODINGS)?.name, name);
  });
}

Deno.test("preferredCoding() selects none without an Accept-Encoding header", () => {
  assertEquals(preferredCoding(new Headers(), CODINGS), undefined);
});

Deno.test("preferredCoding() selects only an available coding", () => {
  const headers = new Headers({ "accept-encoding": "gzip, br" });
  const onlyGzip = CODINGS.filter(({ name }) => name === "gzip");
  assertEquals(preferredCoding(headers, onlyGzip)?.name, "gzip");
  assertEquals(preferredCoding(headers, []), undefined);
});
