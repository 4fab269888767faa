/** The commands as a process of their own, whether or not `main.ts` runs them. */
import { systemIo } from "../src/commands/command_io.ts";
import { runVariableCommand } from "../src/variable_commands.ts";

if (import.meta.main) Deno.exit(await runVariableCommand(Deno.args, systemIo()));
