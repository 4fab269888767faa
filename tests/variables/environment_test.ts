import { assertEquals } from "@std/assert";
import { isGranted } from "../../src/permissions.ts";
import { readEnvironment } from "../../src/variables/environment.ts";

Deno.test("readEnvironment() gives the variables that are ours, and no others", () => {
  Deno.env.set("REP_PUBLIC_ENVIRONMENT_TEST", "1");
  Deno.env.set("ENVIRONMENT_TEST", "2");
  try {
    const environment = readEnvironment();
    assertEquals(environment.REP_PUBLIC_ENVIRONMENT_TEST, "1");
    assertEquals(Object.keys(environment).filter((name) => !name.startsWith("REP_")), []);
  } finally {
    Deno.env.delete("REP_PUBLIC_ENVIRONMENT_TEST");
    Deno.env.delete("ENVIRONMENT_TEST");
  }
});

Deno.test("readEnvironment() gives nothing without --allow-env", { permissions: { env: false } }, () => {
  assertEquals(readEnvironment(), {});
});

Deno.test("readEnvironment() gives nothing when only some variables may be read", {
  permissions: { env: ["REP_PUBLIC_A"] },
}, () => assertEquals(readEnvironment(), {}));

Deno.test("isGranted() tells what may be done", { permissions: { env: true, read: ["tests"] } }, () => {
  assertEquals(
    [{ name: "env" }, { name: "read", path: "tests/x" }, { name: "read", path: "src" }, { name: "net" }].map((one) =>
      isGranted(one as Deno.PermissionDescriptor)
    ),
    [true, true, false, false],
  );
});
