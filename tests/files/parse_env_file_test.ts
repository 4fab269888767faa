import { assertEquals } from "@std/assert";
import {
  type EnvFileIssue,
  parseEnvFile,
} from "../../src/files/read_environment.ts";

function variablesIn(text: string): Record<string, string> {
  const { variables, issues } = parseEnvFile(text);
  assertEquals(issues, []);
  return Object.fromEntries(variables);
}

/** Values as written in the file, and as parsed. */
const VALUES: readonly (readonly [written: string, parsed: string])[] = [
  ["plain", "plain"],
  ["", ""],
  ["two words", "two words"],
  ["  spaces\t", "spaces"],
  ['"in double quotes"', "in double quotes"],
  ["'in single quotes'", "in single quotes"],
  ["`in backticks`", "in backticks"],
  [' \t"after whitespace"  ', "after whitespace"],
  ['\u00a0"after a no-break space"\u00a0# comment', "after a no-break space"],
  ['""', ""],
  ["''", ""],
  ["``", ""],
  ['"  kept  "', "  kept  "],
  ["it's", "it's"],
  ['a"b', 'a"b'],
  [`'say "hi"'`, 'say "hi"'],
  ["'`'", "`"],
  ['{"a":1}', '{"a":1}'],
  ["a=b=c==", "a=b=c=="],
  ["https://api.example.com/?a=1&b=2", "https://api.example.com/?a=1&b=2"],
  ["value # comment", "value"],
  ["value\t# comment", "value"],
  ['"value" # comment', "value"],
  ["'value'\t#comment 'with' quotes", "value"],
  ["#ff0000", "#ff0000"],
  ["a#b", "a#b"],
  ["https://x/#/route", "https://x/#/route"],
  ["https://x/#/route # the start page", "https://x/#/route"],
  [" # only a comment", ""],
  ['"#fff"', "#fff"],
  ['"a # b"', "a # b"],
  ["'https://app.example.com/#/home'", "https://app.example.com/#/home"],
  ['"line\nline"', "line\nline"],
  ["'line\nline'", "line\nline"],
  ["`line\r\nline`", "line\nline"],
  ['"\n# no comment\nREP_PUBLIC_C=3\n"', "\n# no comment\nREP_PUBLIC_C=3\n"],
  ['"line\\nline"', "line\nline"],
  ["'line\\nline'", "line\\nline"],
  ["line\\nline", "line\\nline"],
  ['"\\r\\t\\"\\\\"', '\r\t"\\'],
  ['"\\d+ C:\\Users \\$A \\\'"', "\\d+ C:\\Users \\$A \\'"],
  ['"\\\\n"', "\\n"],
  ["'\\'", "\\"],
  ["$HOME and ${HOME}", "$HOME and ${HOME}"],
  ['"$HOME"', "$HOME"],
  ["ünïcödé 😀", "ünïcödé 😀"],
];

for (const [written, parsed] of VALUES) {
  Deno.test(`parseEnvFile() parses ${JSON.stringify(written)} as ${JSON.stringify(parsed)}`, () => {
    assertEquals(variablesIn(`REP_PUBLIC_A=${written}\nREP_PUBLIC_B=2\n`), {
      REP_PUBLIC_A: parsed,
      REP_PUBLIC_B: "2",
    });
  });
}

const TEXTS: Record<
  string,
  readonly [text: string, parsed: Record<string, string>]
> = {
  "comments and blank lines": ["# A=0\n\n  # more\n \t \nA=1\n#", { A: "1" }],
  "CRLF line endings": ['A=1\r\nB="2"\r\n\r\n# no\r\nC=3\r\n', {
    A: "1",
    B: "2",
    C: "3",
  }],
  "export before the name": ["export A=1\n export\tB='2'\nexport=3", {
    A: "1",
    B: "2",
    export: "3",
  }],
  "whitespace around the name": ["  A = 1\n\tB= 2", { A: "1", B: "2" }],
  "letters, digits, _, . and - in a name": ["_a.B-9=1", { "_a.B-9": "1" }],
  "names of Object.prototype": ["__proto__=1\nconstructor=2", {
    ["__proto__"]: "1",
    constructor: "2",
  }],
  "a last line without a newline": ["A=1\nB=2", { A: "1", B: "2" }],
  "a last line with a quote and no newline": ["A='1'", { A: "1" }],
  "an empty text": ["", {}],
};
for (const [what, [text, parsed]] of Object.entries(TEXTS)) {
  Deno.test(`parseEnvFile() parses ${what}`, () =>
    assertEquals(variablesIn(text), parsed));
}

