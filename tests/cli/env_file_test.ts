import { assertEquals, assertRejects } from "@std/assert";
import { parseEnvText, readEnvFile } from "../../src/cli/env_file.ts";
import { pickRepVariables } from "../../src/variables/environment.ts";
import { TempDirectory } from "../_temp.ts";

/** What a value is written as, and what is read. */
const VALUES: readonly (readonly [written: string, read: string])[] = [
  ["plain", "plain"],
  ["", ""],
  ["two words", "two words"],
  ["  round it  ", "round it"],
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
  ["#fff", ""], // as Node, Deno and dotenv read it
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

for (const [written, read] of VALUES) {
  Deno.test(`parseEnvText() reads ${JSON.stringify(written)} as ${JSON.stringify(read)}`, () => {
    assertEquals(parseEnvText(`REP_PUBLIC_A=${written}\nREP_PUBLIC_B=2\n`), { REP_PUBLIC_A: read, REP_PUBLIC_B: "2" });
  });
}

const TEXTS: Record<string, readonly [text: string, read: Record<string, string>]> = {
  "comments and empty lines": ["# REP_A=0\n\n  # more\nREP_A=1\n", { REP_A: "1" }],
  "lines that end as on Windows": ['REP_A=1\r\nREP_B="2"\r\n\r\nREP_C=3', { REP_A: "1", REP_B: "2", REP_C: "3" }],
  "a byte order mark": ["\uFEFFREP_A=1\nREP_B=2", { REP_A: "1", REP_B: "2" }],
  "export before the name": ["export REP_A=1\nexport REP_B='2'", { REP_A: "1", REP_B: "2" }],
  "white space round the name": ["  REP_A = 1\n\tREP_B= 2", { REP_A: "1", REP_B: "2" }],
  "a name twice, of which the last counts": ["REP_A=1\nREP_A=2", { REP_A: "2" }],
  "no end of the last line": ["REP_A=1\nREP_B=2", { REP_A: "1", REP_B: "2" }],
  "an open quote as a character": ['REP_A="1\nREP_B=2', { REP_A: '"1', REP_B: "2" }],
  "names that are not ours as nothing": ["PATH=/bin\nrep_a=1\nREPA=1\nREP_A=1", { REP_A: "1" }],
  "a line without an equals sign as nothing": ["REP_A\nREP_B=2\nREP_C: 3\n", { REP_B: "2" }],
  "an empty text as nothing": ["", {}],
};

for (const [what, [text, read]] of Object.entries(TEXTS)) {
  Deno.test(`parseEnvText() reads ${what}`, () => assertEquals(parseEnvText(text), read));
}

Deno.test("readEnvFile() reads a file", async () => {
  await using directory = await TempDirectory.make({ "app.env": "REP_PUBLIC_A=1\nOTHER=2\n" });
  assertEquals(await readEnvFile(directory.at("app.env")), { REP_PUBLIC_A: "1" });
});

Deno.test("readEnvFile() reads the ConfigMap that Kubernetes mounted, and the next one", async () => {
  await using directory = await TempDirectory.make();
  await directory.mount("2026_11_21", { REP_PUBLIC_A: "1", REP_SERVER_B: "2\n", "other.txt": "x" });
  assertEquals(await readEnvFile(directory.path), { REP_PUBLIC_A: "1", REP_SERVER_B: "2" });
  await directory.mount("2026_11_22", { REP_PUBLIC_A: "3", REP_SERVER_B: "4" });
  assertEquals(await readEnvFile(directory.path), { REP_PUBLIC_A: "3", REP_SERVER_B: "4" });
});

Deno.test("readEnvFile() takes one line end from the end of a file in a directory, and nothing else", async () => {
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

Deno.test("readEnvFile() leaves files alone that are not ours", async () => {
  await using directory = await TempDirectory.make({ ".REP_A": "1", ".env": "REP_B=1", "rep_c": "1", "REP_D": "1" });
  assertEquals(await readEnvFile(directory.path), { REP_D: "1" });
});

Deno.test("readEnvFile() reads an empty directory as nothing", async () => {
  await using directory = await TempDirectory.make();
  assertEquals(await readEnvFile(directory.path), {});
});

Deno.test("readEnvFile() fails for a path that is not there", async () => {
  await using directory = await TempDirectory.make();
  await assertRejects(() => readEnvFile(directory.at("app.env")), Deno.errors.NotFound);
});

Deno.test("readEnvFile() fails for a link in a directory that leads nowhere", async () => {
  await using directory = await TempDirectory.make();
  await Deno.symlink("nowhere", directory.at("REP_A"));
  await assertRejects(() => readEnvFile(directory.path), Deno.errors.NotFound);
});

Deno.test("pickRepVariables() keeps what begins with REP_", () => {
  assertEquals(pickRepVariables({ REP_PUBLIC_A: "1", REP_GATEWAY_PORT: "2", REP: "3", XREP_A: "4", PATH: "5" }), {
    REP_PUBLIC_A: "1",
    REP_GATEWAY_PORT: "2",
  });
});
