import { assertEquals, assertMatch } from "@std/assert";
import { problemOfTest } from "../_named_test.ts";
import { HIDDEN_CLAUSES, VISIBLE_CLAUSES } from "../conformance/clauses.ts";
import { departs, readDocument } from "../conformance/document.ts";

const { text, visible, hidden } = await readDocument();

Deno.test("docs/conformance.md has a row for each clause", () => {
  assertEquals(
    Object.fromEntries(visible.map(({ id, clause }) => [id, clause])),
    { ...VISIBLE_CLAUSES },
  );
  assertEquals(
    Object.fromEntries(hidden.map(({ id, clause }) => [id, clause])),
    { ...HIDDEN_CLAUSES },
  );
});

Deno.test("docs/conformance.md names a test that exists for each clause that cannot be seen from outside", async () => {
  const problems = await Promise.all(
    hidden.map(({ test }) => problemOfTest(test)),
  );
  assertEquals(problems.filter((problem) => problem !== undefined), []);
});

Deno.test("docs/conformance.md gives a reason for each departure", () => {
  for (const { here } of [...visible, ...hidden]) {
    assertMatch(here, /^(yes|(departs|in part): .{10,})$/);
  }
});

Deno.test("docs/conformance.md says what the Go gateway does where it does not conform", () => {
  for (const { goGateway } of visible) {
    assertMatch(goGateway, /^(yes|no: .{4,})$/);
  }
});

Deno.test("docs/conformance.md counts its rows", () => {
  const conforming = visible.filter((row) => !departs(row)).length;
  const ofGoGateway =
    visible.filter(({ goGateway }) => goGateway === "yes").length;
  const [, ...counts] =
    /Of (\d+)\s+checks, it passes (\d+), and\s+REP's own in\s+Go (\d+)/.exec(
      text,
    ) ?? [];
  assertEquals(counts.map(Number), [visible.length, conforming, ofGoGateway]);
});

Deno.test("nothing in src/ starts a process", async () => {
  assertEquals(
    await sourcesWith("src", /Deno\.Command|child_process|Deno\.run\b/),
    [],
  );
});

async function sourcesWith(folder: string, pattern: RegExp): Promise<string[]> {
  const found: string[] = [];
  for await (const { name, isDirectory } of Deno.readDir(folder)) {
    const path = `${folder}/${name}`;
    if (isDirectory) found.push(...await sourcesWith(path, pattern));
    else if (pattern.test(await Deno.readTextFile(path))) found.push(path);
  }
  return found;
}