const EXPECTED = "expected NAME=value, a comment or a blank line";
const VALUE =
  "expected a value that ends with its line, or with a closing quote and nothing but a comment after it";

/** Every text contains a canary that no message may contain. */
const INVALID: Record<
  string,
  readonly [text: string, ...issues: EnvFileIssue[]]
> = {
  "a line without an equals sign": ["A=1\nCANARY\nB=2", {
    line: 2,
    detail: EXPECTED,
  }],
  "a colon instead of an equals sign": ["A: CANARY", {
    line: 1,
    detail: EXPECTED,
  }],
  "a line without a name": ["=CANARY", { line: 1, detail: EXPECTED }],
  "a name that begins with a digit": ["1CANARY=1", {
    line: 1,
    detail: EXPECTED,
  }],
  "a name with a space": ["A CANARY=1", { line: 1, detail: EXPECTED }],
  "a URL, which contains an equals sign": ["\n\nhttps://CANARY/?a=b", {
    line: 3,
    detail: EXPECTED,
  }],
  "export without an assignment": ["export CANARY", {
    line: 1,
    detail: EXPECTED,
  }],
  "an unclosed double quote": ['A=1\nB="CANARY\nC=3\n', {
    line: 2,
    detail: VALUE,
  }],
  "an unclosed single quote": ["A='CANARY", {
    line: 1,
    detail: VALUE,
  }],
  "an unclosed backtick": ["A=`CANARY", {
    line: 1,
    detail: VALUE,
  }],
  "an escaped closing quote": ['A="CANARY\\"\n', {
    line: 1,
    detail: VALUE,
  }],
  "text after a closing quote": ['A="1"CANARY', { line: 1, detail: VALUE }],
  "text after whitespace after a closing quote": ["A='1' CANARY", {
    line: 1,
    detail: VALUE,
  }],
  "a # right after a closing quote": ["A='1'#CANARY", {
    line: 1,
    detail: VALUE,
  }],
  "a quote that another line closes": ['\nA="CANARY\nB=2\nC="3"\nD=4', {
    line: 2,
    detail: VALUE,
  }],
  "a name that is assigned twice": ["REP_A=1\n\nREP_A=CANARY", {
    line: 3,
    detail: "expected each name once, but this one is already on line 1",
  }],
  "a name that is assigned twice, even with the same value": [
    "REP_A=CANARY\nexport REP_A='CANARY'",
    {
      line: 2,
      detail: "expected each name once, but this one is already on line 1",
    },
  ],
  "a name that may be part of a secret": ["CANARY==\nCANARY==", {
    line: 2,
    detail: "expected each name once, but this one is already on line 1",
  }],
  "a line after a value with blank lines": ["A='\n\n\n'\nCANARY", {
    line: 5,
    detail: EXPECTED,
  }],
  "a CR as line ending": ["A=1\rB=CANARY\r", { line: 1, detail: VALUE }],
  "a CR in a comment": ["# one\rA=CANARY\nB=2", { line: 1, detail: EXPECTED }],
  "a CR after a quote": ["A='1'\rB=CANARY", { line: 1, detail: VALUE }],
  "each of several lines, also after an invalid value": [
    "CANARY\nA='1' CANARY\nB=2\n CANARY\nC='CANARY\nD=4\nCANARY\n",
    { line: 1, detail: EXPECTED },
    { line: 2, detail: VALUE },
    { line: 4, detail: EXPECTED },
    { line: 5, detail: VALUE },
    { line: 7, detail: EXPECTED },
  ],
  "a value over several lines with text after it once": [
    "A='CANARY\nCANARY\n' CANARY\nCANARY",
    { line: 1, detail: VALUE },
    { line: 4, detail: EXPECTED },
  ],
};

for (const [what, [text, ...issues]] of Object.entries(INVALID)) {
  Deno.test(`parseEnvFile() rejects ${what}`, () => {
    const found = parseEnvFile(text).issues;
    assertEquals(found, issues);
    assertEquals(JSON.stringify(found).includes("CANARY"), false);
  });
}

Deno.test("parseEnvFile() reports the first 20 issues", () => {
  assertEquals(
    parseEnvFile("?\n".repeat(1_000)).issues.map(({ line }) => line),
    Array.from({ length: 20 }, (_, i) => i + 1),
  );
});
