import { assertEquals } from "@std/assert";
import { fastestBody } from "../../src/coding/fastest_body.ts";

const encoder = new TextEncoder();

for (const text of ["", "<p>text</p>\n", "\0\x7f"]) {
  Deno.test(`fastestBody() returns a string for ${JSON.stringify(text)}`, () => {
    assertEquals(fastestBody(encoder.encode(text)), text);
  });
}

for (
  const bytes of [
    encoder.encode("é"),
    encoder.encode("\ufeffx"),
    new Uint8Array([0x61, 0xff]),
    new Uint8Array([0xc3]),
  ]
) {
  Deno.test(`fastestBody() returns the bytes ${bytes} as they are`, () => {
    assertEquals(fastestBody(bytes), bytes);
  });
}
