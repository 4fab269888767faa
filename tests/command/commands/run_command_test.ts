import { assertEquals, assertStringIncludes } from "@std/assert";
import { commandIn } from "../../../src/command/commands/command_table.ts";
import { run } from "./_run.ts";

Deno.test("commandIn() recognizes commands only", () => {
  const lines = ["set A=1", "unset", "list --json", "-- list", "lint d"];
  assertEquals(
    lines.map((line) => commandIn(line.split(" "))),
    ["set", "unset", "list", "list", "lint"],
  );
  const others = [
    "",
    "--kv list",
    "lists",
    "LIST",
    "watch", // removed: history and /rep/changes show writes
    "toString",
    "--",
    "-- -- list",
  ];
  for (const line of others) {
    assertEquals([line, commandIn(line.split(" "))], [line, undefined]);
  }
});

/** Invalid command lines and their error messages. */
const INVALID: Record<string, string> = {
  "set": "Cannot set: expected KEY=VALUE ...; see --help",
  "unset": "Cannot unset: expected KEY ...; see --help",
  "set A": 'Cannot set "A": expected KEY=VALUE',
  "set A=1 REP_PUBLIC_A=2": "Cannot set A twice: expected one value",
  "list A": 'Cannot use "A" with list: expected options only; see --help',
  "list --jsno":
    "Cannot use --jsno: there is no such option; did you mean --json?",
  "set A=1 -f": "Cannot use -f: there is no such option; see --help",
  "set A=1 --port x":
    'Cannot read --port: expected an integer from 0 to 65535, got "x"',
  "set A=1 --app a/b":
    'Cannot read --app: expected a host, or 1 to 253 letters, digits, . _ and -, of which the first is a letter or a digit, got "a/b"',
  "unset A --force": "Cannot use --force: there is no such option; see --help",
  "list -m x": "Cannot use -m: there is no such option; see --help",
  "set A=1 B=2 --if-id 0":
    "Cannot set with --if-id: expected one variable, got 2",
  "set A=1 --if-id":
    'Cannot read --if-id: expected an integer from 0 to 9007199254740991, got ""',
  "set A=1 --if-id=9007199254740992":
    'Cannot read --if-id: expected an integer from 0 to 9007199254740991, got "9007199254740992"',
  "history --limit 1001":
    'Cannot read --limit: expected an integer from 1 to 1000, got "1001"',
  "list --kv a --kv b": "Cannot use --kv twice: expected one value",
  "list --kv=": 'Cannot read --kv: expected a non-empty value, got ""',
};

Deno.test("runCommand() exits with 2 for an invalid command line, without opening the store", async () => {
  for (const [line, message] of Object.entries(INVALID)) {
    const outcome = { code: 2, out: [], err: [message] };
    assertEquals([line, await run(line.split(" "))], [line, outcome]);
  }
});

Deno.test("runCommand() prints no message that a terminal interprets, and keeps its lines", async () => {
  const name = "a\x1b[2Jb";
  const lines = [
    ["validate", "--sites", name],
    ["validate", "--env-file", name],
    ["typegen", "--manifest", name],
    ["lint", name],
    ["set", "A=1", "--manifest", name],
  ];
  for (const line of lines) {
    const { code, err } = await run(line);
    const text = err.join("\n");
    assertEquals([line, code, text.includes("\x1b")], [line, 1, false]);
    assertStringIncludes(text, '"a\\u001b[2Jb"');
  }
  const { err } = await run(["history", "--limit", "0", "--kv="]);
  assertEquals(err.join().split("\n").length, 2);
});

Deno.test("--help prints the usage and the flags of a command", async () => {
  const help = await run(["set", "--help"]);
  assertEquals([help.code, help.err], [0, []]);
  const usage = "jsr:@rep/gateway set KEY=VALUE ... [OPTION ...]";
  assertEquals(
    help.out.includes(`Usage: deno run -A --unstable-kv ${usage}`),
    true,
  );
  const flags = help.out.map((line) => /^ {2}(-.*?)(?: {2}|$)/.exec(line)?.[1]);
  assertEquals(flags.filter((flag) => flag !== undefined), [
    "--kv PATH|URL",
    "--app NAME",
    "--site HOST",
    "--port N",
    "--manifest FILE",
    "--json",
    "--if-id ID",
    "--by NAME",
    "--why TEXT",
    "--new-app",
    "--force",
    "-h, --help",
  ]);
  assertEquals(await run(["set", "-h"]), help);
});
