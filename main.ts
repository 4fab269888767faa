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
import { systemClock } from "./src/clock.ts";
import { readCommand } from "./src/command.ts";
import { systemIo } from "./src/commands/command_io.ts";
import { isVariableCommand } from "./src/commands/command_line.ts";
import { createGateway } from "./src/gateway.ts";
import { contentOf } from "./src/delivery/mode.ts";
import { helpText } from "./src/help.ts";
import { listen } from "./src/listen.ts";
import { createLog } from "./src/log.ts";
import { UsageError } from "./src/settings.ts";
import { onSignals, surviveErrors } from "./src/signals.ts";
import { openStore } from "./src/store/open.ts";
import { readTls } from "./src/tls.ts";
import { triggerReloads } from "./src/triggers.ts";
import { runVariableCommand } from "./src/variable_commands.ts";
import { sourcesOf } from "./src/variables/sources.ts";

export { createGateway, type Gateway } from "./src/gateway.ts";
export type { GatewayOptions, Source } from "./src/gateway_options.ts";
export type { ConnectionInfo } from "./src/respond.ts";
export { ConfigurationError } from "./src/variables/snapshot.ts";
export type { Environment } from "./src/variables/classify.ts";
export type { Clock } from "./src/clock.ts";
export { createLog, type Log, type LogFields, type LogOptions } from "./src/log.ts";
export { kvStore } from "./src/store/kv.ts";
export { memoryStore } from "./src/store/memory.ts";
export { openStore } from "./src/store/open.ts";
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

  const { settings, masterKey, remarks } = command;
  const log = createLog({ format: settings["log-format"], level: settings["log-level"] });
  for (const detail of remarks) log.warn("rep.start.remark", { detail });
  surviveErrors(log);

  const store = await openStore(settings.kv, log);
  const gateway = await createGateway({
    ...sourcesOf(settings),
    ...contentOf(settings),
    upstreamTimeoutMs: settings["upstream-timeout"],
    strict: settings.strict,
    hotReload: settings["hot-reload"],
    allowedOrigins: settings["allowed-origins"],
    trustedProxies: settings["trusted-proxies"],
    sessionKeyTtlMs: settings["session-key-ttl"],
    sessionKeyMaxRate: settings["session-key-max-rate"],
    keyRotationMs: settings["key-rotation"],
    keyRetentionMs: settings["key-retention"],
    maxStreams: settings["max-streams"],
    maxStreamAgeMs: settings["max-stream-age"],
    separateHealth: settings["health-port"] !== undefined,
    masterKey,
    store,
    log,
  });

  const { hostname, port, "health-port": healthPort } = settings;
  const tls = await readTls(settings);
  const common = { hostname, clock: systemClock, log };
  const listeners = [listen({ ...common, serves: "gateway", port, tls, handler: gateway.fetch })];
  if (healthPort !== undefined) {
    listeners.push(listen({ ...common, serves: "health", port: healthPort, handler: gateway.fetchHealth }));
  }

  const reload = () => void gateway.reload().catch(() => {}); // the log has said what was wrong
  const stopTriggers = triggerReloads(settings, reload, { clock: systemClock, log });
  onSignals({
    log,
    reload,
    async stop() {
      stopTriggers();
      await gateway.close({ drainMs: settings.drain });
      await Promise.all(listeners.map((listener) => listener.shutdown()));
      store.close();
    },
  });
}

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
