import { assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { envPathsOf } from "../../src/vite/env_files.ts";

type Option = Parameters<typeof envPathsOf>[0];

function pathsOf(option: Option) {
  return envPathsOf(option, "/app").map(({ path, required }) => [
    path,
    required,
  ]);
}

Deno.test("envPathsOf() requires each file unless the option says otherwise, and makes its path absolute", () => {
  assertEquals(pathsOf("a"), [["/app/a", true]]);
  assertEquals(pathsOf({ path: "/b/a" }), [["/b/a", true]]);
  // deno-lint-ignore no-explicit-any -- a configuration in JavaScript
  assertEquals(pathsOf({ path: "a", required: undefined } as any), [
    ["/app/a", true],
  ]);
  assertEquals(pathsOf(["../a", { path: "b", required: false }]), [
    ["/a", true],
    ["/app/b", false],
  ]);
});

Deno.test("envPathsOf() rejects what is no path: an empty one would be the project itself", () => {
  const url = new URL("file:///app/a.env");
  const invalid: [unknown, string][] = [
    ["", '""'],
    [{ path: "" }, '""'],
    [["a", ""], '""'],
    [null, "nothing"],
    [undefined, "nothing"],
    [url, "a mapping"],
    [{ path: url }, "a mapping"],
    [{ file: "a.env" }, "a mapping"],
    [5, "5"],
  ];
  for (const [option, got] of invalid) {
    assertThrows(
      () => envPathsOf(option as Option),
      TypeError,
      `Cannot use envFile: expected a path such as "app.env", got ${got}`,
    );
  }
});

Deno.test("envPathsOf() has each error name the path as the option has it", () => {
  const [{ remedy = "" } = {}] = envPathsOf("./a.env", "/app");
  assertStringIncludes(remedy, '{ path: "./a.env", required: false }');
});
