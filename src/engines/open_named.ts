import { type Log, messageOf } from "../core/observe/log.ts";
import { isGranted } from "../core/values/runtime.ts";
import {
  hostAndPort,
  redactCredentials,
  redactUrl,
} from "../core/values/urls.ts";
import type { RetryOptions } from "../core/store/commits.ts";
import { fileStore, identify } from "./file_store.ts";
import { kvStore, MAX_CHECKS, NO_KV } from "./kv.ts";
import { isPostgresUrl, parsePostgresUrl } from "./postgres/url.ts";
import { openRemoteStore } from "./remote.ts";
import {
  type Store,
  StoreIncompatibleError,
  StoreUnavailableError,
} from "../core/store/store.ts";

type PostgresModule = typeof import("./postgres/postgres.ts");

/** How many checks a `denokv` server accepts per commit. */
const MAX_SERVER_CHECKS = 10;

const EXPECTED =
  "expected the path of a file (./ before a name with :, = or @), https://…, http://… or postgres://…";

/** Only the owner may read and write. */
const PRIVATE_MODE = 0o600;
const OTHER_USERS = 0o077;
/** What SQLite puts beside a database. It gives new ones the mode of the database. */
const SIDE_FILES = ["-wal", "-shm", "-journal"];

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
  if (isUrl(path)) return await openServer(path, log, options);
  return await orCannotOpen(path, () => openFile(path, log, options));
}

/**
 * Returns whether there is a store at a path: opening one that does not exist creates a file, or tables in PostgreSQL.
 *
 * @throws {TypeError} Or a {@linkcode StoreUnavailableError}, if that cannot be found out.
 */
export async function storeExists(path: string): Promise<boolean> {
  return await orCannotOpen(path, async () => {
    if (isPostgresUrl(path)) {
      const { postgresStoreExists } = await loadPostgres();
      return await postgresStoreExists(parsePostgresUrl(path));
    }
    if (isUrl(path) || namesNoStore(path)) return true;
    return await identify(path) !== undefined;
  });
}

/** Opens a file. It contains the master key, so only its owner may read it. */
async function openFile(
  path: string,
  log: Log,
  { clock, random }: RetryOptions,
): Promise<Store> {
  const problem = await restrictToOwner(path);
  if (problem !== undefined) {
    const detail = `other users may read "${path}": ${problem}`;
    log.warn("rep.store.not_private", { detail });
  }
  const kv = await Deno.openKv(path);
  const options = { maxChecks: MAX_CHECKS, clock, random };
  return await fileStore(path, kvStore(kv, options), clock);
}

/**
 * Creates a database file, if there is none, and makes it and the files beside it readable for their owner only.
 *
 * @returns Why other users can still read a file; `undefined` if they cannot.
 * @throws {Deno.errors.NotFound} Or another of `Deno.errors`, if the file cannot be created.
 */
export async function restrictToOwner(
  path: string,
): Promise<string | undefined> {
  if (Deno.build.os === "windows") return undefined; // access is not controlled by a mode
  const options = { write: true, create: true, mode: PRIVATE_MODE };
  const file = await Deno.open(path, options);
  file.close();
  try {
    await restrict(path);
    for (const suffix of SIDE_FILES) {
      await restrict(path + suffix).catch(ignoreMissing);
    }
    return undefined;
  } catch (error) {
    return messageOf(error);
  }
}

/**
 * Does nothing without permission for the file. The permission may cover the database only; new files beside it then
 * get the mode of the database, at the latest after the next restart.
 */
async function restrict(path: string): Promise<void> {
  if (!isGranted({ name: "read", path })) return;
  if (!isGranted({ name: "write", path })) return;
  const { mode } = await Deno.stat(path);
  if (((mode ?? 0) & OTHER_USERS) !== 0) await Deno.chmod(path, PRIVATE_MODE);
}

function ignoreMissing(error: unknown): void {
  if (!(error instanceof Deno.errors.NotFound)) throw error;
}

