import { systemClock } from "../clock.ts";
import type { Command } from "./command.ts";
import { resolveContent } from "./mode.ts";
import { createGateway, type Gateway } from "../gateway.ts";
import { createLog, type Log } from "../log.ts";
import type { Settings } from "./option_table.ts";
import { logUncaughtErrors } from "./signals.ts";
import { openStore } from "../store/open.ts";
import { triggerReloads } from "./triggers.ts";
import { isGranted } from "../permissions.ts";
import { createSources } from "./sources.ts";

/** A gateway that was started from a command's settings, and knows no port yet. */
export interface Started {
  readonly gateway: Gateway;
  /** Reads the variables again; the log says what was wrong, if anything was. */
  readonly reload: () => void;
  /** Ends the streams over the drain, and then everything else. */
  readonly stop: () => Promise<void>;
}

/** What is to be started. */
export type ServeCommand = Extract<Command, { kind: "serve" }>;

/** What {@linkcode start} needs beside the settings. */
export interface StartOptions {
  log: Log;
  /** What only one process at a time is called. */
  instanceId?: string | undefined;
}

/**
 * Starts a gateway: its store, and what notices changes.
 *
 * @throws {ConfigurationError} If there is anything wrong with the variables.
 */
export async function start(
  { settings, masterKey, remarks }: ServeCommand,
  { log, instanceId }: StartOptions,
): Promise<Started> {
  for (const detail of remarks) log.warn("rep.start.remark", { detail });
  logUncaughtErrors(log);
  const store = await openStore(settings.kv, log);
  const gateway = await createGateway({ ...gatewayOptions(settings), masterKey, instanceId, store, log });
  const reload = () => void gateway.reload().catch(() => {}); // the log has said what was wrong
  const stopTriggers = triggerReloads(settings, reload, { clock: systemClock, log });
  async function stop(): Promise<void> {
    stopTriggers();
    await gateway.close({ drainMs: settings.drain });
    store.close();
  }
  return { gateway, reload, stop };
}

/** A host's name and a port: no two processes have both. Nothing if the name may not be asked for, or the port is any. */
export function resolveInstanceId({ settings: { hostname, port } }: ServeCommand): string | undefined {
  if (port === 0 || !isGranted({ name: "sys", kind: "hostname" })) return undefined;
  return `${Deno.hostname()} ${hostname}:${port}`;
}

/** The log that the settings ask for. */
export function createCommandLog({ settings }: ServeCommand): Log {
  return createLog({ format: settings["log-format"], level: settings["log-level"] });
}

function gatewayOptions(settings: Settings) {
  return {
    ...createSources(settings),
    ...resolveContent(settings),
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
  };
}
