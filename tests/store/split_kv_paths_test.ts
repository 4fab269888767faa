import { assertEquals } from "@std/assert";
import { splitKvPaths } from "../../src/store/split_kv_paths.ts";

Deno.test("splitKvPaths() splits at commas, except those between the hosts of a postgres:// URL", () => {
  const cases: Record<string, string[]> = {
    "": [],
    "a": ["a"],
    "a.sqlite3,http://a.example,https://b.example/x": ["a.sqlite3", "http://a.example", "https://b.example/x"],
    "postgres://u@a,b:1,c/db": ["postgres://u@a,b:1,c/db"],
    "x,postgres://u@a,b/db?schema=s,postgresql://u@c/db,y": [
      ...["x", "postgres://u@a,b/db?schema=s", "postgresql://u@c/db", "y"],
    ],
    "postgres://u@a,b": ["postgres://u@a", "b"], // no database: rejected when it is opened
  };
  assertEquals(Object.fromEntries(Object.keys(cases).map((list) => [list, splitKvPaths(list)])), cases);
});
