import { assertEquals } from "@std/assert";
import { isGranted } from "../../../src/core/values/runtime.ts";

const CASES: readonly (readonly [
  permission: Deno.PermissionDescriptor,
  granted: boolean,
])[] = [
  [{ name: "env" }, true],
  [{ name: "read", path: "tests/x" }, true],
  [{ name: "read", path: "src" }, false],
  [{ name: "net" }, false],
];

Deno.test(
  "isGranted() returns whether a permission is granted",
  { permissions: { env: true, read: ["tests"] } },
  () => {
    assertEquals(
      CASES.map(([permission]) => isGranted(permission)),
      CASES.map(([, granted]) => granted),
    );
  },
);
