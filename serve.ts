/**
 * The gateway for `deno serve`, on all cores: `deno serve --parallel -A --unstable-kv jsr:@rep/gateway/serve`. Options come
 * from `REP_GATEWAY_…` or from behind the module's name; where to listen is Deno's to say (`--host`, `--port`).
 *
 * It is a module of its own because one cannot tell from inside whether `deno run` or `deno serve` runs it: `main.ts` would
 * listen twice.
 *
 * @module
 */
import { readCommand } from "./src/cli/command.ts";
import type { ConnectionInfo } from "./src/http/respond.ts";
import { UsageError } from "./src/cli/read_options.ts";
import { onSignals } from "./src/cli/signals.ts";
import { createCommandLog, type ServeCommand, start } from "./src/cli/start.ts";

const command = await commandForServe();
const log = createCommandLog(command);
const starting = start(command, { log });
// Before it has started: a thread that does not hear of the end goes on for ever, and the process with it.
onSignals({
  log,
  reload: () => void starting.then(({ reload }) => reload(), () => {}), // whoever awaits the start is told
  stop: async () => await (await starting).stop(),
  exits: false,
});
const { gateway } = await starting;

/** The command; what listens on ports of its own cannot do so in every thread. */
async function commandForServe(): Promise<ServeCommand> {
  const command = await readCommand(Deno.args);
  if (command.kind !== "serve") {
    throw new UsageError(`Cannot use --${command.kind} with deno serve: expected deno run main.ts`);
  }
  if (command.options["health-port"] !== undefined) {
    throw new UsageError("Cannot use --health-port with deno serve: each of its threads would want the port");
  }
  return command;
}

/** What `deno serve` looks for. */
const server: { fetch(request: Request, info: ConnectionInfo): Promise<Response> } = { fetch: gateway.fetch };
export default server;
