/**
 * The configuration gateway: hands a single-page app its configuration at run time, and tells it when that changes.
 *
 * As a command, `deno run --allow-net jsr:@rep/gateway --help` says what it takes; as a module, it is one function:
 *
 * @example
 * ```ts
 * import { createGateway } from "@rep/gateway";
 *
 * await using gateway = await createGateway({ variables: { REP_PUBLIC_THEME: "dark" }, hotReload: true });
 * const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, gateway.fetch);
 * await server.shutdown();
 * ```
 *
 * @module
 */
import config from "./deno.json" with { type: "json" };
import { systemClock, waitAtMost } from "./src/clock.ts";
import { readCommand } from "./src/cli/command.ts";
import { systemIo } from "./src/cli/commands/command_io.ts";
import { isVariableCommand } from "./src/cli/commands/command_line.ts";
import { helpText } from "./src/cli/help.ts";
import { listen } from "./src/cli/listen.ts";
import { UsageError } from "./src/cli/read_options.ts";
import { onSignals } from "./src/cli/signals.ts";
import { createCommandLog, resolveInstanceId, start } from "./src/cli/start.ts";
import { readTls } from "./src/cli/tls.ts";
import { runVariableCommand } from "./src/cli/commands/variable_commands.ts";

export { createGateway, type Gateway } from "./src/gateway.ts";
export type { GatewayOptions, Source } from "./src/gateway_options.ts";
export type { ConnectionInfo } from "./src/http/respond.ts";
export { ConfigurationError } from "./src/variables/snapshot.ts";
export type { Environment } from "./src/variables/classify.ts";
export type { Clock } from "./src/clock.ts";
export { createLog, type Log, type LogFields, type LogOptions } from "./src/log.ts";
export { kvStore } from "./src/store/kv.ts";
export { memoryStore } from "./src/store/memory.ts";
export { openStore, type OpenStoreOptions } from "./src/store/open.ts";
export {
  type Check,
  type Entry,
  type Key,
  type ListOptions,
  type Store,
  StoreUnavailableError,
  type Write,
} from "./src/store/store.ts";

/** The command, from its arguments to the last signal. */
async function main(): Promise<void> {
  if (isVariableCommand(Deno.args)) Deno.exit(await runVariableCommand(Deno.args, systemIo()));
  const command = await readCommand(Deno.args);
  if (command.kind === "help") return print(helpText());
  if (command.kind === "version") return print(config.version);

  const log = createCommandLog(command);
  const { gateway, reload, stop } = await start(command, { log, instanceId: resolveInstanceId(command) });
  const { hostname, port, "health-port": healthPort } = command.options;
  const tls = await readTls(command.options);
  const common = { hostname, clock: systemClock, log };
  const listeners = [listen({ ...common, serves: "gateway", port, tls, handler: gateway.fetch })];
  if (healthPort !== undefined) {
    listeners.push(listen({ ...common, serves: "health", port: healthPort, handler: gateway.fetchHealth }));
  }
  onSignals({
    log,
    reload,
    async stop() {
      await stop();
      await waitAtMost(SHUTDOWN_GRACE_MS, Promise.all(listeners.map((listener) => listener.shutdown())), systemClock);
    },
  });
}

/** For downloads that are under way at a stop: a client that does not read must not keep the process for ever. */
const SHUTDOWN_GRACE_MS = 5_000;

function print(text: string): void {
  // deno-lint-ignore no-console -- what was asked for goes to standard output
  console.log(text);
}

function fail(error: unknown): never {
  // deno-lint-ignore no-console -- there may be no log yet
  console.error(error instanceof Error ? error.message : error);
  Deno.exit(error instanceof UsageError ? 2 : 1);
}

if (import.meta.main) await main().catch(fail);
