import { assertEquals } from "@std/assert";
import { readEnvironment } from "../../src/config/environment.ts";

Deno.test("readEnvironment() returns the REP_ variables only", () => {
  Deno.env.set("REP_PUBLIC_ENVIRONMENT_TEST", "1");
  Deno.env.set("ENVIRONMENT_TEST", "2");
  try {
    const environment = readEnvironment();
    assertEquals(environment.REP_PUBLIC_ENVIRONMENT_TEST, "1");
    assertEquals(
      Object.keys(environment).filter((name) => !name.startsWith("REP_")),
      [],
    );
  } finally {
    Deno.env.delete("REP_PUBLIC_ENVIRONMENT_TEST");
    Deno.env.delete("ENVIRONMENT_TEST");
  }
});

Deno.test("readEnvironment() returns nothing without --allow-env", {
  permissions: { env: false },
}, () => {
  assertEquals(readEnvironment(), {});
});

Deno.test(
  "readEnvironment() returns nothing if --allow-env is limited to some variables",
  {
    permissions: { env: ["REP_PUBLIC_A"] },
  },
  () => assertEquals(readEnvironment(), {}),
);
