import { assertEquals } from "@std/assert";
import { findFreePort } from "../../tools/free_port.ts";
import { stdFlags } from "../../tools/std.ts";
import { ask, CHECKS, type Finding } from "./checks.ts";
import { VISIBLE_CLAUSES } from "./clauses.ts";
import { departs, readDocument } from "./document.ts";
import { format } from "./main.ts";

/** Windows has no SIGHUP, with which checks reload. */
const ignore = Deno.build.os === "windows";

async function findings(
  args: readonly string[],
  timeoutMs: number,
): Promise<Finding[]> {
  const target = {
    command: [Deno.execPath(), ...args],
    url: `http://127.0.0.1:${findFreePort()}`,
    healthUrl: `http://127.0.0.1:${findFreePort()}`,
    timeoutMs,
  };
  return await Array.fromAsync(ask(target));
}

Deno.test({
  name: "this gateway conforms to REP as docs/conformance.md says",
  ignore,
  async fn() {
    const deno = ["run", "--quiet", ...await stdFlags(), "--unstable-kv", "-A"];
    const args = [
      "--hostname",
      "127.0.0.1",
      "--kv",
      "{dir}/store",
      "--drain",
      "0s",
    ];
    const found = await findings([...deno, "main.ts", ...args], 10_000);
    const failed = found.filter(({ problem }) => problem !== undefined);
    const { visible } = await readDocument();
    const departures = visible.filter(departs).map(({ id }) => id);
    assertEquals(
      failed.filter(({ id }) => !departures.includes(id)).map(format),
      [],
    );
    assertEquals(failed.map(({ id }) => String(id)).sort(), departures.sort());
  },
});

Deno.test({
  name: "every check fails for a gateway that does everything wrong",
  ignore,
  async fn() {
    const wrong = [
      "run",
      "--quiet",
      "-A",
      "tests/conformance/wrong_gateway.ts",
    ];
    const found = await findings(wrong, 1_000);
    assertEquals(found.filter(({ problem }) => problem === undefined), []);
    // It answers at once whatever it is asked, but has no health port.
    const waited = found.filter(({ problem = "" }) =>
      /within|timed out/i.test(problem)
    );
    assertEquals(waited.map(({ id, problem }) => [String(id), problem]), [
      ["S2.6", "expected a health report within 1 s"],
    ]);
  },
});

Deno.test("there is one check for each clause that can be seen from outside", () => {
  assertEquals(
    CHECKS.map(({ id }) => String(id)).sort(),
    Object.keys(VISIBLE_CLAUSES).sort(),
  );
});
