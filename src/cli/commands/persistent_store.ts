import { silentLog } from "../../observe/log.ts";
import { openStore } from "../../store/open.ts";
import { FILE_NOT_PRIVATE } from "../../store/open_named.ts";
import type { Store } from "../../store/store.ts";

/**
 * Opens the store that `--kv` names, like the gateway does, but only if it outlives the command.
 *
 * @throws {TypeError} If it does not, or cannot be opened.
 */
export async function openPersistentStore(path: string | undefined): Promise<Store> {
  const warnings = path === ":memory:"
    ? ["it is deleted when this command ends; expected --kv with a file or a URL"]
    : [];
  const store = await openStore(path, {
    ...silentLog,
    warn: (event, fields) => event !== FILE_NOT_PRIVATE && warnings.push(String(fields?.detail)),
  });
  if (warnings.length === 0) return store;
  store.close();
  throw new TypeError(`Cannot keep variables in memory, where no gateway would see them: ${warnings.join("; ")}`);
}
