import { assertEquals } from "@std/assert";
import { envPathsOf } from "../../src/vite/env_files.ts";

Deno.test("envPathsOf() requires each file unless the option says otherwise", () => {
  const required = (path: string) => ({ path, required: true });
  assertEquals(envPathsOf("a"), [required("a")]);
  assertEquals(envPathsOf({ path: "a" }), [required("a")]);
  // deno-lint-ignore no-explicit-any -- a configuration in JavaScript
  assertEquals(envPathsOf({ path: "a", required: undefined } as any), [
    required("a"),
  ]);
  assertEquals(envPathsOf(["a", { path: "b", required: false }]), [
    required("a"),
    { path: "b", required: false },
  ]);
});
