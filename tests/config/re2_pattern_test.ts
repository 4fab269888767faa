import { assertEquals } from "@std/assert";
import { translateRe2 } from "../../src/config/re2_pattern.ts";

/** Returns whether a translated pattern matches a whole value. */
function matches(pattern: string, value: string): boolean {
  const translation = translateRe2(pattern);
  if ("unsupported" in translation) throw new Error(`${pattern} is not supported: ${translation.unsupported}`);
  return new RegExp(`^(?:${translation.source})$`, "u").test(value);
}

/** Patterns with values that match, and values that do not. */
const PATTERNS: readonly (readonly [pattern: string, yes: readonly string[], no: readonly string[]])[] = [
  ["(?i)abc", ["abc", "ABC"], ["abd"]],
  ["a(?i)b", ["ab", "aB"], ["Ab"]],
  ["a(?i)b|c", ["aB", "C"], ["A", "AB"]],
  ["(a(?i)b|c)d", ["aBd", "Cd"], ["aBD", "abD"]],
  ["(?i)a(?-i)b|c", ["Ab", "c"], ["AB", "C"]],
  ["(?i:a)b", ["Ab"], ["AB"]],
  ["(?is)a.b", ["A\nB"], ["ab"]],
  ["a.b", ["axb"], ["a\nb"]],
  ["(?U)a+", ["aaa"], [""]],
  ["(?U:a+)b", ["aab"], ["b"]],
  ["(?i-U)a", ["A"], ["b"]],
  ["(?m)^a$\n^b$", ["a\nb"], ["ab"]],
  ["\\Aabc\\z", ["abc"], ["Aabcz", "abcz"]],
  ["(?m)\\Aa\\z", ["a"], ["a\na"]],
  ["[[:alpha:]]+", ["abcXYZ"], ["ab1", "[:alph]", "é"]],
  ["[[:^alpha:]]", ["1", "é", "\u{1f600}"], ["a"]],
  ["[x[:digit:]-]+", ["x-19"], ["a", "["]],
  ["[[:space:][:punct:]]+", [" !~\t"], ["a"]],
  ["[[:word:]]+", ["azAZ09_"], ["-", "é"]],
  ["[[:xdigit:]]+", ["09afAF"], ["g", "G"]],
  ["[^[:word:]]", ["-"], ["_", "a", "A", "0"]],
  ["(?P<year>\\d{4})", ["2026"], ["26"]],
  ["\\Qa.b[c\\E+", ["a.b[c", "a.b[cc"], ["axb[c"]],
  ["\\Qa|b", ["a|b"], ["a"]],
  ["\\A+a\\z?", ["a"], ["b"]],
  ["\\x{1F600}\\x41", ["\u{1f600}A"], ["A"]],
  ["\\pL\\p{Greek}\\p{^Lu}\\PN", ["aαaa"], ["1αaa", "aaaa", "aαAa", "aαa1"]],
  ["[\\p{Lu}\\pN]+", ["A1"], ["a"]],
  ["\\101\\012\\a", ["A\n\x07"], ["101"]],
  ["[]a]+", ["]a"], ["b"]],
  ["[^]a]", ["b"], ["]", "a"]],
  ['\\-\\_\\"\\ \\@\\<', ['-_" @<'], ["\\-"]],
  ["[\\w\\-]+", ["a-b"], ["a.b"]],
  ["[a\\]-]", ["]", "-"], ["b"]],
  ["a{2}b{1,}c{,2}]}", ["aabc{,2}]}"], ["aabcc"]],
  ["[(|)]", ["(", "|", ")"], ["a"]],
  // constructs that only JavaScript has
  ["(?=a)\\w(?<!b)", ["a"], ["b"]],
  ["(?<x>a)\\k<x>\\1", ["aaa"], ["aa"]],
  ["\\u0041\\u{42}\\cA", ["AB\x01"], ["AB"]],
  ["^UA-\\d+-\\d+$", ["UA-1-2"], ["UA-1"]],
];

for (const [pattern, yes, no] of PATTERNS) {
  Deno.test(`translateRe2() translates ${JSON.stringify(pattern)}`, () => {
    assertEquals([...yes, ...no].filter((value) => matches(pattern, value)), [...yes]);
  });
}

Deno.test("translateRe2() leaves a pattern as it is that means the same in both", () => {
  const pattern = "^(?:https?|wss?)://[\\w.-]+(?::\\d{1,5})?(/[^?#]*)*$";
  assertEquals(translateRe2(pattern), { source: pattern });
});

for (
  const [pattern, unsupported] of [
    ["a\\Z", "\\Z"],
    ["\\C", "\\C"],
    ["[\\A]", "\\A"],
    ["[\\Qa\\E]", "\\Q"],
    ["[[:letter:]]", "[:letter:]"],
    [
      "\\p{Nonsense}",
      "\\p{Nonsense}",
    ],
    ["\\y", "\\y"],
    ["(?i)\\G", "\\G"],
  ] as const
) {
  Deno.test(`translateRe2() names ${unsupported} in ${pattern}, which it cannot translate`, () => {
    assertEquals(translateRe2(pattern), { unsupported });
  });
}

for (const pattern of ["(", ")", "a)|(b", "[a", "a**", "(?i", "(?P<n", "\\", "x{2,1}", "(?i)a)"]) {
  Deno.test(`translateRe2() leaves ${pattern} invalid`, () => {
    const translation = translateRe2(pattern);
    const source = "source" in translation ? translation.source : "";
    let isInvalid = false;
    try {
      new RegExp(source, "u");
    } catch {
      isInvalid = true;
    }
    assertEquals(isInvalid, true, source);
  });
}
