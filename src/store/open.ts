import { type Clock, systemClock } from "../clock.ts";
import type { Log } from "../log.ts";
import { isGranted } from "../permissions.ts";
import { kvStore } from "./kv.ts";
import { redactUrl } from "../upstream_url.ts";
import { memoryStore } from "./memory.ts";
import { isPostgresUrl, parsePostgresUrl } from "./postgres_url.ts";
import { openRemoteStore } from "./remote.ts";
import { type Store, StoreUnavailableError } from "./store.ts";

/** Options of {@linkcode openStore}. */
export interface OpenStoreOptions {
  /** The clock of timeouts and retries. @default {the system clock} */
  clock?: Clock;
  /** Returns a number from 0 to below 1, for backoff. @default {Math.random} */
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
 * @param path A file, an `http:` or `https:` URL of a KV server, a `postgres:` URL, or `:memory:`.
 * @throws {TypeError} If the named database cannot be opened; for a server, if it denies access or is not what the URL says.
 */
export async function openStore(path: string | undefined, log: Log, options: OpenStoreOptions = {}): Promise<Store> {
  if (path === ":memory:") return memoryStore();
  if (path !== undefined && isPostgresUrl(path)) return await openPostgres(path, log, options);
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
  const open = async () => kvStore(await openKv(url));
  return await openRemoteStore({ open, isTransient: logIf(isOutage, log), ...withDefaults(options) });
}

async function openPostgres(url: string, log: Log, options: OpenStoreOptions): Promise<Store> {
  const target = parsePostgresUrl(url);
  checkPermission(url);
  const { openPostgresStore } = await import("./postgres.ts"); // the driver is loaded only if it is used
  const resolved = withDefaults(options);
  const open = () => openPostgresStore(target, resolved);
  try {
    return await openRemoteStore({ open, isTransient: logIf(isUnavailable, log), ...resolved });
  } catch (cause) {
    throw new TypeError(`Cannot open --kv "${redactUrl(url)}": ${messageOf(cause)}`, { cause });
  }
}

function withDefaults({ clock = systemClock, random = Math.random }: OpenStoreOptions): Required<OpenStoreOptions> {
  return { clock, random };
}

/** Logs an error of the first connection if it is an outage. */
function logIf(isOutage: (error: unknown) => boolean, log: Log): (error: unknown) => boolean {
  return (error) => {
    if (!isOutage(error)) return false;
    log.warn("rep.store.unreachable", { detail: `retrying in the background: ${messageOf(error)}` });
    return true;
  };
}

function isUnavailable(error: unknown): boolean {
  return error instanceof StoreUnavailableError;
}

/** Deno throws the same class for all failures, so only the message distinguishes them. */
function isOutage(error: unknown): boolean {
  if (isUnavailable(error)) return true; // timed out
  return /failed to connect to|timed out|responded with status (429|5\d\d)/.test(messageOf(error));
}

async function openKv(path: string): Promise<Deno.Kv> {
  checkPermission(path);
  try {
    return await Deno.openKv(path);
  } catch (cause) {
    throw new TypeError(`Cannot open --kv "${path}": ${messageOf(cause)}`, { cause });
  }
}

/** Checked first, since opening would prompt for the permission. */
function checkPermission(path: string): void {
  const missing = missingPermission(path);
  if (missing === undefined) return;
  throw new TypeError(
    `Cannot open --kv "${isUrl(path) || isPostgresUrl(path) ? redactUrl(path) : path}": expected ${missing}`,
  );
}

/** Returns the flag of a permission that opening a store needs and that is not granted. */
export function missingPermission(path: string): string | undefined {
  if (isPostgresUrl(path)) return missingForPostgres(path);
  if (isUrl(path)) {
    return isGranted({ name: "env", variable: "DENO_KV_ACCESS_TOKEN" })
      ? undefined
      : "--allow-env=DENO_KV_ACCESS_TOKEN";
  }
  if (!isGranted({ name: "read", path })) return `--allow-read=${path}`;
  return isGranted({ name: "write", path }) ? undefined : `--allow-write=${path}`;
}

function missingForPostgres(url: string): string | undefined {
  if (!isGranted({ name: "env" })) return "--allow-env"; // the driver reads `PG…`
  const { passwordFile, caFile } = parsePostgresUrl(url);
  const files = [passwordFile, caFile].filter((path) => path !== undefined);
  const missing = files.find((path) => !isGranted({ name: "read", path }));
  return missing && `--allow-read=${missing}`;
}

function isUrl(path: string): boolean {
  return /^https?:/.test(path);
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
