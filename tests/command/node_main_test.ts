import { assertEquals } from "@std/assert";
import { main } from "../../src/command/node_main.ts";
import { VERSION } from "../../src/core/values/version.ts";
import { ioOf } from "./commands/_run.ts";

async function run(line: string) {
  const [out, err]: [string[], string[]] = [[], []];
  const args = line.split(" ").filter((word) => word !== "");
  return { code: await main(args, ioOf(out, err)), out, err };
}

const DENO = "npx -y deno run -A --unstable-kv jsr:@rep/gateway";
const START = `start it with ${DENO}, an image or a binary`;

Deno.test("main() of Node.js prints which commands there are, and how the gateway is started", async () => {
  const help = await run("");
  const names = help.out.map((line) => /^ {2}(\w+) /.exec(line)?.[1]);
  const commands = ["init", "validate", "typegen", "lint", "inject"];
  assertEquals(names.filter((name) => name !== undefined), commands);
  assertEquals(help.out.join(" ").includes(START), true);
  assertEquals([help.code, help.err], [0, []]);
  for (const line of ["--help", "-h", "-- --help"]) {
    assertEquals([line, await run(line)], [line, help]);
  }
  const version = { code: 0, out: [VERSION], err: [] };
  assertEquals(await run("--version"), version);
});

Deno.test("main() of Node.js exits with 2 for what needs Deno, and for what does not exist", async () => {
  const needsDeno = {
    "serve": "serve",
    "--static-dir dist": "serve",
    "--port=80": "serve",
    "set A=1": "set",
    "list --help": "list",
    "history": "history",
  };
  for (const [line, action] of Object.entries(needsDeno)) {
    const instead = action === "serve" ? START : `run ${DENO} ${action}`;
    const message =
      `Cannot ${action} on Node.js, since that needs Deno: ${instead}`;
    const outcome = { code: 2, out: [], err: [message] };
    assertEquals([line, await run(line)], [line, outcome]);
  }
  const unknown =
    'Cannot run "validat": there is no such command; did you mean validate?';
  assertEquals(await run("validat"), { code: 2, out: [], err: [unknown] });
});

Deno.test("main() of Node.js runs a command with its exit code", async () => {
  const missing = await run("lint /does/not/exist");
  assertEquals([missing.code, missing.err.length], [1, 1]);
  const message = "Cannot inject: expected DIR ...; see --help";
  assertEquals(await run("inject"), { code: 2, out: [], err: [message] });
});
