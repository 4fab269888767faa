import { messageOf } from "../../core/observe/log.ts";
import { type Clock, sleep } from "../../core/values/clock.ts";
import type { RetryOptions } from "../../core/store/commits.ts";
import {
  type Check,
  type Entry,
  type Key,
  type ListOptions,
  type Store,
  StoreFullError,
  StoreIncompatibleError,
  type StoreUnavailableError,
  toUnavailableError,
  type Write,
} from "../../core/store/store.ts";
import {
  decodeName,
  decodeValue,
  encodeKey,
  encodeName,
  encodePrefix,
  encodeValue,
} from "./codec.ts";
import {
  codeOf,
  isPermanent,
  PermanentError,
  PostgresConnection,
  PostgresPool,
  type Row,
  type Statement,
} from "./connection.ts";
import { ensureSchema, hasSchema } from "./schema.ts";
import type { PostgresTarget } from "./url.ts";

/** How many checks a commit may contain: as many as in a SQLite file. The server itself has no limit. */
export const POSTGRES_MAX_CHECKS = 100;
/**
 * How many connections of a process run statements; one more listens. A PostgreSQL server accepts 100 by default. More
 * would wait for each other, since a process commits one thing at a time; with only one, a commit that waits for the
 * lock of another process would hold up reads.
 */
const POOL_SIZE = 2;
/** How long the connection for notifications pauses after it was lost; half of it is random. */
const LISTEN_PAUSE_MS = 1_000;

/** Insufficient resources, such as a full disk (PostgreSQL, Appendix A, class 53): the connection can still be used. */
const INSUFFICIENT_RESOURCES = /^53/;
/** Serialization failure, deadlock, unique violation (PostgreSQL, Appendix A): another commit won. */
const CONFLICT = /^(40001|40P01|23505)$/;

/** Undefined column, table, function or schema (PostgreSQL, Appendix A): the schema is not, or not wholly, a gateway's. */
const UNDEFINED = /^(42703|42P01|42883|3F000)$/;

function toStoreError(error: unknown): StoreUnavailableError {
  const code = codeOf(error);
  if (INSUFFICIENT_RESOURCES.test(code)) return new StoreFullError(error);
  if (!UNDEFINED.test(code)) return toUnavailableError(error);
  return new StoreIncompatibleError(
    `Cannot use the store: ${
      messageOf(error)
    }; restore the schema from a backup, or name another one (?schema=NAME)`,
    { cause: error },
  );
}

/** A new connection may lead to another server than the others, or to tables that a newer version has changed since. */
async function withSchema(
  connection: PostgresConnection,
  schema: string,
): Promise<PostgresConnection> {
  try {
    await ensureSchema(connection, schema);
    return connection;
  } catch (error) {
    connection.close();
    if (isPermanent(error)) throw new PermanentError(messageOf(error));
    throw toStoreError(error);
  }
}

/** Options of {@linkcode Notifications}. */
interface NotificationsOptions {
  readonly connect: () => Promise<PostgresConnection>;
  readonly channel: string;
  readonly clock: Clock;
  /** Returns a number in [0, 1). */
  readonly random: () => number;
  /** Ends everything. */
  readonly signal: AbortSignal;
}

/** The notifications about commits of all processes. The first listener opens a separate connection for them. */
class Notifications {
  readonly #options: NotificationsOptions;
  readonly #listeners = new Map<string, Set<() => void>>();
  #isRunning = false;

  constructor(options: NotificationsOptions) {
    this.#options = options;
  }

  listen(name: string, hint: () => void): () => void {
    const listeners = this.#listeners.get(name) ?? new Set();
    this.#listeners.set(name, listeners.add(hint));
    if (!this.#isRunning) void this.#run();
    return () => void listeners.delete(hint);
  }

  /** Connects again whenever the connection is lost. Until then, callers poll. */
  async #run(): Promise<void> {
    this.#isRunning = true;
    const { clock, random, signal } = this.#options;
    while (!signal.aborted) {
      await this.#receive().catch(() => {}); // the pool reports an outage
      const pause = LISTEN_PAUSE_MS * (0.5 + 0.5 * random());
      await sleep(pause, clock, { signal, isBackground: true });
    }
  }

