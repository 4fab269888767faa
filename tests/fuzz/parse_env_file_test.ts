import { assert, assertEquals } from "@std/assert";
import * as fc from "fast-check";
import { parseEnvFile } from "../../src/files/read_environment.ts";
import { testProperty, textOf } from "./_property.ts";

/** Pieces that are special to the format or to text in general. */
const PIECES = [
  ...'a|B|9|_|.|-|=|==| |\t|\n|\r\n|\r|#| #|"|\'|`|\\|\\n|\\"|$A|${A}|export |REP_PUBLIC_|%|,|{|}|\0'
    .split("|"),
  ...["é", "😀", "\u2028", "\u00a0", "\uFEFF", "\x1b"],
];

const NAME = fc.tuple(
  fc.constantFrom("REP_PUBLIC_", "REP_SERVER_", "x", "_"),
  fc.array(fc.constantFrom("a", "B", "9", "_", ".", "-"), { maxLength: 6 }),
).map(([prefix, rest]) => prefix + rest.join(""));

/** Every character except NUL, which no environment can hold. */
const VALUE = textOf(PIECES, 12).map((text) => text.replaceAll("\0", ""));

/** A variable, and how its line is written. */
const LINE = fc.record({
  name: NAME,
  value: VALUE,
  before: fc.constantFrom("", "\n", "# A=1 'comment'\n", " \t\n"),
  indent: fc.constantFrom("", "export ", "  "),
  equals: fc.constantFrom("=", " = "),
  lineFeed: fc.constantFrom("\\n", "\n"), // a line break may also stand for itself
  after: fc.constantFrom("", "  ", " # comment"),
});
type Line = typeof LINE extends fc.Arbitrary<infer T> ? T : never;

const LINES = fc.uniqueArray(LINE, {
  maxLength: 6,
  selector: ({ name }) => name,
});
const NEWLINE = fc.constantFrom("\n", "\r\n");

/** Returns what a file assigns, wherever that is. */
function withoutLines({ variables, issues }: ReturnType<typeof parseEnvFile>) {
  return { variables, issues };
}

/** Writes variables with double quotes, as the README says how. */
function serialize(lines: readonly Line[], newline: string) {
  return lines.map(
    ({ name, value, before, indent, equals, lineFeed, after }) => {
      const escaped = value.replace(/[\\"]/g, "\\$&").replaceAll("\r", "\\r")
        .replaceAll("\n", lineFeed);
      return `${
        before.replace("\n", newline)
      }${indent}${name}${equals}"${escaped}"${after}${newline}`;
    },
  ).join("");
}

testProperty(
  "parseEnvFile() returns any variables that were written with double quotes",
  fc.tuple(LINES, NEWLINE),
  ([lines, newline]) => {
    const variables = new Map(lines.map(({ name, value }) => [name, value]));
    assertEquals(withoutLines(parseEnvFile(serialize(lines, newline))), {
      variables,
      issues: [],
    });
  },
);

testProperty(
  "parseEnvFile() returns what was written with single or back quotes as it is",
  fc.tuple(fc.dictionary(NAME, VALUE), fc.constantFrom("'", "`"), NEWLINE),
  ([values, quote, newline]) => {
    const variables = new Map(
      Object.entries(values).map((
        [name, value],
      ) => [name, value.replaceAll(quote, "").replaceAll("\r", "")]),
    );
    const lines = [...variables].map(([name, value]) =>
      `${name}=${quote}${value}${quote}${newline}`
    );
    assertEquals(withoutLines(parseEnvFile(lines.join(""))), {
      variables,
      issues: [],
    });
  },
);

testProperty(
  "parseEnvFile() reports an issue if a file is cut off within a quoted value",
  fc.tuple(LINES, NEWLINE, fc.nat(5)),
  ([lines, newline, length]) => {
    const text = `${serialize(lines, newline)}REP_LAST="`;
    assertEquals(
      parseEnvFile(text + "value".slice(0, length)).issues.length,
      1,
    );
  },
);

const GARBAGE = [
  "CANARY",
  "=CANARY",
  "9A=CANARY",
  "A: CANARY",
  "A B=CANARY",
  "?=CANARY",
];

testProperty(
  "parseEnvFile() rejects what has a line that is none of its kinds, wherever the line is",
  fc.tuple(
    fc.uniqueArray(NAME, { maxLength: 6 }),
    fc.nat(6),
    fc.constantFrom(...GARBAGE),
  ),
  ([names, place, garbage]) => {
    const lines = names.map((name) => `${name}=1`);
    const at = place % (lines.length + 1);
    lines.splice(at, 0, garbage);
    assertEquals(parseEnvFile(lines.join("\n")).issues, [
      {
        line: at + 1,
        detail: "expected NAME=value, a comment or a blank line",
      },
    ]);
  },
);

testProperty(
  "parseEnvFile() never throws, and names neither a value nor a line that does not exist",
  textOf([...PIECES, "CANARY", "\n", "\n", "A=", "'", '"']),
  (text) => {
    for (const { line = 0, detail } of parseEnvFile(text).issues) {
      assert(line >= 1 && line <= text.split("\n").length, `line ${line}`);
      assert(!detail.replace(/REP_[\w.-]*/, "").includes("CANARY"), detail); // names may be shown
    }
  },
);

Deno.test("parseEnvFile() parses a long text of any kind in linear time", () => {
  for (
    const piece of [
      ...PIECES,
      "export",
      "A=",
      "A='",
      'A="\\',
      "'\n",
      "A='1' ",
      "export A",
      "\\\\",
      "A=1\n",
      "?\n",
    ]
  ) {
    const started = performance.now();
    for (const prefix of ["", "A=", "A='", 'A="']) {
      parseEnvFile(prefix + piece.repeat(100_000));
    }
    assertEquals([piece, performance.now() - started < 60_000], [piece, true]);
  }
});
