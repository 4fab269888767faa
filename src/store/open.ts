import { type Clock, systemClock } from "../clock.ts";
import { type Log, messageOf } from "../log.ts";
import { isGranted } from "../permissions.ts";
import { kvStore } from "./kv.ts";
import { memoryStore } from "./memory.ts";
import { openRemoteStore } from "./remote.ts";
import { type Store, StoreUnavailableError } from "./store.ts";

/** Options of {@linkcode openStore}. */
export interface OpenStoreOptions {
  /** The clock of timeouts and retries. @default {the system clock} */
  clock?: Clock;
  /** Returns a number in [0, 1), for backoff. @default {Math.random} */
  random?: () => number;
}

/** The limitations of the memory store, for the log. */
const MEMORY_ONLY =
  "Until then, ids, limits and keys are kept in memory: they are lost on restart and not shared with other processes";

/**
 * Opens the store that `--kv` names, or the default database: Deno's own for the program, or the one attached to the
 * application on Deno Deploy. If Deno KV is not available or no database is attached, the store is in memory, and a
 * warning is logged.
 *
 * A server that is unreachable does not prevent the start: a warning is logged, operations fail, and connecting is
 * retried, as it is when the connection is lost later.
 *
 * @param path A file, a URL, or `:memory:`.
 * @throws {TypeError} If the named database cannot be opened; for a server, if it denies access or is not a KV server.
 */
export async function openStore(path: string | undefined, log: Log, options: OpenStoreOptions = {}): Promise<Store> {
  if (path === ":memory:") return memoryStore();
  if (!("openKv" in Deno)) return fallBackToMemory(path, log, "Deno KV is not available; enable it with --unstable-kv");
  if (path !== undefined) return isUrl(path) ? await openServer(path, log, options) : kvStore(await openKv(path));
  try {
    return kvStore(await Deno.openKv());
  } catch (error) {
    return fallBackToMemory(path, log, `no database could be opened (${messageOf(error)}); name one with --kv`);
  }
}

function fallBackToMemory(path: string | undefined, log: Log, reason: string): Store {
  if (path !== undefined) throw new TypeError(`Cannot open --kv "${path}": ${reason}`);
  log.warn("rep.store.memory", { detail: `${reason}. ${MEMORY_ONLY}` });
  return memoryStore();
}

async function openServer(url: string, log: Log, options: OpenStoreOptions): Promise<Store> {
  const { clock = systemClock, random = Math.random } = options;
  const open = async () => kvStore(await openKv(url));
  return await openRemoteStore({ open, isTransient: logIfOutage, clock, random });

  function logIfOutage(error: unknown): boolean {
    if (!isOutage(error)) return false;
    log.warn("rep.store.unreachable", { detail: `retrying in the background: ${messageOf(error)}` });
    return true;
  }
}

/** Deno throws the same class for all failures, so only the message distinguishes them. */
function isOutage(error: unknown): boolean {
  if (error instanceof StoreUnavailableError) return true; // timed out
  return /failed to connect to|timed out|responded with status (429|5\d\d)/.test(messageOf(error));
}

async function openKv(path: string): Promise<Deno.Kv> {
  const missing = missingPermission(path);
  if (missing !== undefined) throw new TypeError(`Cannot open --kv "${path}": expected ${missing}`);
  try {
    return await Deno.openKv(path);
  } catch (cause) {
    throw new TypeError(`Cannot open --kv "${path}": ${messageOf(cause)}`, { cause });
  }
}

/** Checked first, since `Deno.openKv()` would prompt for the permission. */
export function missingPermission(path: string): string | undefined {
  if (isUrl(path)) {
    return isGranted({ name: "env", variable: "DENO_KV_ACCESS_TOKEN" })
      ? undefined
      : "--allow-env=DENO_KV_ACCESS_TOKEN";
  }
  if (!isGranted({ name: "read", path })) return `--allow-read=${path}`;
  return isGranted({ name: "write", path }) ? undefined : `--allow-write=${path}`;
}

/** Returns whether `--kv` names a server. */
export function isUrl(path: string): boolean {
  return /^https?:/.test(path);
}
