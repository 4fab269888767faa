/**
 * The configuration gateway: hands a single-page app its configuration at run time, and tells it when that changes.
 *
 * As a command, `deno run --allow-net jsr:@rep/gateway --help` lists the options; as a module, it is one function:
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
import { isCommand } from "./src/cli/commands/command_names.ts";
import { readCommand } from "./src/cli/options/command.ts";
import { loadKvToken } from "./src/cli/sources/secret_files.ts";
import { exitWithError, exitWithStartError } from "./src/cli/start/exit_with_error.ts";
import { checkStart, openCommandLog, openTelemetryIfEnabled, Service } from "./src/cli/start/service.ts";
import { onSignals } from "./src/cli/start/signals.ts";
import { systemClock } from "./src/values/clock.ts";

export { type CloseOptions, createGateway, type Gateway } from "./src/gateway.ts";
export type { GatewayOptions, Source } from "./src/gateway_options.ts";
export {
  type NodeHandler,
  type NodeHandlerGateway,
  type NodeNext,
  type NodeRequest,
  type NodeResponse,
  toNodeHandler,
} from "./src/http/node_handler.ts";
export type { ConnectionInfo } from "./src/http/respond.ts";
export { ConfigurationError } from "./src/config/snapshot.ts";
export type { Environment } from "./src/config/classify.ts";
export type { PatternLibrary } from "./src/config/patterns.ts";
export type { Clock } from "./src/values/clock.ts";
export { openTelemetry } from "./src/observe/open_telemetry.ts";
export type { GaugeValue, MetricsSink, Telemetry } from "./src/observe/metrics.ts";
export { createLog, type Log, type LogFields, type LogOptions } from "./src/observe/log.ts";
export { kvStore, type KvStoreOptions } from "./src/store/kv.ts";
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

/** Runs the gateway from its arguments to the last signal. */
async function main(): Promise<void> {
  const command = await readCommand(Deno.args);
  if (command.kind === "help") return print((await import("./src/cli/options/help.ts")).helpText());
  if (command.kind === "version") return print(config.version);

  await loadKvToken();
  await checkStart(command.options);
  const log = openCommandLog(command);
  const service = new Service(command, { log, telemetry: await openTelemetryIfEnabled(log), clock: systemClock });
  await service.bind();
  onSignals({ log, reload: () => service.reload(), stop: () => service.stop() });
  await service.start();
}

async function runCommandAlone(): Promise<number> {
  await loadKvToken();
  const { runCommand } = await import("./src/cli/commands/run_command.ts");
  const { systemIo } = await import("./src/cli/commands/command_io.ts");
  return await runCommand(Deno.args, systemIo());
}

function print(text: string): void {
  // deno-lint-ignore no-console -- what was asked for goes to standard output
  console.log(text);
}

if (import.meta.main) {
  if (isCommand(Deno.args)) Deno.exit(await runCommandAlone().catch(exitWithError));
  await main().catch(exitWithStartError);
}
