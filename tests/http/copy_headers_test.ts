import { assertEquals } from "@std/assert";
import { copyHeaders } from "../../src/http/copy_headers.ts";

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
