import { StoreIncompatibleError } from "../../core/store/store.ts";
import { type Client, PermanentError } from "./connection.ts";

/** The version of the tables and the function below. A change of them increments it, and adds a migration. */
const SCHEMA_VERSION = 1;
/**
 * The oldest version whose gateways can use this schema. A change that only adds something that old gateways need not
 * know keeps it: old and new gateways can then run side by side in a rollout, and old ones start again after a
 * rollback.
 */
const COMPATIBLE_SINCE = 1;

/**
 * Commits are a function in the database, so that each is one round trip and no transaction stays open if a gateway
 * ends.
 *
 * - Checked entries are locked in order, then compared. In `READ COMMITTED`, the lock waits for a concurrent commit and
 *   then sees its result.
 * - An entry that does not exist has no row to lock. So a commit that checks for its absence inserts a row, with a
 *   value that no entry has, and removes it at the end unless the entry was written. A concurrent insert waits for the
 *   row, and the second of the two fails. Advisory locks would work as well, but a large commit needs more of them than
 *   a small server has.
 * - Versions are random. A sequence could repeat a version after a failover to a replica that lagged behind, and a
 *   check that has to fail would pass.
 * - `CREATE SCHEMA IF NOT EXISTS` needs `CREATE` on the database even if the schema exists. A role that owns only its
 *   schema lacks that.
 * - Only keys of one part are announced: `NOTIFY` serializes the commits of all sessions, and the rate limit, which
 *   writes most, needs none.
 */
const createSchema = (schema: string) => `
DO $$ BEGIN
  IF NOT EXISTS (SELECT FROM pg_namespace WHERE nspname = '${schema}') THEN CREATE SCHEMA ${schema}; END IF;
END $$;
CREATE TABLE ${schema}.schema_version (version integer NOT NULL, compatible_since integer NOT NULL);
CREATE TABLE ${schema}.entry (
  prefix text COLLATE "C" NOT NULL,
  name text COLLATE "C" NOT NULL,
  value text NOT NULL,
  version uuid NOT NULL,
  PRIMARY KEY (prefix, name)
);
CREATE FUNCTION ${schema}.commit_entries(checks json, writes json) RETURNS uuid LANGUAGE plpgsql AS $$
DECLARE
  item record;
  found_version uuid;
  new_version uuid := gen_random_uuid();
BEGIN
  FOR item IN
    SELECT part->>0 AS prefix, part->>1 AS name, (part->>2)::uuid AS version
    FROM json_array_elements(checks) AS part ORDER BY (part->>0) COLLATE "C", (part->>1) COLLATE "C"
  LOOP
    SELECT entry.version INTO found_version FROM ${schema}.entry
    WHERE entry.prefix = item.prefix AND entry.name = item.name FOR UPDATE;
    IF found_version IS DISTINCT FROM item.version THEN RETURN NULL; END IF;
  END LOOP;
  INSERT INTO ${schema}.entry
  SELECT part->>0, part->>1, '', new_version FROM json_array_elements(checks) AS part
  WHERE part->>2 IS NULL ORDER BY (part->>0) COLLATE "C", (part->>1) COLLATE "C";
  FOR item IN
    SELECT part->>0 AS prefix, part->>1 AS name, part->>2 AS value
    FROM json_array_elements(writes) WITH ORDINALITY AS list(part, position)
    ORDER BY (part->>0) COLLATE "C", (part->>1) COLLATE "C", position
  LOOP
    IF item.value IS NULL THEN
      DELETE FROM ${schema}.entry WHERE entry.prefix = item.prefix AND entry.name = item.name;
    ELSE
      INSERT INTO ${schema}.entry VALUES (item.prefix, item.name, item.value, new_version)
      ON CONFLICT (prefix, name) DO UPDATE SET value = EXCLUDED.value, version = EXCLUDED.version;
    END IF;
    IF item.prefix = '[]' AND length(item.name) < 1000 THEN PERFORM pg_notify('${schema}', item.name); END IF;
  END LOOP;
  DELETE FROM ${schema}.entry USING json_array_elements(checks) AS part
  WHERE entry.prefix = part->>0 AND entry.name = part->>1 AND part->>2 IS NULL AND entry.value = '';
  RETURN new_version;
END
$$;
INSERT INTO ${schema}.schema_version VALUES (${SCHEMA_VERSION}, ${COMPATIBLE_SINCE});
`;

/**
 * Creates the tables on first use, and checks that a gateway of this version can use them.
 *
 * @throws {StoreIncompatibleError} If this gateway cannot use them.
 * @throws {PermanentError} If the database cannot store all text.
 */
export async function ensureSchema(
  client: Client,
  schema: string,
): Promise<void> {
  if (!await hasSchema(client, schema)) await create(client, schema);
  const { version, compatibleSince } = await readVersion(client, schema);
  if (compatibleSince <= SCHEMA_VERSION) return;
  throw new StoreIncompatibleError(
    `the schema "${schema}" has version ${version}, which needs a gateway that knows version ${compatibleSince}: this one knows ${SCHEMA_VERSION}; start a newer gateway, or name another schema (?schema=NAME)`,
  );
}

/** Returns whether there is a schema that a gateway created. */
export async function hasSchema(
  client: Client,
  schema: string,
): Promise<boolean> {
  // Not to_regclass(), whose cached result can be older than the lock that create() has waited for.
  const { rows: [table] } = await client.query(
    `SELECT relname::text FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
     WHERE nspname = '${schema}' AND relname = 'schema_version'`,
  );
  return table !== undefined;
}

/** Returns what a schema says about itself. */
async function readVersion(client: Client, schema: string) {
  // The first gateways created no column `compatible_since`, and this one may lack the privilege to add it.
  const { rows: [row] } = await client.query(
    `SELECT version::text, coalesce(to_json(it)->>'compatible_since', version::text) AS compatible_since
     FROM ${schema}.schema_version AS it`,
  );
  return {
    version: Number(row?.["version"]),
    compatibleSince: Number(row?.["compatible_since"]),
  };
}

/** If several gateways start at once on an empty database, one creates the schema and the others wait for it. */
async function create(client: Client, schema: string): Promise<void> {
  const { rows: [database] } = await client.query(
    "SELECT current_setting('server_encoding') AS encoding",
  );
  const encoding = database?.["encoding"];
  if (encoding !== "UTF8") {
    throw new PermanentError(
      `expected a database with the encoding UTF8, got ${encoding}`,
    );
  }
  // If one of these fails, the connection is closed, and the server rolls the transaction back.
  await client.query("BEGIN");
  await client.query(
    `SELECT pg_advisory_xact_lock(hashtextextended('${schema}', 0))`,
  );
  if (!await hasSchema(client, schema)) {
    await client.query(createSchema(schema));
  }
  await client.query("COMMIT");
}
