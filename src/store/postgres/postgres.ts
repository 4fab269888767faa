import { messageOf } from "../../observe/log.ts";
import { sleep } from "../../values/clock.ts";
import type { RetryOptions } from "../retry.ts";
import {
  type Check,
  type Entry,
  type Key,
  type ListOptions,
  type Store,
  StoreFullError,
  type StoreUnavailableError,
  toUnavailableError,
  type Write,
} from "../store.ts";
import {
  decodeName,
  decodeValue,
  encodeKey,
  encodeName,
  encodePrefix,
  encodeValue,
} from "./codec.ts";
import {
  isPermanent,
  PermanentError,
  PostgresConnection,
} from "./connection.ts";
import type { Row, Statement } from "./driver.ts";
import { PostgresPool } from "./pool.ts";
import { ensureSchema } from "./schema.ts";
import type { PostgresTarget } from "./url.ts";

interface NotificationOptions extends RetryOptions {
  readonly channel: string;
  /** Ends everything. */
  readonly signal: AbortSignal;
}

/** How many checks a commit may have: as many as in a SQLite file. The server itself has no limit. */
export const POSTGRES_MAX_CHECKS = 100;
/** How long the connection for notifications pauses after it was lost; half of it is random. */
const LISTEN_PAUSE_MS = 1_000;

/**
 * Connects to a PostgreSQL server, and creates the tables on first use.
 *
 * The driver is npm `pg` rather than `postgres`: its connections are objects that can be closed at once, also if the
 * server is silent, and do not reconnect by themselves, which `openRemoteStore()` does for all servers.
 *
 * @throws {PermanentError} If the server rejects the connection or the schema.
 * @throws {StoreUnavailableError} If no server is reachable.
 */
export async function openPostgresStore(
  target: PostgresTarget,
  options: RetryOptions,
): Promise<Store> {
  const closing = new AbortController();
  const open = () => PostgresConnection.open(target, closing.signal);
  const openChecked = async () => await withSchema(await open(), target.schema);
  const pool = new PostgresPool(
    await openChecked(),
    openChecked,
    target.poolSize,
  );
  const notifications = new Notifications(open, {
    ...options,
    channel: target.schema,
    signal: closing.signal,
  });
  const close = () => {
    closing.abort();
    pool.close();
  };
  return new PostgresStore({
    pool,
    notifications,
    schema: target.schema,
    close,
  });
}

/** A new connection may be to another server than the others, or to tables that a newer version has changed meanwhile. */
async function withSchema(
  connection: PostgresConnection,
  schema: string,
): Promise<PostgresConnection> {
  try {
    await ensureSchema(connection, schema);
    return connection;
  } catch (error) {
    connection.close();
    throw isPermanent(error)
      ? new PermanentError(messageOf(error))
      : toStoreError(error);
  }
}

interface Parts {
  readonly pool: PostgresPool;
  readonly notifications: Notifications;
  readonly schema: string;
  readonly close: () => void;
}

class PostgresStore implements Store {
  readonly maxChecks = POSTGRES_MAX_CHECKS;
  readonly #parts: Parts;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  async get<T>(key: Key): Promise<Entry<T> | undefined> {
    const { prefix, name } = encodeKey(key);
    const text =
      `SELECT value, version FROM ${this.#parts.schema}.entry WHERE prefix = $1 AND name = $2`;
    const [row] = await this.#query({
      name: "get",
      text,
      values: [prefix, name],
    });
    return row && toEntry<T>(key, row);
  }

  async getMany<T>(keys: readonly Key[]): Promise<(Entry<T> | undefined)[]> {
    const encoded = keys.map(encodeKey).map((
      { prefix, name },
    ) => [prefix, name]);
    const text =
      `SELECT entry.prefix, entry.name, value, version FROM json_array_elements($1) AS wanted(key)
      JOIN ${this.#parts.schema}.entry ON entry.prefix = key->>0 AND entry.name = key->>1`;
    const rows = await this.#query({
      name: "get many",
      text,
      values: [JSON.stringify(encoded)],
    });
    const found = new Map(
      rows.map((row) => [JSON.stringify([row["prefix"], row["name"]]), row]),
    );
    return keys.map((key, index) => {
      const row = found.get(JSON.stringify(encoded[index]));
      return row && toEntry<T>(key, row);
    });
  }

  async list<T>(
    prefix: Key,
    { from, limit = Infinity, reverse = false }: ListOptions = {},
  ): Promise<Entry<T>[]> {
    const order = reverse ? "DESC" : "ASC";
    const text =
      `SELECT name, value, version FROM ${this.#parts.schema}.entry WHERE prefix = $1 AND name >= $2 ORDER BY name ${order} LIMIT $3`;
    const values = [
      encodePrefix(prefix),
      from === undefined ? "" : encodeName(from),
      limit === Infinity ? null : limit,
    ];
    const rows = await this.#query({ name: `list ${order}`, text, values });
    return rows.map((row) =>
      toEntry([...prefix, decodeName(row["name"] ?? "")], row)
    );
  }

  async commit(
    checks: readonly Check[],
    writes: readonly Write[],
  ): Promise<string | undefined> {
    const values = [
      JSON.stringify(checks.map(encodeCheck)),
      JSON.stringify(writes.map(encodeWrite)),
    ];
    const text =
      `SELECT ${this.#parts.schema}.commit_entries($1, $2) AS version`;
    try {
      const [row] = await this.#parts.pool.query({
        name: "commit",
        text,
        values,
      });
      return row?.["version"] ?? undefined;
    } catch (error) {
      if (isConflict(error)) return undefined;
      throw toStoreError(error);
    }
  }

  watch(key: Key, hint: () => void): () => void {
    const { prefix, name } = encodeKey(key);
    return prefix === "[]"
      ? this.#parts.notifications.listen(name, hint)
      : () => {}; // see commit_entries()
  }

  close(): void {
    this.#parts.close();
  }

  async #query(statement: Statement): Promise<Row[]> {
    try {
      return await this.#parts.pool.query(statement);
    } catch (error) {
      throw toStoreError(error);
    }
  }
}

