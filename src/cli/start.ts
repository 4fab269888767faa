import { systemClock } from "../clock.ts";
import type { Command } from "./command.ts";
import { createGateway, type Gateway } from "../gateway.ts";
import { createLog, type Log } from "../log.ts";
import { logUncaughtErrors } from "./signals.ts";
import { openStore } from "../store/open.ts";
import { startTriggers } from "./triggers.ts";
import { isGranted } from "../permissions.ts";
import { toGatewayOptions } from "./to_gateway_options.ts";

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
  { options, masterKey, warnings }: ServeCommand,
  { log, instanceId }: StartOptions,
): Promise<Started> {
  for (const detail of warnings) log.warn("rep.start.remark", { detail });
  logUncaughtErrors(log);
  const store = await openStore(options.kv, log);
  const gateway = await createGateway({ ...toGatewayOptions(options), masterKey, instanceId, store, log });
  const reload = () => void gateway.reload().catch(() => {}); // the log has said what was wrong
  const stopTriggers = startTriggers(options, reload, { clock: systemClock, log });
  async function stop(): Promise<void> {
    stopTriggers();
    await gateway.close({ drainMs: options.drain });
    store.close();
  }
  return { gateway, reload, stop };
}

/** A host's name and a port: no two processes have both. Nothing if the name may not be asked for, or the port is any. */
export function resolveInstanceId({ options: { hostname, port } }: ServeCommand): string | undefined {
  if (port === 0 || !isGranted({ name: "sys", kind: "hostname" })) return undefined;
  return `${Deno.hostname()} ${hostname}:${port}`;
}

/** The log that the settings ask for. */
export function createCommandLog({ options }: ServeCommand): Log {
  return createLog({ format: options["log-format"], level: options["log-level"] });
}
