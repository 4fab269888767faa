import { assertEquals } from "@std/assert";
import { contentCodings, isEncoded } from "../../src/http/content_codings.ts";

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
    assertEquals([contentCodings(headers), isEncoded(headers)], [[...codings], codings.length > 0]);
  });
}
