import { assertEquals } from "@std/assert";
import {
  escapeInvisible,
  escapeLines,
  visibleJson,
} from "../../../src/core/values/visible_text.ts";

const HOSTILE =
  "a\nb\r\tc\x1b[31m\0\x7f\x9b1m\u2028\u202eevil\u200b\ufeff\u{e0001}";
const ESCAPED =
  "a\\nb\\r\\tc\\u001b[31m\\u0000\\u007f\\u009b1m\\u2028\\u202eevil\\u200b\\ufeff\\udb40\\udc01";

Deno.test("escapeInvisible() escapes what a terminal interprets or does not display", () => {
  assertEquals(escapeInvisible(HOSTILE), ESCAPED);
  assertEquals(escapeInvisible("half \ud83d here"), "half \\ud83d here");
});

Deno.test("escapeInvisible() does not change visible characters", () => {
  const text =
    "https://example.com/?a=b&c=[d] \\ 'quoted' äöü 日本 \u{1f600} e\u0301";
  assertEquals(escapeInvisible(text), text);
});

Deno.test("escapeLines() keeps line breaks", () => {
  assertEquals(escapeLines("a\x1b[2J\nb\r\n"), "a\\u001b[2J\nb\\r\n");
});

Deno.test("visibleJson() escapes them in one line, and parses to the same value", () => {
  const json = visibleJson({ [HOSTILE]: HOSTILE });
  assertEquals(json, `{"${ESCAPED}":"${ESCAPED}"}`);
  assertEquals(JSON.parse(json), { [HOSTILE]: HOSTILE });
});