  async #receive(): Promise<void> {
    const { connect, channel, signal } = this.#options;
    const connection = await connect();
    const close = () => connection.close();
    signal.addEventListener("abort", close);
    try {
      connection.onNotification((name) => this.#hint(name));
      await connection.query(`LISTEN ${channel}`);
      for (const name of this.#listeners.keys()) this.#hint(name); // what was written while it was not connected
      await connection.closed;
    } finally {
      connection.close();
      signal.removeEventListener("abort", close);
    }
  }

  #hint(name: string): void {
    for (const hint of this.#listeners.get(name) ?? []) hint();
  }
}

function toEntry<T>(key: Key, row: Row): Entry<T> {
  const value = decodeValue(row["value"] ?? "null") as T;
  return { key, value, version: row["version"] ?? "" };
}

function encodeCheck({ key, version }: Check): unknown[] {
  return [...encodeKey(key), version];
}

function encodeWrite({ key, value }: Write): unknown[] {
  return [...encodeKey(key), value === undefined ? null : encodeValue(value)];
}

/** Returns whether the schema that a target names exists. It does not create it, unlike {@linkcode openPostgresStore}. */
export async function postgresStoreExists(
  target: PostgresTarget,
): Promise<boolean> {
  const { signal } = new AbortController();
  const connection = await PostgresConnection.open(target, signal);
  try {
    return await hasSchema(connection, target.schema);
  } finally {
    connection.close();
  }
}

/**
 * Connects to a PostgreSQL server, and creates the tables on first use.
 *
 * The driver is npm `pg` rather than `postgres`: its connections are objects that can be closed at once, even if the
 * server is silent, and do not reconnect by themselves, which `openRemoteStore()` does for all servers.
 *
 * @throws {PermanentError} If the server rejects the connection or the schema.
 * @throws {StoreUnavailableError} If no server is reachable.
 */
export async function openPostgresStore(
  target: PostgresTarget,
  { clock, random }: RetryOptions,
): Promise<Store> {
  const { schema } = target;
  const closing = new AbortController();
  const connect = () => PostgresConnection.open(target, closing.signal);
  const open = async () => await withSchema(await connect(), schema);
  const pool = new PostgresPool(await open(), open, POOL_SIZE);
  const notifications = new Notifications({
    connect,
    channel: schema,
    clock,
    random,
    signal: closing.signal,
  });

  async function query(statement: Statement): Promise<Row[]> {
    try {
      return await pool.query(statement);
    } catch (error) {
      throw toStoreError(error);
    }
  }

  return {
    maxChecks: POSTGRES_MAX_CHECKS,
    async get<T>(key: Key) {
      const text = `SELECT value, version FROM ${schema}.entry
        WHERE prefix = $1 AND name = $2`;
      const [row] = await query({ name: "get", text, values: encodeKey(key) });
      return row && toEntry<T>(key, row);
    },
    async getMany<T>(keys: readonly Key[]) {
      const ids = keys.map((key) => JSON.stringify(encodeKey(key)));
      const text = `SELECT entry.prefix, entry.name, value, version
        FROM json_array_elements($1) AS wanted(key)
        JOIN ${schema}.entry ON entry.prefix = key->>0 AND entry.name = key->>1`;
      const values = [`[${ids.join()}]`];
      const rows = await query({ name: "get many", text, values });
      const found = new Map<string, Row>();
      for (const row of rows) {
        found.set(JSON.stringify([row["prefix"], row["name"]]), row);
      }
      return keys.map((key, index) => {
        const row = found.get(ids[index] ?? "");
        return row && toEntry<T>(key, row);
      });
    },
    async list<T>(
      prefix: Key,
      { from, limit = Infinity, reverse = false }: ListOptions = {},
    ) {
      const order = reverse ? "DESC" : "ASC";
      const text = `SELECT name, value, version FROM ${schema}.entry
        WHERE prefix = $1 AND name >= $2 ORDER BY name ${order} LIMIT $3`;
      const first = from === undefined ? "" : encodeName(from);
      const count = limit === Infinity ? null : limit;
      const values = [encodePrefix(prefix), first, count];
      const rows = await query({ name: `list ${order}`, text, values });
      return rows.map((row) => {
        const name = decodeName(row["name"] ?? "");
        return toEntry<T>([...prefix, name], row);
      });
    },
    async commit(checks, writes) {
      const text = `SELECT ${schema}.commit_entries($1, $2) AS version`;
      const values = [
        JSON.stringify(checks.map(encodeCheck)),
        JSON.stringify(writes.map(encodeWrite)),
      ];
      try {
        const [row] = await pool.query({ name: "commit", text, values });
        return row?.["version"] ?? undefined;
      } catch (error) {
        if (CONFLICT.test(codeOf(error))) return undefined;
        throw toStoreError(error);
      }
    },
    watch(key, hint) {
      const [prefix, name] = encodeKey(key);
      if (prefix !== "[]") return () => {}; // see commit_entries()
      return notifications.listen(name, hint);
    },
    close() {
      closing.abort();
      pool.close();
    },
  };
}
