import type { Clock } from "../../clock.ts";
import { silentLog } from "../../log.ts";
import { FILE_NOT_PRIVATE, openStore } from "../../store/open.ts";
import { type Store, StoreUnavailableError } from "../../store/store.ts";

/** Timeout for opening a database. */
const OPEN_TIMEOUT_MS = 10_000;

/**
 * Opens the store that `--kv` names, like the gateway does, but only if it outlives the command.
 *
 * @throws {TypeError} If it does not, or cannot be opened.
 */
export async function openPersistentStore(path: string | undefined): Promise<Store> {
  const warnings = path === ":memory:" ? ["it ends with this command; expected --kv with a file or a URL"] : [];
  const store = await openStore(path, {
    ...silentLog,
    warn: (event, fields) => event !== FILE_NOT_PRIVATE && warnings.push(String(fields?.detail)),
  });
  if (warnings.length === 0) return store;
  store.close();
  throw new TypeError(`Cannot keep variables in memory, where no gateway would see them: ${warnings.join("; ")}`);
}

/**
 * Waits for a store to open, with a timeout: a server may accept the connection and never respond.
 *
 * @throws {StoreUnavailableError} If it has not opened in time.
 */
export function openWithTimeout(opening: Promise<Store>, clock: Clock): Promise<Store> {
  return new Promise((resolve, reject) => {
    const timeOut = () =>
      reject(new StoreUnavailableError(`Cannot open the store: no answer within ${OPEN_TIMEOUT_MS} ms`));
    const cancel = clock.after(OPEN_TIMEOUT_MS, timeOut);
    opening.then(resolve, reject).finally(cancel);
  });
}
