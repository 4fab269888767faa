import { assertEquals, assertMatch } from "@std/assert";
import { commandArgs, runCommand, runDeno, startCommand } from "./_command.ts";
import { Client, has } from "./_stream_client.ts";
import { TempDirectory } from "./_temp.ts";
import { checkVariableCommands } from "./_variable_commands.ts";
import { within } from "./_time.ts";

// The engines with a server have the same test in _multi_gateway.ts; in memory, no command would see what another has
// written.
Deno.test("on a SQLite file: set, unset, list and history work", async () => {
  await using directory = await TempDirectory.make();
  await checkVariableCommands({ kv: directory.at("kv.sqlite3"), env: {} });
});

Deno.test("on a SQLite file: a gateway whose env file is broken takes what is set, and set says so", async () => {
  await using directory = await TempDirectory.make({
    "app.env": "REP_PUBLIC_A=1\n",
  });
  const kv = ["--kv", directory.at("kv.sqlite3")];
  const flags = ["--hot-reload", "--env-file", directory.at("app.env"), ...kv];
  await using gateway = await within(startCommand(flags));
  await using client = await Client.open(gateway);
  await directory.write("app.env", "REP_PUBLIC_A=1\nBANNER\n");
  const { code, stderr } = await runCommand(["set", "A=banner", ...kv]);
  assertEquals([code, stderr], [0, "Taken by 1 gateway\n"]);
  await client.until(has("banner"));
  await gateway.logged(({ msg }) => msg === "rep.config.rejected");
});

Deno.test("on a SQLite file: history names user@host as far as that is permitted, and set does not prompt", async () => {
  await using directory = await TempDirectory.make();
  const kv = ["--kv", directory.at("kv.sqlite3")];
  const env = { USER: "alice", REP_GATEWAY_BY: "" };
  const files = ["--allow-read", "--allow-write"];
  const permissions = [["-A"], [...files, "--allow-env"], [
    ...files,
    "--allow-sys",
  ]];
  for (const granted of permissions) {
    const args = commandArgs(["set", "A=1", ...kv], granted);
    assertEquals((await runDeno(args, env)).code, 0);
  }
  const { stdout } = await runCommand(["history", "--json", ...kv]);
  const writes: { by?: string }[] = JSON.parse(stdout);
  const host = Deno.hostname();
  assertEquals(
    writes.map(({ by }) => by),
    [undefined, undefined, `alice@${host}`],
  );
});

Deno.test("on a SQLite file: history names uid@host where no variable has the user's name, as in containers", async () => {
  await using directory = await TempDirectory.make();
  const kv = ["--kv", directory.at("kv.sqlite3")];
  const env = { USER: "", LOGNAME: "", USERNAME: "", REP_GATEWAY_BY: "" };
  assertEquals((await runCommand(["set", "A=1", ...kv], env)).code, 0);
  const { stdout } = await runCommand(["history", "--json", ...kv]);
  const [write]: { by?: string }[] = JSON.parse(stdout);
  assertEquals(write?.by, `${Deno.uid()}@${Deno.hostname()}`);
});

Deno.test("set on a server that is unreachable says so", async () => {
  const kv = "http://127.0.0.1:1";
  const { code, stdout, stderr } = await runCommand(
    ["set", "A=1", "--kv", kv],
    { DENO_KV_ACCESS_TOKEN: "token" },
  );
  assertEquals([code, stdout], [1, ""]);
  assertMatch(
    stderr,
    /^Cannot use the store: Cannot open the store "http:\/\/127\.0\.0\.1:1\/?": [^]*; some of it may have been written: repeat it once the store is available\n$/,
  );
});
