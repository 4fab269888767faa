import { assertEquals, assertStringIncludes } from "@std/assert";
import { main, startsOnDeno } from "../../src/command/node_main.ts";
import { VERSION } from "../../src/version.ts";
import { ioOf } from "./commands/_run.ts";

async function run(line: string) {
  const [out, err]: [string[], string[]] = [[], []];
  return { code: await main(wordsOf(line), ioOf(out, err)), out, err };
}

function wordsOf(line: string): string[] {
  return line.split(" ").filter((word) => word !== "");
}

Deno.test("main() of Node.js prints the help and the version", async () => {
  const help = await run("--help");
  assertStringIncludes(
    help.out.join("\n"),
    "Usage: npx @rep/gateway [OPTION ...]",
  );
  assertEquals([help.code, help.err], [0, []]);
  for (const line of ["-h", "-- --help"]) {
    assertEquals([line, await run(line)], [line, help]);
  }
  const version = { code: 0, out: [VERSION], err: [] };
  assertEquals(await run("--version"), version);
});

Deno.test("startsOnDeno() tells what Deno has to run from what Node.js runs, or rejects", () => {
  const lines = {
    "": true,
    "--static-dir dist": true,
    "--port=80": true,
    "set A=1": true,
    "list --help": true,
    "history": true,
    "lint dist": false,
    "inject": false,
    "--help": false,
    "--version": false,
    "validat": false,
    "dev": false,
    "--statik-dir dist": false,
  };
  for (const [line, expected] of Object.entries(lines)) {
    assertEquals([line, startsOnDeno(wordsOf(line))], [line, expected]);
  }
});

Deno.test("main() of Node.js exits with 2 for what does not exist", async () => {
  const unknown =
    'Cannot use "validat": expected a command or options; did you mean validate?';
  assertEquals(await run("validat"), { code: 2, out: [], err: [unknown] });
  const folder =
    'Cannot use "docs": expected a command or options; did you mean --static-dir "docs"?';
  assertEquals(await run("docs"), { code: 2, out: [], err: [folder] });
});

Deno.test("main() of Node.js runs a command with its exit code", async () => {
  const missing = await run("lint /does/not/exist");
  assertEquals([missing.code, missing.err.length], [1, 1]);
  const message = "Cannot inject: expected DIR ...; see --help";
  assertEquals(await run("inject"), { code: 2, out: [], err: [message] });
});