async function openServer(
  url: string,
  log: Log,
  options: RetryOptions,
): Promise<Store> {
  const maxChecks = MAX_SERVER_CHECKS;
  const open = async () => kvStore(await Deno.openKv(url), { maxChecks });
  const connect = () => orCannotOpen(url, open);
  const server = { connect, maxChecks, engine: "Deno KV" };
  return await openRemoteStore(server, log, options);
}

async function openPostgres(
  url: string,
  log: Log,
  options: RetryOptions,
): Promise<Store> {
  const target = parsePostgresUrl(url);
  // Only a failover needs the others: Deno would prompt for the permission then, or deny it.
  for (const { hostname, port } of target.hosts.slice(1)) {
    const host = hostAndPort(hostname, port);
    if (isGranted({ name: "net", host })) continue;
    throw new TypeError(`${cannotOpen(url)}: expected --allow-net=${host}`);
  }
  const postgres = await orCannotOpen(url, loadPostgres);
  const { clock, random } = options;
  const server = {
    connect(needsWrites: boolean) {
      const options = { clock, random, log, needsWrites };
      const open = () => postgres.openPostgresStore(target, options);
      return orCannotOpen(url, open);
    },
    maxChecks: postgres.POSTGRES_MAX_CHECKS,
    engine: "PostgreSQL",
  };
  return await openRemoteStore(server, log, options);
}

/**
 * Loads PostgreSQL's module and its driver before the first connection, since a download may take longer than
 * connecting is allowed to.
 */
async function loadPostgres(): Promise<PostgresModule> {
  const postgres = await import("./postgres/postgres.ts");
  const { loadPostgresDriver } = await import("./postgres/connection.ts");
  await loadPostgresDriver();
  return postgres;
}

/** Opens a store. Errors name the store without its credentials. */
async function orCannotOpen<T>(
  path: string,
  open: () => Promise<T>,
): Promise<T> {
  try {
    return await open();
  } catch (error) {
    // The error itself is not kept as the cause, since its message may contain the URL.
    const reason = messageOf(error)
      .replace(/^Cannot use the store: /, "")
      .replaceAll(path, formatStorePath(path));
    const message = `${cannotOpen(path)}: ${redactCredentials(reason)}`;
    if (error instanceof StoreIncompatibleError) {
      throw new StoreIncompatibleError(message);
    }
    throw error instanceof StoreUnavailableError
      ? new StoreUnavailableError(message)
      : new TypeError(message);
  }
}

function cannotOpen(path: string): string {
  return `Cannot open the store "${formatStorePath(path)}"`;
}

/** Formats the path of a store for a message: a URL without credentials and query, and nothing of a mistyped one. */
export function formatStorePath(path: string): string {
  if (path.includes("://")) return redactUrl(path);
  return namesNoStore(path) ? "…" : path;
}

/** Returns the paths of the files that a store consists of, or that are read to connect to it. */
export async function storeFiles(path: string): Promise<string[]> {
  if (isPostgresUrl(path)) {
    const { passwordFile, caFile } = parsePostgresUrl(path);
    return [passwordFile, caFile].filter((file) => file !== undefined);
  }
  if (isUrl(path)) return [];
  const database = await Deno.realPath(path).catch(() => path); // the other files are beside it, not beside a link
  return [path, ...SIDE_FILES.map((suffix) => database + suffix)];
}

/** An absolute path, one that begins with `./` or `../`, or one on a Windows drive. */
const FILE_PATH = /^(\.{0,2}[\\/](?![\\/])|[a-z]:[\\/])/i;
/** A URL of another kind, credentials of a mistyped URL, or a list as `libpq` knows it: `host=… password=…`. */
const NO_STORE =
  /^[a-z][a-z\d+.-]+:|:\/\/|^[a-z][a-z\d+.-]*\/\/|(:|\/\/).*@|^[^:/@]*=|\?.*=/is;

/** Returns whether a value names neither a file nor a KV server. It may contain a password. */
function namesNoStore(path: string): boolean {
  return NO_STORE.test(path) && !FILE_PATH.test(path) && !isUrl(path);
}

/** Returns whether the path of a store names a KV server. */
function isUrl(path: string): boolean {
  return /^https?:\/\//.test(path);
}
