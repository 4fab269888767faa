import { assertEquals } from "@std/assert";
import {
  canonicalJson,
  publicHash,
  shortHash,
  sriHash,
} from "../../../src/core/values/hash.ts";

Deno.test("canonicalJson() sorts names by code units, without white space", () => {
  const map = new Map([["b", "2"], ["Z", '"\n'], ["a", "é"], [
    "__proto__",
    "x",
  ]]);
  assertEquals(
    canonicalJson(map),
    '{"Z":"\\"\\n","__proto__":"x","a":"é","b":"2"}',
  );
  assertEquals(canonicalJson(new Map()), "{}");
});

Deno.test("sriHash() returns the known hash of the empty text", async () => {
  assertEquals(
    await sriHash(""),
    "sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=",
  );
});

Deno.test("publicHash() is that of the canonical JSON, in any order of the names", async () => {
  const hash = await publicHash(new Map([["B", "2"], ["A", "1"]]));
  assertEquals(
    [hash, await publicHash(new Map([["A", "1"], ["B", "2"]]))],
    Array(2).fill(await sriHash('{"A":"1","B":"2"}')),
  );
});

Deno.test("shortHash() returns twelve characters that need no encoding in URLs", () => {
  assertEquals(shortHash("sha256-ab+/efgh+/klMNOP="), "ab-_efgh-_kl");
});
