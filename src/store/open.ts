import { type Log, messageOf } from "../observe/log.ts";
import { type Clock, systemClock } from "../values/clock.ts";
import { isGranted } from "../values/permissions.ts";
import { redactCredentials, redactUrl } from "../values/redact_url.ts";
import { kvStore } from "./kv.ts";
import { memoryStore } from "./memory.ts";
import { loadPostgresDriver } from "./postgres/driver.ts";
import { isPostgresUrl, parsePostgresUrl } from "./postgres/url.ts";
import { restrictToOwner, withPrivateUmask } from "./private_file.ts";
import { openRemoteStore } from "./remote.ts";
import { type Store, StoreUnavailableError } from "./store.ts";

/** Options of {@linkcode openStore}. */
export interface OpenStoreOptions {
  /** The clock of timeouts and retries. @default {the system clock} */
  clock?: Clock;
  /** Returns a number in [0, 1), for backoff. @default {Math.random} */
  random?: () => number;
  /** The option that names the store, for error messages. @default {"--kv"} */
  flag?: string;
}

/** How many checks Deno Deploy and a SQLite file accept per commit, and a `denokv` server. */
const MAX_CHECKS = 100;
const MAX_SERVER_CHECKS = 10;

/** The event of a database file that other users may read. The database is used all the same. */
export const FILE_NOT_PRIVATE = "rep.store.not_private";

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
 * @throws {TypeError} If the named database cannot be opened; for a server, if it denies access or is not what the URL
 * says.
 */
export async function openStore(path: string | undefined, log: Log, options: OpenStoreOptions = {}): Promise<Store> {
  const resolved = withDefaults(options);
  const { flag } = resolved;
  if (path === ":memory:") return memoryStore();
  if (path !== undefined && isPostgresUrl(path)) return await openPostgres(path, log, resolved);
  if (!("openKv" in Deno)) {
    return fallBackToMemory(path, log, { flag, reason: "Deno KV is not available; enable it with --unstable-kv" });
  }
  if (path !== undefined) return isUrl(path) ? await openServer(path, log, resolved) : await openFile(path, log, flag);
  try {
    return kvStore(await withPrivateUmask(() => Deno.openKv()), { maxChecks: MAX_CHECKS });
  } catch (error) {
    return fallBackToMemory(path, log, {
      flag,
      reason: `no database could be opened (${messageOf(error)}); name one with --kv`,
    });
  }
}

function fallBackToMemory(
  path: string | undefined,
  log: Log,
  { flag, reason }: { flag: string; reason: string },
): Store {
  if (path !== undefined) throw new TypeError(`Cannot open ${flag} "${formatKvPath(path)}": ${reason}`);
  log.warn("rep.store.memory", { detail: `${reason}. ${MEMORY_ONLY}` });
  return memoryStore();
}

/** Opens a file. It contains the master key, so that nobody but its owner may read it. */
function openFile(path: string, log: Log, flag: string): Promise<Store> {
  return orCannotOpen(path, flag, async () => {
    const problem = await restrictToOwner(path);
    if (problem !== undefined) log.warn(FILE_NOT_PRIVATE, { detail: `other users may read "${path}": ${problem}` });
    return kvStore(await Deno.openKv(path), { maxChecks: MAX_CHECKS });
  });
}

type Resolved = Required<OpenStoreOptions>;

async function openServer(url: string, log: Log, options: Resolved): Promise<Store> {
  const maxChecks = MAX_SERVER_CHECKS;
  const open = () => orCannotOpen(url, options.flag, async () => kvStore(await Deno.openKv(url), { maxChecks }));
  return await openRemoteStore({ open, isTransient: logIf(isOutage, log), maxChecks, ...options });
}

async function openPostgres(url: string, log: Log, options: Resolved): Promise<Store> {
  const { flag } = options;
  const target = parsePostgresUrl(url, flag);
  const { openPostgresStore, POSTGRES_MAX_CHECKS: maxChecks } = await orCannotOpen(url, flag, loadPostgres);
  const open = () => orCannotOpen(url, flag, () => openPostgresStore(target, options));
  return await openRemoteStore({ open, isTransient: logIf(isUnavailable, log), maxChecks, ...options });
}

/**
 * Loads the engine and its driver before the first connection, since a download may take longer than connecting may.
 */
async function loadPostgres(): Promise<typeof import("./postgres/postgres.ts")> {
  const engine = await import("./postgres/postgres.ts");
  await loadPostgresDriver();
  return engine;
}

function withDefaults({ clock = systemClock, random = Math.random, flag = "--kv" }: OpenStoreOptions): Resolved {
  return { clock, random, flag };
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

async function orCannotOpen<T>(path: string, flag: string, open: () => Promise<T>): Promise<T> {
  const cannot = `Cannot open ${flag} "${formatKvPath(path)}"`;
  const missing = missingPermission(path, flag);
  if (missing !== undefined) throw new TypeError(`${cannot}: expected ${missing}`);
  try {
    return await open();
  } catch (error) {
    // The error itself is not kept as the cause, since its message may contain the URL.
    const message = `${cannot}: ${redactCredentials(messageOf(error).replaceAll(path, formatKvPath(path)))}`;
    throw error instanceof StoreUnavailableError ? new StoreUnavailableError(message) : new TypeError(message);
  }
}

/** Formats the value of `--kv` for a message: a URL without credentials and query. */
export function formatKvPath(path: string): string {
  return path.includes("://") ? redactUrl(path) : path;
}

/**
 * Returns the flag of a permission that opening a store needs and that is not granted. Checked first, since opening
 * would prompt for the permission.
 */
export function missingPermission(path: string, flag?: string): string | undefined {
  if (isPostgresUrl(path)) return missingForPostgres(path, flag);
  if (isUrl(path)) {
    return isGranted({ name: "env", variable: "DENO_KV_ACCESS_TOKEN" })
      ? undefined
      : "--allow-env=DENO_KV_ACCESS_TOKEN";
  }
  if (!isGranted({ name: "read", path })) return `--allow-read=${path}`;
  return isGranted({ name: "write", path }) ? undefined : `--allow-write=${path}`;
}

function missingForPostgres(url: string, flag: string | undefined): string | undefined {
  if (!isGranted({ name: "env" })) return "--allow-env"; // the driver reads `PG…`
  const { passwordFile, caFile } = parsePostgresUrl(url, flag);
  const files = [passwordFile, caFile].filter((path) => path !== undefined);
  const missing = files.find((path) => !isGranted({ name: "read", path }));
  return missing && `--allow-read=${missing}`;
}

/** Returns whether `--kv` names a KV server. */
export function isUrl(path: string): boolean {
  return /^https?:/.test(path);
}
