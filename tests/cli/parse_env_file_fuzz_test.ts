import { assertEquals } from "@std/assert";
import { parseEnvFile } from "../../src/cli/parse_env_file.ts";
import { seededRandom } from "../../tools/seeded_random.ts";

const CASES = 2_000;

/** Pieces that are special to the format or to text in general. */
const PIECES = [
  ...[
    "a",
    "B",
    "9",
    "_",
    ".",
    "-",
    "=",
    "==",
    " ",
    "\t",
    "\n",
    "\r\n",
    "\r",
    "#",
    " #",
    '"',
    "'",
    "`",
    "\\",
    "\\n",
    '\\"',
  ],
  ...[
    "$A",
    "${A}",
    "export ",
    "REP_PUBLIC_",
    "é",
    "😀",
    "\u2028",
    "\u00a0",
    "\uFEFF",
    "\x1b",
    "%",
    ",",
    "{",
    "}",
    "\0",
  ],
];

/** A generator whose cases are the same in every run. */
class Generator {
  readonly #random: () => number;

  constructor(seed: number) {
    this.#random = seededRandom(seed);
  }

  integer(max: number): number {
    return Math.floor(this.#random() * max);
  }

  oneOf<T>(items: readonly T[]): T {
    return items[this.integer(items.length)] as T;
  }

  text(pieces: readonly string[], maxPieces: number): string {
    return Array.from({ length: this.integer(maxPieces + 1) }, () => this.oneOf(pieces)).join("");
  }

  name(): string {
    return this.oneOf(["REP_PUBLIC_", "REP_SERVER_", "x", "_"]) + this.text(["a", "B", "9", "_", ".", "-"], 6);
  }

  /** Variables whose values contain every character except NUL, which no environment can hold. */
  variables(): Map<string, string> {
    const pieces = PIECES.filter((piece) => piece !== "\0");
    return new Map(Array.from({ length: this.integer(6) }, () => [this.name(), this.text(pieces, 12)]));
  }
}

/** Writes variables with double quotes, as the README says how. */
function serialize(variables: ReadonlyMap<string, string>, generator: Generator): string {
  const newline = generator.oneOf(["\n", "\r\n"]);
  const lines = [...variables].flatMap(([name, value]) => [
    ...generator.oneOf([[], [""], ["# A=1 'comment'"], [" \t"]]),
    `${generator.oneOf(["", "export ", "  "])}${name}${generator.oneOf(["=", " = "])}"${escape(value, generator)}"` +
    generator.oneOf(["", "  ", " # comment"]),
  ]);
  return lines.map((line) => line + newline).join("");
}

function escape(value: string, generator: Generator): string {
  const lineFeed = generator.oneOf(["\\n", "\n"]); // a line break may also stand for itself
  return value.replace(/[\\"]/g, "\\$&").replaceAll("\r", "\\r").replaceAll("\n", lineFeed);
}

/** Runs a property with many seeds, and names the first one that fails. */
function forAll(check: (generator: Generator) => void): void {
  for (let seed = 1; seed <= CASES; seed++) {
    try {
      check(new Generator(seed));
    } catch (cause) {
      throw new Error(`The property does not hold for seed ${seed}`, { cause });
    }
  }
}

Deno.test("parseEnvFile() returns any variables that were written with double quotes", () => {
  forAll((generator) => {
    const variables = generator.variables();
    assertEquals(parseEnvFile(serialize(variables, generator)), { variables, issues: [] });
  });
});

Deno.test("parseEnvFile() returns all variables or an issue if a file is cut off within a quoted value", () => {
  forAll((generator) => {
    const variables = new Map([...generator.variables(), ["REP_LAST", "value"]]);
    const text = serialize(variables, generator);
    const cut = text.slice(0, text.lastIndexOf("value") + generator.integer(6));
    assertEquals(parseEnvFile(cut).issues.length, 1);
  });
});

Deno.test("parseEnvFile() rejects what has a line that is none of its kinds, wherever the line is", () => {
  forAll((generator) => {
    const lines = [...generator.variables().keys()].map((name) => `${name}=1`);
    const at = generator.integer(lines.length + 1);
    lines.splice(at, 0, generator.oneOf(["CANARY", "=CANARY", "9A=CANARY", "A: CANARY", "A B=CANARY", "?=CANARY"]));
    assertEquals(parseEnvFile(lines.join("\n")).issues, [
      { line: at + 1, detail: "expected NAME=value, a comment or a blank line" },
    ]);
  });
});

Deno.test("parseEnvFile() never throws, and names neither a value nor a line that does not exist", () => {
  forAll((generator) => {
    const text = generator.text([...PIECES, "CANARY", "\n", "\n", "A=", "'", '"'], 40);
    for (const { line = 0, detail } of parseEnvFile(text).issues) {
      assertEquals([line >= 1 && line <= text.split("\n").length, detail.includes("CANARY")], [true, false]);
    }
  });
});

Deno.test("parseEnvFile() parses a long text of any kind in linear time", () => {
  for (
    const piece of [...PIECES, "export", "A=", "A='", 'A="\\', "'\n", "A='1' ", "export A", "\\\\", "A=1\n", "?\n"]
  ) {
    const started = performance.now();
    for (const prefix of ["", "A=", "A='", 'A="']) parseEnvFile(prefix + piece.repeat(100_000));
    assertEquals([piece, performance.now() - started < 2_000], [piece, true]);
  }
});
