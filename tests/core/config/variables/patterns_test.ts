import { assertEquals, assertRejects } from "@std/assert";
import {
  loadPatternLibrary,
  type PatternLibrary,
} from "../../../../src/core/config/variables/apply_manifest.ts";
import {
  buildSnapshot,
  ConfigurationError,
} from "../../../../src/core/config/variables/snapshot.ts";
import { snapshotInput, type TestSnapshotInput } from "../../../_snapshot.ts";

/** Returns the issues of a variable V of this tier with this pattern and this value. */
async function issuesOf(
  { pattern, value, tier = "public", ...input }:
    & { pattern: string; value?: string; tier?: string }
    & Partial<TestSnapshotInput>,
): Promise<readonly string[]> {
  const manifest = JSON.stringify({
    version: "0.1.0",
    variables: { V: { tier, pattern } },
  });
  const environment: Record<string, string> = value === undefined
    ? {}
    : { [`REP_${tier.toUpperCase()}_V`]: value };
  try {
    await buildSnapshot(snapshotInput({ environment, manifest, ...input }));
    return [];
  } catch (error) {
    if (error instanceof ConfigurationError) return error.issues;
    throw error;
  }
}

/** Patterns with values that match, and values that do not: where the syntax of Go differs from that of JavaScript. */
const PATTERNS: readonly (readonly [
  pattern: string,
  yes: readonly string[],
  no: readonly string[],
])[] = [
  ["(?i)abc", ["abc", "ABC"], ["abd"]],
  ["a(?i)b|c", ["aB", "C"], ["A", "AB"]],
  ["a.b", ["axb"], ["a\nb"]],
  ["\\Aabc\\z", ["abc"], ["Aabcz", "abcz"]],
  ["[[:^alpha:]]", ["1", "é", "\u{1f600}"], ["a"]],
  ["(?P<year>\\d{4})", ["2026"], ["26"]],
  ["\\Qa.b[c\\E+", ["a.b[c", "a.b[cc"], ["axb[c"]],
  ["\\pL\\p{Greek}\\p{^Lu}\\PN", ["aαaa"], ["1αaa", "aaaa", "aαAa", "aαa1"]],
  ["[\\w\\-]+", ["a-b"], ["a.b"]],
  ["^UA-\\d+-\\d+$", ["UA-1-2"], ["UA-1"]],
  ["(a+)+", ["a".repeat(40)], [`${"a".repeat(40)}b`]], // takes years with backtracking
  ["a|ab", ["a", "ab"], ["abb"]],
];

for (const [pattern, yes, no] of PATTERNS) {
  Deno.test(`buildSnapshot() matches whole values with ${JSON.stringify(pattern)} as Go does`, async () => {
    const rejections = await Promise.all(
      [...yes, ...no].map((value) => issuesOf({ pattern, value })),
    );
    assertEquals(
      [...yes, ...no].filter((_, index) => rejections[index]?.length === 0),
      [...yes],
    );
  });
}

/** Patterns that Go does not accept either, and what is wrong with them. */
const INVALID: Record<string, string> = {
  "(": "missing closing )",
  "a**": "invalid nested repetition operator",
  "x{1001}": "invalid repeat count",
  "\\": "trailing backslash at end of expression",
  "(?=a)\\w": "invalid or unsupported Perl syntax",
  "\\u0041": "invalid escape sequence",
};

for (const [pattern, reason] of Object.entries(INVALID)) {
  Deno.test(`buildSnapshot() says why ${JSON.stringify(pattern)} is no pattern, also of a variable that is not set`, async () => {
    const expected = "expected a regular expression in the syntax of Go";
    const issue =
      `Cannot use the manifest: variables.V.pattern: ${expected}, got ${
        JSON.stringify(pattern)
      }: ${reason}`;
    assertEquals(await issuesOf({ pattern }), [issue]);
    assertEquals(await issuesOf({ pattern, value: "a" }), [issue]);
  });
}

Deno.test("buildSnapshot() does not show an invalid pattern of a SENSITIVE variable", async () => {
  assertEquals(await issuesOf({ pattern: "s3cret(", tier: "sensitive" }), [
    "Cannot use the manifest: variables.V.pattern: expected a regular expression in the syntax of Go, " +
    "got a string: missing closing )",
  ]);
});

const SLOW = ".*[ab].{900}[ab].*";

Deno.test("buildSnapshot() rejects a value that is too long for its pattern by the name of the variable", async () => {
  const limit = "expected at most 22026 characters for";
  const advice = "or smaller counts in its braces";
  const value = "ab".repeat(11_014);
  assertEquals(await issuesOf({ pattern: SLOW, value }), [
    `Cannot use REP_PUBLIC_V: ${limit} ${SLOW}, ${advice}, got "${
      "ab".repeat(29)
    }a…`,
  ]);
  assertEquals(await issuesOf({ pattern: SLOW, value, tier: "server" }), [
    `Cannot use REP_SERVER_V: ${limit} the pattern in the manifest, ${advice}, got a value that is not shown`,
  ]);
});

