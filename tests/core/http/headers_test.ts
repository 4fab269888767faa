import {
  copyHeaders,
  parseList,
  TOKEN,
} from "../../../src/core/http/headers.ts";
import { assertEquals } from "@std/assert";

Deno.test("copyHeaders() keeps each Set-Cookie, and joins other headers of one name", () => {
  const headers = new Headers([["Set-Cookie", "a=1"], ["Vary", "Origin"], [
    "set-cookie",
    "b=2",
  ], ["vary", "Accept"]]);
  const copy = copyHeaders(headers);
  assertEquals([...copy], [["set-cookie", "a=1"], ["set-cookie", "b=2"], [
    "vary",
    "Origin, Accept",
  ]]);
  copy.delete("vary");
  assertEquals(headers.get("vary"), "Origin, Accept");
});

Deno.test("copyHeaders() selects by the name in lower case", () => {
  const copy = copyHeaders(
    new Headers({ "X-One": "1", "X-Two": "2" }),
    (name) => name !== "x-one",
  );
  assertEquals([...copy], [["x-two", "2"]]);
});

Deno.test("parseList() returns the elements of a header without white space and empty ones", () => {
  const headers = [null, "", ",", " a , b,,c\t,", "A"];
  assertEquals(headers.map(parseList), [[], [], [], ["a", "b", "c"], ["A"]]);
});

Deno.test("TOKEN matches a token of RFC 9110", () => {
  const texts = ["keep-alive", "a.b~c", "", "a b", "a:b", '"a"', "ä"];
  assertEquals(texts.filter((text) => TOKEN.test(text)), [
    "keep-alive",
    "a.b~c",
  ]);
});
