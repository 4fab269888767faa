import { assertEquals } from "@std/assert";
import { parseList, TOKEN } from "../../src/http/list_field.ts";

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
