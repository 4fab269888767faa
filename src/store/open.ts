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
}

/** How many checks Deno Deploy and a SQLite file accept per commit, and a `denokv` server. */
const MAX_CHECKS = 100;
const MAX_SERVER_CHECKS = 10;

/** The event of a database file that other users may read. The database is used all the same. */
export const FILE_NOT_PRIVATE = "rep.store.not_private";

const NO_KV = "Deno KV is not available; enable it with --unstable-kv";

/** The limitations of the memory store, for the log. */
const MEMORY_ONLY =
  "Until then, ids, limits and keys are kept in memory: they are lost on restart and not shared with other processes";

/**
 * Opens the store at a path, or the default database: Deno's own for the program, or the one attached to the
 * application on Deno Deploy. If Deno KV is not available or no database is attached, the store is in memory, and a
 * warning is logged.
 *
 * A server that is unreachable does not prevent the start: a warning is logged, operations fail, and connecting is
 * retried, as it is when the connection is lost later.
 *
 * @param storePath A file, an `http:` or `https:` URL of a KV server, a `postgres:` URL, or `:memory:`.
 * @throws {TypeError} If the named database cannot be opened; for a server, if it denies access or is not what the URL
 * says.
 */
export async function openStore(
  storePath: string | undefined,
  log: Log,
  { clock = systemClock, random = Math.random }: OpenStoreOptions = {},
): Promise<Store> {
  if (storePath === undefined) return await openDefault(log);
  if (storePath === ":memory:") return memoryStore();
  if (isPostgresUrl(storePath)) return await openPostgres(storePath, log, { clock, random });
  if (!("openKv" in Deno)) throw new TypeError(`${cannotOpen(storePath)}: ${NO_KV}`);
  return isUrl(storePath) ? await openServer(storePath, log, { clock, random }) : await openFile(storePath, log);
}

async function openDefault(log: Log): Promise<Store> {
  if (!("openKv" in Deno)) return fallBackToMemory(log, NO_KV);
  try {
    return kvStore(await withPrivateUmask(() => Deno.openKv()), { maxChecks: MAX_CHECKS });
  } catch (error) {
    return fallBackToMemory(log, `no database could be opened (${messageOf(error)}); name one with storePath`);
  }
}

function fallBackToMemory(log: Log, reason: string): Store {
  log.warn("rep.store.memory", { detail: `${reason}. ${MEMORY_ONLY}` });
  return memoryStore();
}

/** Opens a file. It contains the master key, so that nobody but its owner may read it. */
function openFile(path: string, log: Log): Promise<Store> {
  return orCannotOpen(path, async () => {
    const problem = await restrictToOwner(path);
    if (problem !== undefined) log.warn(FILE_NOT_PRIVATE, { detail: `other users may read "${path}": ${problem}` });
    return kvStore(await Deno.openKv(path), { maxChecks: MAX_CHECKS });
  });
}

type Resolved = Required<OpenStoreOptions>;

async function openServer(url: string, log: Log, options: Resolved): Promise<Store> {
  const maxChecks = MAX_SERVER_CHECKS;
  const open = () => orCannotOpen(url, async () => kvStore(await Deno.openKv(url), { maxChecks }));
  return await openRemoteStore({ open, isTransient: logIf(isOutage, log), maxChecks, ...options });
}

async function openPostgres(url: string, log: Log, options: Resolved): Promise<Store> {
  const target = parsePostgresUrl(url);
  const { openPostgresStore, POSTGRES_MAX_CHECKS: maxChecks } = await orCannotOpen(url, loadPostgres);
  const open = () => orCannotOpen(url, () => openPostgresStore(target, options));
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

async function orCannotOpen<T>(path: string, open: () => Promise<T>): Promise<T> {
  const missing = missingPermission(path);
  if (missing !== undefined) throw new TypeError(`${cannotOpen(path)}: expected ${missing}`);
  try {
    return await open();
  } catch (error) {
    // The error itself is not kept as the cause, since its message may contain the URL.
    const message = `${cannotOpen(path)}: ${
      redactCredentials(messageOf(error).replaceAll(path, formatStorePath(path)))
    }`;
    throw error instanceof StoreUnavailableError ? new StoreUnavailableError(message) : new TypeError(message);
  }
}

function cannotOpen(path: string): string {
  return `Cannot open storePath "${formatStorePath(path)}"`;
}

/** Formats the path of a store for a message: a URL without credentials and query. */
export function formatStorePath(path: string): string {
  return path.includes("://") ? redactUrl(path) : path;
}

/**
 * Returns the flag of a permission that opening a store needs and that is not granted. Checked first, since opening
 * would prompt for the permission.
 */
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

/** Returns whether the path of a store names a KV server. */
export function isUrl(path: string): boolean {
  return /^https?:/.test(path);
}
