import type { Log } from "../observe/log.ts";
import { formatKvPath, openStore } from "./open.ts";
import { formatHosts, isPostgresUrl, parsePostgresUrl } from "./postgres/url.ts";
import type { Store } from "./store.ts";

const FLAG = "--rate-limit-kv";

/** The store that `--kv` names. */
interface MainStore {
  readonly kv: string | undefined;
  readonly store: Store;
}

/**
 * Opens the stores that `--rate-limit-kv` names. If one cannot be opened, those before it are closed.
 *
 * @param main Is used again if it is among them.
 * @returns The stores by a name without credentials, which is the same in processes with other credentials.
 * @throws {TypeError} If one cannot be opened, or is named twice.
 */
export async function openRateLimitStores(
  paths: readonly string[],
  main: MainStore,
  log: Log,
): Promise<ReadonlyMap<string, Store>> {
  const stores = new Map<string, Store>();
  try {
    for (const path of paths) {
      const name = nameOf(path);
      if (stores.has(name)) throw new TypeError(`Cannot use ${FLAG} "${name}" twice: expected different databases`);
      stores.set(name, path === main.kv ? main.store : await openStore(path, log, { flag: FLAG }));
    }
    return stores;
  } catch (error) {
    for (const store of stores.values()) if (store !== main.store) store.close();
    throw error;
  }
}

function nameOf(path: string): string {
  if (!isPostgresUrl(path)) return formatKvPath(path);
  const target = parsePostgresUrl(path, FLAG);
  return `postgres://${formatHosts(target)}/${target.database}?schema=${target.schema}`;
}
