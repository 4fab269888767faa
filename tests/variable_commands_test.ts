import { TempDirectory } from "./_temp.ts";
import { checkVariableCommands } from "./_variable_commands.ts";

// The engines with a server have the same test in _multi_gateway.ts; in memory, no command would see what another has
// written.
Deno.test("on a SQLite file: set, unset, list, history and watch work", async () => {
  await using directory = await TempDirectory.make();
  await checkVariableCommands({ kv: directory.at("kv.sqlite3"), env: {} });
});
