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
export type {
  PublicVariables,
  SensitiveVariables,
  ServerVariables,
} from "@rep/gateway/client";
export { createGateway } from "./src/gateway.ts";
export type {
  CloseOptions,
  Gateway,
  PrivateVariables,
} from "./src/gateway_interface.ts";
export type { ReloadOptions } from "./src/core/config/configuration.ts";
export type { GatewayOptions, Source } from "./src/options.ts";
export {
  type NodeHandler,
  type NodeHandlerGateway,
  type NodeHandlerOptions,
  type NodeNext,
  type NodeRequest,
  type NodeResponse,
  type NodeServer,
  toNodeHandler,
} from "./src/adapters/node_handler.ts";
export type { PeerAddress } from "./src/core/http/client_address.ts";
export type { ConnectionInfo } from "./src/core/http/respond.ts";
export { ConfigurationError } from "./src/core/config/variables/snapshot.ts";
export type { Environment } from "./src/core/config/variables/tiers.ts";
export type { ParsedManifest } from "./src/core/config/variables/manifest.ts";
export type { PatternLibrary } from "./src/core/config/variables/apply_manifest.ts";
export type { ValueListener } from "./src/core/config/configuration.ts";
export type { Clock } from "./src/core/values/clock.ts";
export { OptionError } from "./src/core/values/option_error.ts";
export { openTelemetry } from "./src/addons/telemetry/open_telemetry.ts";
export type { MetricsSink, ObservedValue } from "./src/core/observe/metrics.ts";
export type {
  ClientSpan,
  ClientSpanStart,
  SpanIds,
  Telemetry,
} from "./src/core/observe/telemetry.ts";
export {
  createLog,
  type Log,
  type LogFields,
  type LogLevel,
  type LogOptions,
} from "./src/core/observe/log.ts";
export {
  type KvDatabase,
  type KvEntry,
  type KvOperation,
  kvStore,
  type KvStoreOptions,
} from "./src/engines/kv.ts";
export { memoryStore } from "./src/engines/memory.ts";
export { openStore, type OpenStoreOptions } from "./src/engines/open.ts";
export {
  type Check,
  type Entry,
  type Key,
  type ListOptions,
  type Store,
  StoreUnavailableError,
  type Write,
} from "./src/core/store/store.ts";

// Loaded only for the command, and not awaited: whoever imports the module loads nothing of it.
if (import.meta.main) {
  void import("./src/command/main.ts").then(({ main }) => main(Deno.args));
}
