import { type Log, messageOf } from "../observe/log.ts";
import { isGranted } from "../values/runtime.ts";
import { redactCredentials, redactUrl } from "../values/urls.ts";
import { kvStore, MAX_CHECKS, NO_KV } from "./kv.ts";
import { loadPostgresDriver } from "./postgres/driver.ts";
import { formatHost, isPostgresUrl, parsePostgresUrl } from "./postgres/url.ts";
import { restrictToOwner, SIDE_FILES } from "./private_file.ts";
import { openRemoteStore } from "./remote.ts";
import type { RetryOptions } from "./retry.ts";
import { type Store, StoreUnavailableError } from "./store.ts";

/** How many checks a `denokv` server accepts per commit. */
const MAX_SERVER_CHECKS = 10;

/** The event of a database file that other users may read. The database is used all the same. */
export const FILE_NOT_PRIVATE = "rep.store.not_private";

const EXPECTED =
  "expected the path of a file (./ before a name with a colon), https://…, http://… or postgres://…";

/** Opens the file or the server that a path names; see {@linkcode openStore}. */
export async function openNamedStore(
  path: string,
  log: Log,
  options: RetryOptions,
): Promise<Store> {
  if (isPostgresUrl(path)) return await openPostgres(path, log, options);
  if (namesNoStore(path)) {
    throw new TypeError(`${cannotOpen(path)}: ${EXPECTED}`);
  }
  if (globalThis.Deno?.openKv === undefined) {
    throw new TypeError(`${cannotOpen(path)}: ${NO_KV}`);
  }
  return isUrl(path)
    ? await openServer(path, log, options)
    : await openFile(path, log);
}

/** Opens a file. It contains the master key, so that nobody but its owner may read it. */
function openFile(path: string, log: Log): Promise<Store> {
  return orCannotOpen(path, async () => {
    const problem = await restrictToOwner(path);
    if (problem !== undefined) {
      log.warn(FILE_NOT_PRIVATE, {
        detail: `other users may read "${path}": ${problem}`,
      });
    }
    return kvStore(await Deno.openKv(path), { maxChecks: MAX_CHECKS });
  });
}

async function openServer(
  url: string,
  log: Log,
  options: RetryOptions,
): Promise<Store> {
  const maxChecks = MAX_SERVER_CHECKS;
  const open = () =>
    orCannotOpen(
      url,
      async () => kvStore(await Deno.openKv(url), { maxChecks }),
    );
  return await openRemoteStore({
    open,
    isTransient: logIf(isOutage, log),
    maxChecks,
    engine: "Deno KV",
    ...options,
  });
}

async function openPostgres(
  url: string,
  log: Log,
  options: RetryOptions,
): Promise<Store> {
  const target = parsePostgresUrl(url);
  const { openPostgresStore, POSTGRES_MAX_CHECKS: maxChecks } =
    await orCannotOpen(url, loadPostgres);
  const open = () =>
    orCannotOpen(url, () => openPostgresStore(target, options));
  const isTransient = logIf(isUnavailable, log);
  return await openRemoteStore({
    open,
    isTransient,
    maxChecks,
    engine: "PostgreSQL",
    ...options,
  });
}

/**
 * Loads PostgreSQL's module and its driver before the first connection, since a download may take longer than
 * connecting may.
 */
async function loadPostgres(): Promise<
  typeof import("./postgres/postgres.ts")
> {
  const postgres = await import("./postgres/postgres.ts");
  await loadPostgresDriver();
  return postgres;
}

/** Logs an error of the first connection if it is an outage. */
function logIf(
  isOutage: (error: unknown) => boolean,
  log: Log,
): (error: unknown) => boolean {
  return (error) => {
    if (!isOutage(error)) return false;
    log.warn("rep.store.unreachable", {
      detail: `retrying in the background: ${messageOf(error)}`,
    });
    return true;
  };
}

function isUnavailable(error: unknown): boolean {
  return error instanceof StoreUnavailableError;
}

/** Deno throws the same class for all failures, so only the message distinguishes them. */
function isOutage(error: unknown): boolean {
  if (isUnavailable(error)) return true; // timed out
  return /failed to connect to|timed out|responded with status (429|5\d\d)/
    .test(messageOf(error));
}

async function orCannotOpen<T>(
  path: string,
  open: () => Promise<T>,
): Promise<T> {
  const missing = missingPermission(path);
  if (missing !== undefined) {
    throw new TypeError(`${cannotOpen(path)}: expected ${missing}`);
  }
  try {
    return await open();
  } catch (error) {
    // The error itself is not kept as the cause, since its message may contain the URL.
    const message = `${cannotOpen(path)}: ${
      redactCredentials(
        messageOf(error).replaceAll(path, formatStorePath(path)),
      )
    }`;
    throw error instanceof StoreUnavailableError
      ? new StoreUnavailableError(message)
      : new TypeError(message);
  }
}

function cannotOpen(path: string): string {
  return `Cannot open the store "${formatStorePath(path)}"`;
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
  if (isUrl(path)) return missingForServer(path);
  if (namesNoStore(path)) return undefined; // openNamedStore() says so
  if (!isGranted({ name: "read", path })) return `--allow-read=${path}`;
  return isGranted({ name: "write", path })
    ? undefined
    : `--allow-write=${path}`;
}

function missingForServer(url: string): string | undefined {
  if (!isGranted({ name: "env", variable: "DENO_KV_ACCESS_TOKEN" })) {
    return "--allow-env=DENO_KV_ACCESS_TOKEN";
  }
  const address = URL.parse(url);
  if (address === null) return undefined; // Deno says what is wrong with it
  const { hostname, port, protocol } = address;
  return missingNet(
    `${hostname}:${port || (protocol === "https:" ? 443 : 80)}`,
  );
}

function missingForPostgres(url: string): string | undefined {
  if (!isGranted({ name: "env" })) return "--allow-env"; // the driver reads `PG…`
  const { passwordFile, caFile, hosts } = parsePostgresUrl(url);
  const files = [passwordFile, caFile].filter((path) => path !== undefined);
  const missing = files.find((path) => !isGranted({ name: "read", path }));
  if (missing !== undefined) return `--allow-read=${missing}`;
  return hosts.map((host) => missingNet(formatHost(host))).find((flag) =>
    flag !== undefined
  );
}

function missingNet(host: string): string | undefined {
  return isGranted({ name: "net", host }) ? undefined : `--allow-net=${host}`;
}

/** Returns the paths of the files that a store consists of, or that are read to connect to it. */
export async function storeFiles(path: string): Promise<string[]> {
  if (isPostgresUrl(path)) {
    const { passwordFile, caFile } = parsePostgresUrl(path);
    return [passwordFile, caFile].filter((path) => path !== undefined);
  }
  if (isUrl(path)) return [];
  const database = await Deno.realPath(path).catch(() => path); // the other files are beside it, not beside a link
  return [path, ...SIDE_FILES.map((suffix) => database + suffix)];
}

/** Returns whether the path of a store is another URL. A single letter before the colon is a drive of Windows. */
function namesNoStore(path: string): boolean {
  return /^[a-z][a-z\d+.-]+:/i.test(path) && !isUrl(path);
}

/** Returns whether the path of a store names a KV server. */
function isUrl(path: string): boolean {
  return /^https?:\/\//.test(path);
}
