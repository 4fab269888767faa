import { assert, assertEquals } from "@std/assert";
import * as fc from "fast-check";
import {
  buildSnapshot,
  ConfigurationError,
} from "../../src/core/config/variables/snapshot.ts";
import { testProperty, textOf } from "./_property.ts";
import { snapshotInput } from "../_snapshot.ts";

/** Returns the issues of a variable V with this pattern and this value; undefined if there is none. */
async function issuesOf(
  pattern: string,
  value: string,
): Promise<readonly string[] | undefined> {
  const manifest = JSON.stringify({
    version: "0.1.0",
    variables: { V: { tier: "public", pattern } },
  });
  try {
    await buildSnapshot(
      snapshotInput({ environment: { REP_PUBLIC_V: value }, manifest }),
    );
    return undefined;
  } catch (error) {
    if (error instanceof ConfigurationError) return error.issues;
    throw error;
  }
}

const SYNTAX_PIECES = [
  ..."a|b|é|😀|^|$|.|*|+|?|(|)|[|]|{|}|{2}|{1,3}|{2,}|{,2}|{300}|\\|\\d|\\W|\\b|\\A|\\z|\\pL|\\p{Greek}|\\P{^Lu}|\\Q|\\E"
    .split("|"),
  ..."|,(?i),(?s:,(?m),(?U),(?-i:,(?P<n>,(?<n>,(?:,(?=,(?<!,[^,[:alpha:],[:^word:],-,\\x{1F600},\\x41,\\101,\\u0041,\n"
    .split(
      ",",
    ),
];

testProperty(
  "buildSnapshot() accepts or rejects any pattern with any value, and throws nothing else",
  fc.tuple(
    textOf(SYNTAX_PIECES, 12),
    textOf(["a", "b", "é", "😀", "1", "\n"], 12),
  ),
  async ([pattern, value]) => {
    for (const issue of await issuesOf(pattern, value) ?? []) {
      assert(/^Cannot (use|publish) /.test(issue) && issue.length < 400, issue);
    }
  },
);

const LEAVES = [
  "a",
  "b",
  "é",
  "😀",
  ".",
  "[ab]",
  "[^a]",
  "[a-é]",
  "\\d",
  "\\w",
  "\\S",
  "\\.",
];

/** Only leaves are repeated without a limit: JavaScript would take too long for the other patterns. */
const { pattern: COMMON_PATTERN } = fc.letrec<
  { pattern: string; sequence: string; item: string }
>((tie) => ({
  pattern: fc.array(tie("sequence"), { minLength: 1, maxLength: 3 }).map((
    all,
  ) => all.join("|")),
  sequence: fc.array(tie("item"), { maxLength: 3 }).map((all) => all.join("")),
  item: fc.oneof(
    { maxDepth: 2 },
    suffixed(fc.constantFrom(...LEAVES), [
      "",
      "*",
      "+",
      "?",
      "*?",
      "{2}",
      "{1,3}",
    ]),
    suffixed(tie("pattern").map((inner) => `(?:${inner})`), ["", "?", "{2}"]),
    suffixed(tie("pattern").map((inner) => `(${inner})`), ["", "??"]),
  ),
}));

function suffixed(
  texts: fc.Arbitrary<string>,
  suffixes: readonly string[],
) {
  return fc.tuple(texts, fc.constantFrom(...suffixes)).map((both) =>
    both.join("")
  );
}

testProperty(
  "a pattern of the syntax that Go and JavaScript have in common matches the same values in both",
  fc.tuple(
    COMMON_PATTERN,
    fc.array(fc.constantFrom(..."abéB1.😀\n"), { maxLength: 6 }).map((all) =>
      all.join("")
    ),
  ),
  async ([pattern, value]) => {
    const isMatch = new RegExp(`^(?:${pattern})$`, "u").test(value);
    assertEquals(
      await issuesOf(pattern, value) === undefined,
      isMatch,
      `${pattern} and ${value}`,
    );
  },
);
