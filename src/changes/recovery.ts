import type { Configuration } from "../config/configuration.ts";
import type { StoredVariablesSource } from "../config/stored_variables_source.ts";
import type { RateLimit } from "../keys/rate_limit.ts";
import type { Log } from "../observe/log.ts";
import type { BackgroundTasks } from "../store/background_tasks.ts";
import type { Changes } from "./changes.ts";

/** What a gateway cannot do while its store is unavailable. */
interface RecoveryOptions {
  storedVariables: StoredVariablesSource;
  configuration: Configuration;
  /** `undefined` without hot reload. */
  changes: Changes | undefined;
  rateLimit: RateLimit;
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

function recover({ storedVariables, configuration, changes, rateLimit, tasks, log }: RecoveryOptions): void {
  if (changes !== undefined) void tasks.run("poll", () => changes.polling.poll());
  if (storedVariables.isKnown) changes?.publisher.retryNow();
  else void tasks.run("reload", () => configuration.reloadStored());
  void tasks.run("save", () => saveCounts(rateLimit, log));
}

/** Stores the session keys that were counted in memory. */
export async function saveCounts(rateLimit: RateLimit, log: Log): Promise<void> {
  const clients = await rateLimit.save();
  if (clients > 0) log.info("rep.rate_limit.saved", { clients });
}
