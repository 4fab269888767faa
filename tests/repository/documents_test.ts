/** Compares the pages, and the files that they quote, with the code. `operations_test.ts` does so for operators' pages. */
import {
  assert,
  assertEquals,
  assertMatch,
  assertStringIncludes,
} from "@std/assert";
import { MAX_HISTORY } from "../../src/core/config/stored/stored_variables.ts";
import { MAX_NAME_BYTES } from "../../src/core/config/variables/snapshot.ts";
import { MAX_PUBLIC_BYTES } from "../../src/core/config/variables/tiers.ts";
import { NUMBER_OPTIONS } from "../../src/options.ts";
import { MAX_CHECKS } from "../../src/engines/kv.ts";
import { POSTGRES_MAX_CHECKS } from "../../src/engines/postgres/postgres.ts";
import { readFigures } from "../../tools/figures.ts";
import { withOptionTable } from "../../tools/option_table.ts";
import { PAGES, PICTURE, withResults } from "../../tools/performance.ts";
import { drawPerformance } from "../../tools/performance_picture.ts";
import { countUserPages } from "../../tools/words.ts";
import { readResults } from "../../bench/_results.ts";
import { runCommand } from "../_command.ts";
import { rowsAfter } from "../_markdown.ts";
import { HIDDEN_CLAUSES, VISIBLE_CLAUSES } from "../conformance/clauses.ts";
import { departs, readDocument } from "../conformance/document.ts";

const conformance = await readDocument();

Deno.test("docs/conformance.md has a row for each clause", () => {
  const clausesOf = (rows: readonly { id: string; clause: string }[]) =>
    Object.fromEntries(rows.map(({ id, clause }) => [id, clause]));
  assertEquals(clausesOf(conformance.visible), { ...VISIBLE_CLAUSES });
  assertEquals(clausesOf(conformance.hidden), { ...HIDDEN_CLAUSES });
});

Deno.test("docs/conformance.md counts its rows", () => {
  const { text, visible } = conformance;
  const conforming = visible.filter((row) => !departs(row));
  const ofGoGateway = visible.filter(({ goGateway }) => goGateway === "yes");
  const sentence =
    /Of\s+(\d+)\s+checks,\s+this\s+gateway\s+passes\s+(\d+),\s+and\s+REP's\s+Go\s+gateway\s+(\d+)/;
  const [, ...counts] = sentence.exec(text) ?? [];
  assertEquals(counts.map(Number), [
    visible.length,
    conforming.length,
    ofGoGateway.length,
  ]);
});

Deno.test("docs/conformance.md and docs/security.md name tests that exist", async () => {
  const text = await Deno.readTextFile("docs/security.md");
  const threats = rowsAfter("Threats", text).map(([, , test = ""]) => test);
  const clauses = conformance.hidden.map(({ test }) => test);
  const missing: string[] = [];
  for (const cell of [...threats, ...clauses]) {
    if (!await namesTest(cell)) missing.push(cell);
  }
  assertEquals(missing, []);
  assertEquals(threats.length > 30, true);
});

/** A cell that names a test: by a link to its file, or by the file's path. */
const TEST_CELLS = [
  /^\["(?<name>[^"]+)"\]\(\.\.\/(?<path>tests\/[\w/]+_test\.ts)\)$/,
  /^`(?<path>tests\/[\w/]+_test\.ts)`: "(?<name>[^"]+)"$/,
];

/** Whether a test exists that a cell names. */
async function namesTest(cell: string) {
  const { path, name: written = "" } =
    TEST_CELLS.map((form) => form.exec(cell)?.groups)
      .find((groups) => groups !== undefined) ?? {};
  if (path === undefined) return false;
  const name = written.replaceAll("\\<", "<"); // in Markdown, `<base>` would be an element
  const definition = new RegExp(
    `(?:\\b(?:Deno\\.test|testBrowser)\\(\\s*|\\bname:\\s*)"${
      RegExp.escape(name)
    }",`,
  );
  const text = await Deno.readTextFile(path);
  return definition.test(text) || namesRowOf(text, name);
}

