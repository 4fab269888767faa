import type { GatewayOptions } from "../../options.ts";
import type { StartOptions } from "./option_table.ts";

/** All options of the gateway, so that a new option causes a type error until it is set here. */
type EveryOption = {
  readonly [Name in keyof Required<GatewayOptions>]: GatewayOptions[Name];
};

/** What every gateway of a process gets from it. */
export type ProcessServices =
  & Required<Pick<GatewayOptions, "store" | "log" | "clock">>
  & Pick<EveryOption, "instanceId" | "masterKey" | "telemetry">;

/** The options of the gateway that are no options of the command. */
type OtherOptions =
  & Required<Pick<GatewayOptions, "variables" | "neverServed">>
  & Pick<EveryOption, "manifest">
  & { readonly services: ProcessServices };

/** Converts the options of the command to options of the gateway. */
export function toGatewayOptions(
  options: StartOptions,
  { variables, manifest, neverServed, services }: OtherOptions,
) {
  return {
    variables,
    manifest,
    neverServed,
    instanceId: services.instanceId,
    masterKey: services.masterKey,
    store: services.store,
    log: services.log,
    telemetry: services.telemetry,
    clock: services.clock,
    manifestPath: undefined, // the parsed manifest contains it
    loadPatternLibrary: undefined,
    random: Math.random,
    staticDir: options["static-dir"],
    upstream: options.upstream,
    basePath: options["base-path"],
    preserveHost: options["preserve-host"],
    staticCacheBytes: options["static-cache"],
    fallback: options.fallback,
    immutable: options.immutable,
    upstreamTimeoutMs: options["upstream-timeout"],
    maxTransfers: options["max-transfers"],
    rejectWebsockets: options["reject-websockets"],
    startWithoutStore: options["start-without-store"],
    app: options.app,
    revision: options.revision,
    strict: options.strict,
    acceptPublic: options["accept-public"],
    hotReload: options["hot-reload"],
    ofrep: options.ofrep,
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
  } satisfies EveryOption;
}

/** Returns the options in effect as text. The code for that is loaded only for the status page. */
export async function shownOptions(
  options: StartOptions,
): Promise<Record<string, string>> {
  const { formatOptions } = await import("./help.ts");
  return formatOptions(options);
}
