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
import { atMost, systemClock } from "./src/clock.ts";
import { readCommand } from "./src/command.ts";
import { systemIo } from "./src/commands/command_io.ts";
import { isVariableCommand } from "./src/commands/command_line.ts";
import { helpText } from "./src/help.ts";
import { listen } from "./src/listen.ts";
import { UsageError } from "./src/settings.ts";
import { onSignals } from "./src/signals.ts";
import { instanceOf, logOf, start } from "./src/start.ts";
import { readTls } from "./src/tls.ts";
import { runVariableCommand } from "./src/variable_commands.ts";

export { createGateway, type Gateway } from "./src/gateway.ts";
export type { GatewayOptions, Source } from "./src/gateway_options.ts";
export type { ConnectionInfo } from "./src/respond.ts";
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

  const log = logOf(command);
  const { gateway, reload, stop } = await start(command, { log, instance: instanceOf(command) });
  const { hostname, port, "health-port": healthPort } = command.settings;
  const tls = await readTls(command.settings);
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
      await atMost(PATIENCE_MS, Promise.all(listeners.map((listener) => listener.shutdown())), systemClock);
    },
  });
}

/** For downloads that are under way at a stop: a client that does not read must not keep the process for ever. */
const PATIENCE_MS = 5_000;

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