/** The notifications of commits by all processes, over a connection of their own from the first listener on. */
class Notifications {
  readonly #open: () => Promise<PostgresConnection>;
  readonly #options: NotificationOptions;
  readonly #listeners = new Map<string, Set<() => void>>();
  #isRunning = false;

  constructor(
    open: () => Promise<PostgresConnection>,
    options: NotificationOptions,
  ) {
    this.#open = open;
    this.#options = options;
  }

  listen(name: string, hint: () => void): () => void {
    const listeners = this.#listeners.get(name) ?? new Set();
    this.#listeners.set(name, listeners.add(hint));
    if (!this.#isRunning) void this.#run();
    return () => void listeners.delete(hint);
  }

  /** Connects again whenever the connection is lost. Meanwhile, callers poll. */
  async #run(): Promise<void> {
    this.#isRunning = true;
    const { clock, random, signal } = this.#options;
    while (!signal.aborted) {
      await this.#receive().catch(() => {}); // the pool reports an outage
      await sleep(LISTEN_PAUSE_MS * (0.5 + 0.5 * random()), clock, {
        signal,
        isBackground: true,
      });
    }
  }

  async #receive(): Promise<void> {
    const connection = await this.#open();
    const close = () => connection.close();
    this.#options.signal.addEventListener("abort", close);
    try {
      connection.onNotification((name) => this.#hint(name));
      await connection.query(`LISTEN ${this.#options.channel}`);
      for (const name of this.#listeners.keys()) this.#hint(name); // what was written while it was not connected
      await connection.closed;
    } finally {
      connection.close();
      this.#options.signal.removeEventListener("abort", close);
    }
  }

  #hint(name: string): void {
    for (const hint of this.#listeners.get(name) ?? []) hint();
  }
}

function toEntry<T>(key: Key, { value, version }: Row): Entry<T> {
  return {
    key,
    value: decodeValue(value ?? "null") as T,
    version: version ?? "",
  };
}

function encodeCheck({ key, version }: Check): unknown[] {
  const { prefix, name } = encodeKey(key);
  return [prefix, name, version];
}

function encodeWrite({ key, value }: Write): unknown[] {
  const { prefix, name } = encodeKey(key);
  return [prefix, name, value === undefined ? null : encodeValue(value)];
}

/** Insufficient resources, such as a full disk (PostgreSQL, Appendix A, class 53): the connection can still be used. */
const INSUFFICIENT_RESOURCES = /^53/;

function toStoreError(error: unknown): StoreUnavailableError {
  const isFull = error instanceof Error && "code" in error &&
    INSUFFICIENT_RESOURCES.test(String(error.code));
  return isFull ? new StoreFullError(error) : toUnavailableError(error);
}

/** Serialization failure, deadlock, unique violation (PostgreSQL, Appendix A): another commit won. */
const CONFLICTS: readonly unknown[] = ["40001", "40P01", "23505"];

function isConflict(error: unknown): boolean {
  return error instanceof Error && "code" in error &&
    CONFLICTS.includes(error.code);
}
