import type { Clock } from "../../clock.ts";
import { silentLog } from "../../log.ts";
import { openStore } from "../../store/open.ts";
import { type Store, StoreUnavailableError } from "../../store/store.ts";

/** How long a database may take to open. */
const OPEN_MS = 10_000;

/**
 * Opens the store that `--kv` names, as the gateway does it, but only one that is still there when the command has ended.
 *
 * @throws {TypeError} If there is none.
 */
export async function openPersistentStore(path: string | undefined): Promise<Store> {
  const losses = path === ":memory:" ? ["it ends with this command; expected --kv with a file or a URL"] : [];
  const store = await openStore(path, { ...silentLog, warn: (_event, fields) => losses.push(String(fields?.detail)) });
  if (losses.length === 0) return store;
  store.close();
  throw new TypeError(`Cannot keep variables in memory, where no gateway would see them: ${losses.join("; ")}`);
}

/**
 * Gives an opening store a time-out: a server that takes the connection and then says nothing would keep it waiting for ever.
 *
 * @throws {StoreUnavailableError} If it is not open in time.
 */
export function openWithTimeout(opening: Promise<Store>, clock: Clock): Promise<Store> {
  return new Promise((resolve, reject) => {
    const late = () => reject(new StoreUnavailableError(`Cannot open the store: no answer within ${OPEN_MS} ms`));
    const cancel = clock.after(OPEN_MS, late);
    opening.then(resolve, reject).finally(cancel);
  });
}