Deno.test("buildSnapshot() evaluates the slowest patterns that it accepts in about a second", async () => {
  const library = await loadPatternLibrary();
  for (
    const [pattern, unit] of [[SLOW, "ab"], [
      "(?:[^x]\\w)*?(?:[\\pL\\pN]{0,30})*?",
      "é",
    ]] as const
  ) {
    const size = library.RE2JS.compile(pattern).programSize();
    const value = unit.repeat(Math.floor(20_000_000 / size / unit.length));
    const started = performance.now();
    assertEquals(await issuesOf({ pattern, value, tier: "server" }), []);
    assertEquals(performance.now() - started < 60_000, true); // the machine may be slow and busy
  }
});

Deno.test("buildSnapshot() loads the library only if the manifest has patterns, and from where it is told to", async () => {
  let loads = 0;
  const loadPatternLibrary = (): Promise<PatternLibrary> => {
    loads++;
    return Promise.resolve({
      RE2JS: {
        compile: () => ({
          programSize: () => 1,
          matcher: (value) => ({ matches: () => value === "handed in" }),
        }),
      },
    });
  };
  const manifest = JSON.stringify({
    version: "0.1.0",
    variables: { A: { tier: "public" } },
  });
  await buildSnapshot(snapshotInput({ loadPatternLibrary }));
  await buildSnapshot(snapshotInput({ manifest, loadPatternLibrary }));
  assertEquals(loads, 0);
  assertEquals(
    await issuesOf({ pattern: "x", value: "handed in", loadPatternLibrary }),
    [],
  );
  assertEquals(loads, 1);
});

Deno.test("buildSnapshot() reports once that the library cannot be loaded, and what to do", async () => {
  const specifier =
    'data:text/javascript,throw%20new%20Error("first%5Cnsecond")';
  const variables = {
    A: { tier: "public", pattern: "a" },
    B: { tier: "public", pattern: "b" },
  };
  const input = snapshotInput({
    environment: { REP_PUBLIC_A: "x" },
    manifest: JSON.stringify({ version: "0.1.0", variables }),
    loadPatternLibrary: () => loadPatternLibrary(specifier),
  });
  const { issues } = await assertRejects(
    () => buildSnapshot(input),
    ConfigurationError,
  );
  assertEquals(issues, [
    `Cannot load ${specifier} for the patterns of the manifest: first second; ` +
    `run \`deno cache ${specifier}\` where npm can be reached, or remove the patterns`,
  ]);
});

/** Returns the issues of variables with these patterns, all with the same value, and how many patterns were compiled. */
async function issuesOfAll(patterns: readonly string[], value: string) {
  const { RE2JS } = await loadPatternLibrary();
  let compiled = 0;
  const compile = (pattern: string) => {
    compiled++;
    return RE2JS.compile(pattern);
  };
  const named = patterns.map((pattern, index) => [`V${index}`, pattern]);
  const variables = named.map(([name, pattern]) => [
    name,
    { tier: "server", pattern },
  ]);
  const manifest = JSON.stringify({
    version: "0.1.0",
    variables: Object.fromEntries(variables),
  });
  const environment = Object.fromEntries(
    named.map(([name]) => [`REP_SERVER_${name}`, value]),
  );
  const load = () => Promise.resolve({ RE2JS: { compile } });
  const input = snapshotInput({ environment, manifest });
  const building = buildSnapshot({
    ...input,
    loadPatternLibrary: load,
  });
  const issues = await building.then(() => [], (error) => error.issues);
  return { issues, compiled };
}

Deno.test("buildSnapshot() compiles no more patterns of a manifest than it can in a moment", async () => {
  const { issues, compiled } = await issuesOfAll(
    new Array(900).fill(SLOW),
    "ab",
  );
  assertEquals(issues[0], TOO_MANY("V110"));
  assertEquals(compiled, 111);
});

Deno.test("buildSnapshot() does not compile a pattern that is very long", async () => {
  const { issues, compiled } = await issuesOfAll(
    [".{1000}".repeat(700)],
    "ab",
  );
  assertEquals(issues, [TOO_MANY("V0")]);
  assertEquals(compiled, 0);
});

const TOO_MANY = (name: string) =>
  `Cannot use the manifest: variables.${name}.pattern: expected patterns of at most 4000 characters and, compiled, at ` +
  "most 100000 instructions together; use fewer patterns, or smaller counts in their braces";

Deno.test("buildSnapshot() matches all values of a manifest in no more steps than a single one may take", async () => {
  const value = "ab".repeat(5_000); // of a pattern with 908 instructions, 20,000,000 steps are 22,026 characters
  const { issues } = await issuesOfAll([SLOW, SLOW, SLOW], value);
  assertEquals(issues, [
    "Cannot use REP_SERVER_V2: expected at most 2026 characters for the pattern in the manifest, or smaller counts in " +
    "its braces, got a value that is not shown",
  ]);
});
