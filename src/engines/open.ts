import { type Log, messageOf } from "../core/observe/log.ts";
import { systemClock } from "../core/values/clock.ts";
import { isGranted } from "../core/values/runtime.ts";
import { kvStore, type KvStoreOptions, MAX_CHECKS, NO_KV } from "./kv.ts";
import { memoryStore } from "./memory.ts";
import type { Store } from "../core/store/store.ts";

/** Options of {@linkcode openStore}. */
export type OpenStoreOptions = Omit<KvStoreOptions, "maxChecks">;

/** The limitations of the memory store, for the log. */
const MEMORY_ONLY =
  "Until then, ids, limits and keys are kept in memory: they are lost on restart and not shared with other processes";

/**
 * Opens the store at a path, or the default database: Deno's own for the program, or the one attached to the
 * application on Deno Deploy. If Deno KV is not available or no database is attached, the store is in memory, and a
 * warning is logged.
 *
 * A server that is unreachable is no error here: a warning is logged, operations fail, and connecting is
 * retried, as it is when the connection is lost later.
 *
 * @param storePath A file, an `http:` or `https:` URL of a KV server, a `postgres:` URL, or `:memory:`.
 * @throws {TypeError} If the named database cannot be opened; for a server, if it denies access or is not what the URL
 * says.
 * @throws {StoreIncompatibleError} If the database contains something that this version cannot use.
 */
export async function openStore(
  storePath: string | undefined,
  log: Log,
  { clock = systemClock, random = Math.random }: OpenStoreOptions = {},
): Promise<Store> {
  if (storePath === undefined) return await openDefault(log);
  if (storePath === ":memory:") return memoryStore();
  const { openNamedStore } = await import("./open_named.ts");
  return await openNamedStore(storePath, log, { clock, random });
}

async function openDefault(log: Log): Promise<Store> {
  if (globalThis.Deno?.openKv === undefined) {
    return fallBackToMemory(log, NO_KV);
  }
  try {
    const kv = await withPrivateUmask(() => Deno.openKv());
    return kvStore(kv, { maxChecks: MAX_CHECKS });
  } catch (error) {
    const reason = `no database could be opened (${messageOf(error)})`;
    return fallBackToMemory(log, `${reason}; name one`);
  }
}

function fallBackToMemory(log: Log, reason: string): Store {
  log.warn("rep.store.memory", { detail: `${reason}. ${MEMORY_ONLY}` });
  return memoryStore();
}

/** Opens a database whose path only Deno knows. If Deno creates it, only its owner gets access. */
export async function withPrivateUmask<T>(open: () => Promise<T>): Promise<T> {
  const hasUmask = Deno.build.os !== "windows" &&
    isGranted({ name: "sys", kind: "umask" });
  if (!hasUmask) return await open();
  const previous = Deno.umask(0o077);
  try {
    return await open();
  } finally {
    Deno.umask(previous);
  }
}
