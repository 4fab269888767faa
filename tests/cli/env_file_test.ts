import { assertEquals, assertRejects } from "@std/assert";
import { parseEnvText, readEnvFile } from "../../src/cli/env_file.ts";
import { pickRepVariables } from "../../src/variables/environment.ts";
import { TempDirectory } from "../_temp.ts";

/** Values as written in the file, and as parsed. */
const VALUES: readonly (readonly [written: string, parsed: string])[] = [
  ["plain", "plain"],
  ["", ""],
  ["two words", "two words"],
  ["  spaces  ", "spaces"],
  ['"in double quotes"', "in double quotes"],
  ["'in single quotes'", "in single quotes"],
  ["`in backticks`", "in backticks"],
  ['""', ""],
  ["''", ""],
  ['"  kept  "', "  kept  "],
  ["it's", "it's"],
  ['a"b', 'a"b'],
  [`'say "hi"'`, 'say "hi"'],
  ['{"a":1}', '{"a":1}'],
  ["a=b=c==", "a=b=c=="],
  ["https://api.example.com/?a=1&b=2", "https://api.example.com/?a=1&b=2"],
  ["value # comment", "value"],
  ['"value" # comment', "value"],
  ["#fff", ""], // as Node, Deno and dotenv parse it
  ["a#b", "a"],
  ['"#fff"', "#fff"],
  ["'https://app.example.com/#/home'", "https://app.example.com/#/home"],
  ['"line\nline"', "line\nline"],
  ["'line\nline'", "line\nline"],
  ['"line\\nline"', "line\nline"],
  ["'line\\nline'", "line\\nline"],
  ["$HOME and ${HOME}", "$HOME and ${HOME}"],
  ["ünïcödé 😀", "ünïcödé 😀"],
];

for (const [written, parsed] of VALUES) {
  Deno.test(`parseEnvText() parses ${JSON.stringify(written)} as ${JSON.stringify(parsed)}`, () => {
    assertEquals(parseEnvText(`REP_PUBLIC_A=${written}\nREP_PUBLIC_B=2\n`), {
      REP_PUBLIC_A: parsed,
      REP_PUBLIC_B: "2",
    });
  });
}

const TEXTS: Record<string, readonly [text: string, parsed: Record<string, string>]> = {
  "comments and blank lines": ["# REP_A=0\n\n  # more\nREP_A=1\n", { REP_A: "1" }],
  "CRLF line endings": ['REP_A=1\r\nREP_B="2"\r\n\r\nREP_C=3', { REP_A: "1", REP_B: "2", REP_C: "3" }],
  "a byte order mark": ["\uFEFFREP_A=1\nREP_B=2", { REP_A: "1", REP_B: "2" }],
  "export before the name": ["export REP_A=1\nexport REP_B='2'", { REP_A: "1", REP_B: "2" }],
  "whitespace around the name": ["  REP_A = 1\n\tREP_B= 2", { REP_A: "1", REP_B: "2" }],
  "a repeated name with its last value": ["REP_A=1\nREP_A=2", { REP_A: "2" }],
  "a last line without a newline": ["REP_A=1\nREP_B=2", { REP_A: "1", REP_B: "2" }],
  "an unclosed quote as a character": ['REP_A="1\nREP_B=2', { REP_A: '"1', REP_B: "2" }],
  "no names without the prefix": ["PATH=/bin\nrep_a=1\nREPA=1\nREP_A=1", { REP_A: "1" }],
  "no lines without an equals sign": ["REP_A\nREP_B=2\nREP_C: 3\n", { REP_B: "2" }],
  "an empty text": ["", {}],
};

for (const [what, [text, parsed]] of Object.entries(TEXTS)) {
  Deno.test(`parseEnvText() parses ${what}`, () => assertEquals(parseEnvText(text), parsed));
}

Deno.test("readEnvFile() reads a file", async () => {
  await using directory = await TempDirectory.make({ "app.env": "REP_PUBLIC_A=1\nOTHER=2\n" });
  assertEquals(await readEnvFile(directory.at("app.env")), { REP_PUBLIC_A: "1" });
});

Deno.test("readEnvFile() reads a mounted ConfigMap, and its next version", async () => {
  await using directory = await TempDirectory.make();
  await directory.mount("2026_11_21", { REP_PUBLIC_A: "1", REP_SERVER_B: "2\n", "other.txt": "x" });
  assertEquals(await readEnvFile(directory.path), { REP_PUBLIC_A: "1", REP_SERVER_B: "2" });
  await directory.mount("2026_11_22", { REP_PUBLIC_A: "3", REP_SERVER_B: "4" });
  assertEquals(await readEnvFile(directory.path), { REP_PUBLIC_A: "3", REP_SERVER_B: "4" });
});

Deno.test("readEnvFile() removes exactly one newline from the end of each file in a directory", async () => {
  await using directory = await TempDirectory.make({
    REP_A: "1\n",
    REP_B: "1\r\n",
    REP_C: "1\n\n",
    REP_D: " 1 ",
    REP_E: "",
    REP_F: '"1" # all of it\na=b',
  });
  assertEquals(await readEnvFile(directory.path), {
    REP_A: "1",
    REP_B: "1",
    REP_C: "1\n",
    REP_D: " 1 ",
    REP_E: "",
    REP_F: '"1" # all of it\na=b',
  });
});

Deno.test("readEnvFile() ignores files without the prefix", async () => {
  await using directory = await TempDirectory.make({ ".REP_A": "1", ".env": "REP_B=1", "rep_c": "1", "REP_D": "1" });
  assertEquals(await readEnvFile(directory.path), { REP_D: "1" });
});

Deno.test("readEnvFile() returns no variables for an empty directory", async () => {
  await using directory = await TempDirectory.make();
  assertEquals(await readEnvFile(directory.path), {});
});

Deno.test("readEnvFile() fails for a path that does not exist", async () => {
  await using directory = await TempDirectory.make();
  await assertRejects(() => readEnvFile(directory.at("app.env")), Deno.errors.NotFound);
});

Deno.test("readEnvFile() fails for a dangling symlink in a directory", async () => {
  await using directory = await TempDirectory.make();
  await Deno.symlink("nowhere", directory.at("REP_A"));
  await assertRejects(() => readEnvFile(directory.path), Deno.errors.NotFound);
});

Deno.test("pickRepVariables() keeps the variables with the prefix REP_", () => {
  assertEquals(pickRepVariables({ REP_PUBLIC_A: "1", REP_GATEWAY_PORT: "2", REP: "3", XREP_A: "4", PATH: "5" }), {
    REP_PUBLIC_A: "1",
    REP_GATEWAY_PORT: "2",
  });
});
