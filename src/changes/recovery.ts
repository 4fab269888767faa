import type { Configuration } from "../config/configuration.ts";
import type { StoredVariablesSource } from "../config/stored_variables_source.ts";
import type { RateLimit } from "../keys/rate_limit.ts";
import type { Log } from "../observe/log.ts";
import type { BackgroundTasks } from "../store/background_tasks.ts";
import type { Polling } from "./polling.ts";
import type { Publisher } from "./publisher.ts";

/** What a gateway cannot do while its store is unavailable. */
interface RecoveryOptions {
  storedVariables: StoredVariablesSource;
  configuration: Configuration;
  publisher: Publisher;
  polling: Polling;
  rateLimit: RateLimit;
  hotReload: boolean;
  tasks: BackgroundTasks;
  log: Log;
}

/** Logs an outage of the store, or its end, and then makes up for what could not be done meanwhile. */
export function handleStoreChange(failure: Error | undefined, options: RecoveryOptions): void {
  const { log } = options;
  if (failure === undefined) {
    log.info("rep.store.up", { detail: "the store is available again" });
    recover(options);
  } else {
    log.error("rep.store.down", { detail: `limits are counted in memory, changes wait: ${failure.message}` });
  }
}

function recover({ storedVariables, configuration, publisher, polling, rateLimit, ...options }: RecoveryOptions): void {
  const { hotReload, tasks, log } = options;
  if (hotReload) void tasks.run("poll", () => polling.poll());
  if (storedVariables.isKnown) publisher.retryNow();
  else void tasks.run("reload", () => configuration.reloadStored());
  void tasks.run("save", () => saveCounts(rateLimit, log));
}

/** Stores the session keys that were counted in memory. */
export async function saveCounts(rateLimit: RateLimit, log: Log): Promise<void> {
  const clients = await rateLimit.save();
  if (clients > 0) log.info("rep.rate_limit.saved", { clients });
}
