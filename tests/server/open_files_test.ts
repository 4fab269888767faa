import { assertEquals } from "@std/assert";
import { connectionBudget, readOpenFileLimit } from "../../src/server/open_files.ts";

Deno.test("connectionBudget() leaves twice the backlog and 64 files free", () => {
  assertEquals(connectionBudget(1_024, 1), { backlog: 128, maxConnections: 704 });
  assertEquals(connectionBudget(1_024, 2), { backlog: 128, maxConnections: 352 });
  assertEquals(connectionBudget(20_000, 1), { backlog: 511, maxConnections: 18_914 });
});

Deno.test("connectionBudget() has bounds, and assumes 4,096 files if the limit is unknown", () => {
  assertEquals(connectionBudget(10, 1).maxConnections, 1);
  assertEquals(connectionBudget(1_000_000, 1).maxConnections, 100_000);
  assertEquals(connectionBudget(undefined, 1), connectionBudget(4_096, 1));
});

Deno.test({
  name: "readOpenFileLimit() returns the limit of this process",
  ignore: Deno.build.os !== "linux",
  async fn() {
    const { stdout } = await new Deno.Command("bash", { args: ["-c", "ulimit -n"] }).output();
    assertEquals(readOpenFileLimit(), Number(new TextDecoder().decode(stdout)));
  },
});

Deno.test({
  name: "readOpenFileLimit() returns undefined without --allow-all, and does not prompt",
  permissions: { read: false },
  fn() {
    assertEquals(readOpenFileLimit(), undefined);
  },
});
