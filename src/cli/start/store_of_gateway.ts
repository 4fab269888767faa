import { storeOfPort } from "../../store/app_store.ts";
import type { Store } from "../../store/store.ts";
import { isOnDeploy } from "../options/command.ts";
import type { CommandOptions } from "../options/option_table.ts";

/** The options that say where in which database a gateway keeps what it stores. */
export type StoreOptions = Pick<CommandOptions, "kv" | "app" | "port">;

/**
 * Returns whether a gateway shares Deno's default database with all others of the machine that run from the same URL,
 * without a part of its own: `--app` names one, and the port is one. With port 0, there is none to count on.
 */
export function sharesDefaultDatabase(
  { kv, app, port }: StoreOptions,
): boolean {
  return kv === undefined && app === undefined && port === 0 && !isOnDeploy();
}

/**
 * Returns the gateway's part of the store that was opened for it, except for the part of its app: without `--kv` and
 * `--app`, what belongs to its port. On Deno Deploy, the default database is the application's own.
 */
export function storeOfGateway(
  store: Store,
  { kv, app, port }: StoreOptions,
): Store {
  const isNamed = kv !== undefined || app !== undefined;
  if (isNamed || port === 0 || isOnDeploy()) return store;
  return storeOfPort(store, port);
}
