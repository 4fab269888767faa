import type { AllOptions } from "../../gateway_options.ts";
import { createSources, type SourceOptions, type SourcesContext } from "../sources/sources.ts";
import { type ContentSelection, resolveContent } from "../start/resolve_content.ts";
import type { CommandOptions } from "./option_table.ts";

/** The options of the command that configure the process and not the gateway. */
type ProcessOption =
  | "port"
  | "hostname"
  | "poll-interval"
  | "kv"
  | "drain"
  | "stop-delay"
  | "tls-cert"
  | "tls-key"
  | "log-format"
  | "log-level";

/** The options of the gateway that do not come from an option of the command, but from `start()` or a default. */
type NotFromCommand =
  | "masterKey"
  | "instanceId"
  | "failure"
  | "store"
  | "log"
  | "telemetry"
  | "loadPatternLibrary"
  | "clock"
  | "random";

/** All other options of the gateway. None may be missing. */
type FromCommand = Omit<AllOptions, NotFromCommand>;

/**
 * Converts the options of the command to options of the gateway. A new option of either does not compile until it is
 * used here, or listed above.
 *
 * @param context The clock times the second read of an env file.
 * @throws {UsageError} If `--static-dir` and `--upstream` are in conflict.
 */
export function toGatewayOptions(options: Omit<CommandOptions, ProcessOption>, context: SourcesContext): FromCommand {
  const {
    "base-path": basePath,
    "preserve-host": preserveHost,
    "static-cache": staticCacheBytes,
    "upstream-timeout": upstreamTimeoutMs,
    "max-transfers": maxTransfers,
    "reject-websockets": rejectWebsockets,
    strict,
    "hot-reload": hotReload,
    "allowed-origins": allowedOrigins,
    "allowed-hosts": allowedHosts,
    "trusted-proxies": trustedProxies,
    "session-key-ttl": sessionKeyTtlMs,
    "session-key-max-rate": sessionKeyMaxRate,
    "key-rotation": keyRotationMs,
    "key-retention": keyRetentionMs,
    "max-streams": maxStreams,
    "max-streams-per-client": maxStreamsPerClient,
    "max-stream-age": maxStreamAgeMs,
    "health-port": healthPort,
    "access-log": accessLog,
    ...others
  }: Omit<typeof options, keyof SourceOptions | keyof ContentSelection> = options;
  others satisfies Record<string, never>;
  return {
    ...createSources(options, context),
    ...resolveContent(options),
    basePath,
    preserveHost,
    staticCacheBytes,
    upstreamTimeoutMs,
    maxTransfers,
    rejectWebsockets,
    strict,
    hotReload,
    allowedOrigins,
    allowedHosts,
    trustedProxies,
    sessionKeyTtlMs,
    sessionKeyMaxRate,
    keyRotationMs,
    keyRetentionMs,
    maxStreams,
    maxStreamsPerClient,
    maxStreamAgeMs,
    accessLog,
    separateHealth: healthPort !== undefined,
  };
}
