import { messageOf } from "../../core/observe/log.ts";
import {
  type Check,
  type Entry,
  type Key,
  type ListOptions,
  type Store,
  StoreFullError,
  StoreIncompatibleError,
  StoreReadOnlyError,
  StoreUnavailableError,
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
  type Client,
  codeOf,
  isPermanent,
  PostgresPool,
  READ_ONLY,
  type Row,
  SERVER_READ_ONLY,
  type Statement,
} from "./connection.ts";
import {
  type NotificationOptions,
  receiveNotifications,
  type Watch,
} from "./notifications.ts";
import { ensureSchema, hasSchema } from "./schema.ts";
import type { PostgresTarget } from "./url.ts";

/** How many checks a commit may contain: as many as in a SQLite file. The server itself has no limit. */
export const POSTGRES_MAX_CHECKS = 100;

/** Insufficient resources, such as a full disk (PostgreSQL, Appendix A, class 53): the connection can still be used. */
const INSUFFICIENT_RESOURCES = /^53/;
/** Serialization failure, deadlock, unique violation (PostgreSQL, Appendix A): another commit won. */
const CONFLICT = /^(40001|40P01|23505)$/;

/** Undefined column, table, function or schema (PostgreSQL, Appendix A): the schema is not, or not wholly, a gateway's. */
const UNDEFINED = /^(42703|42P01|42883|3F000)$/;

function toStoreError(error: unknown): StoreUnavailableError {
  const code = codeOf(error);
  if (INSUFFICIENT_RESOURCES.test(code)) return new StoreFullError(error);
  if (code === READ_ONLY) {
    const message = `Cannot use the store: ${SERVER_READ_ONLY}`;
    return new StoreReadOnlyError(message, { cause: error });
  }
  if (!UNDEFINED.test(code)) return toUnavailableError(error);
  return new StoreIncompatibleError(
    `Cannot use the store: ${
      messageOf(error)
    }; restore the schema from a backup, or name another one (?schema=NAME)`,
    { cause: error },
  );
}

/** A new connection may lead to tables that a newer version has changed since. */
async function prepare(client: Client, schema: string): Promise<void> {
  try {
    await ensureSchema(client, schema);
  } catch (error) {
    if (codeOf(error) === READ_ONLY) {
      throw new StoreUnavailableError(
        `the schema "${schema}" does not exist, and cannot be created: ${SERVER_READ_ONLY}`,
      );
    }
    throw isPermanent(error) ? error : toStoreError(error);
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
  const pool = await PostgresPool.open(target);
  try {
    return await hasSchema(await pool.connect(), target.schema);
  } finally {
    pool.close();
  }
}

/**
 * Connects to a PostgreSQL server, and creates the tables on first use.
 *
 * The driver is npm `pg` rather than `postgres`: its connections can be closed at once, even if the server is silent.
 *
 * @throws As {@linkcode PostgresPool.open} does.
 */
export async function openPostgresStore(
  target: PostgresTarget,
  options: NotificationOptions & { readonly needsWrites?: boolean },
): Promise<Store> {
  const { schema } = target;
  const pool = await PostgresPool.open(
    target,
    (client) => prepare(client, schema),
    options.clock,
    options.needsWrites,
  );
  const watches = new Set<Watch>();
  let receiving: Promise<void> | undefined;

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
      const watch = { name, hint };
      watches.add(watch);
      receiving ??= receiveNotifications(pool, schema, watches, options);
      return () => void watches.delete(watch);
    },
    close: () => pool.close(),
  };
}
