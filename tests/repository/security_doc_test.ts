import { assertEquals } from "@std/assert";
import { problemOfTest, rowsAfter } from "../_named_test.ts";

Deno.test("docs/security.md names for each threat what stops it, and a test that exists", async () => {
  const threats = rowsAfter(
    "Threats",
    await Deno.readTextFile("docs/security.md"),
  );
  assertEquals(
    threats.filter((cells) => cells.length !== 3 || cells.includes("")),
    [],
  );
  const problems = await Promise.all(
    threats.map(([, , test]) => problemOfTest(test)),
  );
  assertEquals(problems.filter((problem) => problem !== undefined), []);
  assertEquals(threats.length > 30, true);
});