/** Whether a name is that of a test for a row of a table: a template, with a text of the file in it. */
function namesRowOf(text: string, name: string): boolean {
  const templates = text.matchAll(
    /Deno\.test\(\s*`([^`$]*)\$\{\w+\}([^`$]*)`/g,
  );
  return templates.some(([, start = "", end = ""]) =>
    name.startsWith(start) && name.endsWith(end) &&
    text.includes(`"${name.slice(start.length, name.length - end.length)}"`)
  );
}

Deno.test("docs/reference.md contains the option table that the code generates", async () => {
  const reference = await Deno.readTextFile("docs/reference.md");
  const hint = "run: deno run -A tools/option_table.ts";
  assertEquals(withOptionTable(reference), reference, hint);
});

Deno.test("the pages about performance contain the tables and the picture that bench/results.json yields", async () => {
  const results = await readResults();
  const hint = "run: deno run $(deno run -A tools/std.ts) -A " +
    "tools/performance.ts";
  for (const page of PAGES) {
    const document = await Deno.readTextFile(page);
    assertEquals(withResults(document, results), document, hint);
  }
  const picture = await Deno.readTextFile(PICTURE);
  assertEquals(drawPerformance(results), picture, hint);
});

Deno.test("every page states the figures of their sources", async () => {
  const hint = "run: deno run $(deno run -A tools/std.ts) -A tools/figures.ts";
  for (const { text, places } of await readFigures()) {
    for (const [path, place] of places) {
      const [stated] = place.exec(await Deno.readTextFile(path)) ?? [];
      assertEquals(stated?.replace(/\s+/, " "), text, `${path}; ${hint}`); // a line may be broken there
    }
  }
});

/** What pages say of limits, and what the code has. */
const LIMITS = [
  [
    "README.md",
    /up to ([\d,]+) MiB of cached files/,
    NUMBER_OPTIONS.staticCacheBytes.default / 2 ** 20,
  ],
  [
    "README.md",
    /per process, ([\d,]+) open pages get changes at once/,
    NUMBER_OPTIONS.maxStreams.default,
  ],
  [
    "README.md",
    /per address, ([\d,]+) session keys a minute/,
    NUMBER_OPTIONS.sessionKeyMaxRate.default,
  ],
  ["docs/migrating.md", /PUBLIC value of more than ([\d,]+)/, MAX_PUBLIC_BYTES],
  [
    "docs/scale.md",
    /default of `--max-streams` is ([\d,]+)/,
    NUMBER_OPTIONS.maxStreams.default,
  ],
  ["docs/scale.md", /up to ([\d,]+) in a SQLite file,/, MAX_CHECKS],
  [
    "docs/scale.md",
    /up to ([\d,]+) [^.]* Deploy and on PostgreSQL/,
    POSTGRES_MAX_CHECKS,
  ],
  ["docs/variables.md", /may have up to ([\d,]+) bytes/, MAX_PUBLIC_BYTES],
  ["docs/variables.md", /Values longer than ([\d,]+) bytes/, MAX_PUBLIC_BYTES],
  ["docs/variables.md", /are longer than ([\d,]+) bytes/, MAX_NAME_BYTES],
  ["docs/variables.md", /([\d,]+) are kept/, MAX_HISTORY],
] as const;

Deno.test("the pages state the limits that the code has", async () => {
  for (const [page, statement, limit] of LIMITS) {
    const text = (await Deno.readTextFile(page)).replaceAll(/\s+/g, " ");
    const [, stated] = statement.exec(text) ?? [];
    assertEquals(stated, limit.toLocaleString("en"), `${page} ${statement}`);
  }
});

/** A command line of the gateway: Deno's flags, then the first argument. */
const COMMAND_LINE = /deno run (.*)jsr:@rep\/gateway(?:@[\d.]+)? (.+)/g;

Deno.test("every command of a page that needs Deno KV has --unstable-kv", async () => {
  const texts = await Promise.all(
    [...(await countUserPages()).keys()].map((page) => Deno.readTextFile(page)),
  );
  const missing: string[] = [];
  for (
    const [line, flags = "", args = ""] of texts.join().matchAll(COMMAND_LINE)
  ) {
    const needsNone = /^(validate|typegen|lint|inject)\b|postgres:/.test(args);
    if (!needsNone && !flags.includes("--unstable-kv")) missing.push(line);
  }
  assertEquals(missing, []);
});

Deno.test("the pages that compare with REP's Go gateway name the same version of it", async () => {
  const version = /0\.1\.2[\s,(]+commit\s+`be15194`/;
  for (const page of ["docs/conformance.md", "docs/migrating.md"]) {
    assertMatch(await Deno.readTextFile(page), version, page);
  }
});

Deno.test("docs/development/architecture.md names only files and folders that exist", async () => {
  const text = await Deno.readTextFile("docs/development/architecture.md");
  const paths = text.matchAll(
    /`((?:src|tests|bench|tools|docs|examples)\/[\w./]*)`/g,
  );
  for (const [, path = ""] of paths) await Deno.stat(path);
});

/** The examples whose code a guide shows. */
const QUOTES = {
  "docs/vite.md": ["vite-react/vite.config.ts", "vite-react/app.env"],
  "docs/hono.md": ["hono/configuration.ts"],
};

Deno.test("the guides contain the code of the examples", async () => {
  for (const [guide, paths] of Object.entries(QUOTES)) {
    const text = await Deno.readTextFile(guide);
    for (const path of paths) {
      const code = await Deno.readTextFile(`examples/${path}`);
      assertEquals(text.includes(code), true, path);
    }
  }
});

for (const name of ["service-worker", "vite-react", "vite-vue"]) {
  Deno.test(`examples/${name}/src/rep.d.ts has the types of its manifest`, async () => {
    const manifest = `examples/${name}/.rep.yaml`;
    const { stdout } = await runCommand(["typegen", "--manifest", manifest]);
    const types = await Deno.readTextFile(`examples/${name}/src/rep.d.ts`);
    assertEquals(types, stdout);
  });
}

Deno.test("README.md says on its first screen, of 40 lines, what a user decides by", async () => {
  const readme = await Deno.readTextFile("README.md");
  const [first = ""] = readme.split("## How it works");
  assert(first.trim().split("\n").length <= 40);
  for (const word of ["**For**", "**Cost", "**Limits**", "**Not tried**"]) {
    assertStringIncludes(first, word);
  }
  const counts = [/^!\[/gm, /^npx /gm].map((part) => first.match(part)?.length);
  assertEquals(counts, [1, 2]); // one picture, two commands
});

Deno.test("CONTRIBUTING.md names ten files of src/core/ to read first, which exist", async () => {
  const text = await Deno.readTextFile("CONTRIBUTING.md");
  const [, list = ""] = /first\*\*([^]*?)What is outside/.exec(text) ?? [];
  const files = [...list.matchAll(/`([\w/]+\.ts)`/g)].map(([, path]) => path);
  assertEquals(files.length, 10);
  for (const path of files) await Deno.stat(`src/core/${path}`);
});
