import { createSources, type SourcesContext } from "../sources/sources.ts";
import type { CommandOptions } from "./option_table.ts";

/**
 * Converts the options of the command to options of the gateway.
 *
 * @param context The clock times the second read of an env file.
 */
export function toGatewayOptions(
  options: CommandOptions,
  context: SourcesContext,
) {
  return {
    ...createSources(options, context),
    staticDir: options["static-dir"],
    upstream: options.upstream,
    basePath: options["base-path"],
    preserveHost: options["preserve-host"],
    staticCacheBytes: options["static-cache"],
    immutable: options.immutable,
    upstreamTimeoutMs: options["upstream-timeout"],
    maxTransfers: options["max-transfers"],
    rejectWebsockets: options["reject-websockets"],
    app: options.app,
    strict: options.strict,
    hotReload: options["hot-reload"],
    allowedOrigins: options["allowed-origins"],
    allowedHosts: options["allowed-hosts"],
    trustedProxies: options["trusted-proxies"],
    sessionKeyTtlMs: options["session-key-ttl"],
    sessionKeyMaxRate: options["session-key-max-rate"],
    keyRotationMs: options["key-rotation"],
    keyRetentionMs: options["key-retention"],
    maxStreams: options["max-streams"],
    maxStreamsPerClient: options["max-streams-per-client"],
    maxStreamAgeMs: options["max-stream-age"],
    accessLog: options["access-log"],
    separateHealth: options["health-port"] !== undefined,
  };
}
