import { readFile } from "node:fs/promises";
import process from "node:process";
import { messageOf } from "../../core/observe/log.ts";
import { type Clock, systemClock } from "../../core/values/clock.ts";
import { importPackage } from "../../core/values/runtime.ts";
import {
  OPERATION_TIMEOUT_MS,
  StoreIncompatibleError,
  StoreUnavailableError,
} from "../../core/store/store.ts";
import { formatHosts, type PostgresHost, type PostgresTarget } from "./url.ts";

const DRIVER: string = "npm:pg@8.23.1";

/** A row of a result; every column that is used is text. */
export type Row = Readonly<Record<string, string | null>>;

/** A statement with its parameters. If it has a name, the server prepares it once per connection. */
export interface Statement {
  readonly name?: string;
  readonly text: string;
  readonly values: readonly (string | number | null)[];
}

/** The part of the driver's `Client` that is used. The package has no types of its own. */
export interface Client {
  connect(callback: (error?: unknown) => void): void;
  query(statement: string | Statement): Promise<{ rows: Row[] }>;
  on(event: "end" | "error", listener: () => void): void;
  on(
    event: "notification",
    listener: (notification: { payload?: string }) => void,
  ): void;
  readonly connection: { readonly stream: { destroy(error: Error): void } };
}

/** A client of a pool, which has to be released. */
export interface PooledClient extends Client {
  /** @param isBroken Whether nobody else may use it. */
  release(isBroken?: boolean): void;
}

/** The part of the driver's `Pool` that is used. */
interface Pool {
  readonly totalCount: number;
  /** The pool reads `max` for every connection. */
  readonly options: { max: number };
  connect(): Promise<PooledClient>;
  on(event: "error", listener: () => void): void;
}

type Settings = Readonly<Record<string, unknown>>;

interface Driver {
  readonly Client: new (settings: Settings) => Client;
  readonly Pool: new (settings: Settings) => Pool;
}

/** Loads the driver; see {@linkcode importPackage}. */
export async function loadPostgresDriver(): Promise<Driver> {
  return (await importPackage<{ default: Driver }>(DRIVER)).default;
}

/** The server rejects the connection for a reason that a retry does not resolve, such as a wrong password. */
export class PermanentError extends Error {
  /** The name of the error class. */
  override name = "PermanentError";
}

/** How long connecting may take, all hosts together: less than `openRemoteStore()` waits. */
const CONNECT_TIMEOUT_MS = 4_000;
/** After this time without traffic, the kernel asks whether the server still exists. */
const KEEP_ALIVE_MS = 10_000;

/**
 * How many connections a process has; one of them also listens. A PostgreSQL server accepts 100 by default. More would
 * wait for each other, since a process commits one thing at a time; with only one, a commit that waits for the lock of
 * another process would hold up reads.
 */
const MAX_CONNECTIONS = 2;
/** A write in a read-only transaction (PostgreSQL, Appendix A). */
export const READ_ONLY = "25006";
/** The server accepts no further connection (PostgreSQL, Appendix A). */
const TOO_MANY_CONNECTIONS = "53300";
/** How long a process then does with the connections that it has. */
const LIMIT_PAUSE_MS = 5_000;
/**
 * A prepared statement does not exist, or exists already (PostgreSQL, Appendix A): a pooler in transaction mode executes
 * each statement on another connection.
 */
const NOT_PREPARED = /^(26000|42P05)$/;

/** Checks a new connection before it is used. */
type Prepare = (client: Client) => Promise<void>;

/**
 * Connections to one server, which is no standby. If it fails, so does the pool, and `openRemoteStore()` opens another
 * one.
 */
export class PostgresPool {
  readonly #pool: Pool;
  readonly #closing = new AbortController();
  readonly #clock: Clock;
  /** When another connection may be opened. */
  #growsAt = -Infinity;
  /** Nobody else behind a pooler uses the same names for prepared statements. */
  readonly #id = crypto.randomUUID();
  #canPrepare = true;
  /** Whether the newest connection is. */
  #isReadOnly = false;

  private constructor(
    driver: Driver,
    settings: Settings,
    prepare: Prepare,
    clock: Clock,
  ) {
    this.#clock = clock;
    const verify = async (client: Client) => {
      this.#isReadOnly = await checkServer(client);
      await prepare(client);
    };
    this.#pool = new driver.Pool({
      max: MAX_CONNECTIONS,
      idleTimeoutMillis: 0,
      Client: clientUntil(this.#closing.signal, driver, settings),
      verify: (client: Client, done: (error?: unknown) => void) =>
        void verify(client).then(() => done(), done),
    });
    this.#pool.on("error", () => {}); // an idle connection has ended: the next statement opens another one
  }

  /**
   * Connects to the first host that accepts writes; if there is none, to the first primary that is read-only.
   *
   * @param needsWrites Whether a read-only one is of no use.
   * @throws {PermanentError} Or another error that {@linkcode isPermanent}, if a host rejects the user, the database or
   * the encryption.
   * @throws {StoreIncompatibleError} If `prepare` does.
   * @throws {StoreUnavailableError} If no such host is reachable.
   */
  static async open(
    target: PostgresTarget,
    prepare: Prepare = async () => {},
    clock: Clock = systemClock,
    needsWrites = false,
  ): Promise<PostgresPool> {
    const driver = await loadPostgresDriver();
    const failures: string[] = [];
    let readable: PostgresPool | undefined;
    for (const host of target.hosts) {
      const settings = await clientSettings(host, target);
      const pool = new PostgresPool(driver, settings, prepare, clock);
      // A server may accept the user, and then answer nothing, such as a pooler whose database is down.
      const ms = CONNECT_TIMEOUT_MS / target.hosts.length;
      const timer = setTimeout(
        () => pool.close(`no answer within ${ms} ms`),
        ms,
      );
      try {
        const client = await pool.connect();
        client.release();
        if (!pool.#isReadOnly) {
          readable?.close();
          return pool;
        }
        if (needsWrites || readable !== undefined) pool.close();
        else readable = pool;
      } catch (error) {
        pool.close();
        if (isPermanent(error) || error instanceof StoreIncompatibleError) {
          readable?.close();
          throw error;
        }
        failures.push(messageOf(error));
      } finally {
        clearTimeout(timer);
      }
    }
    if (readable !== undefined) return readable;
    const reasons = failures.join("; ");
    throw new StoreUnavailableError(
      `Cannot connect to ${formatHosts(target)}: ${reasons}`,
    );
  }

  /** Aborted by {@linkcode close}. */
  get closed(): AbortSignal {
    return this.#closing.signal;
  }

  /**
   * Waits for a free connection. The caller releases it. If the server accepts no further one, the process shares those
   * that it has for a while: otherwise the store would be unavailable to it, although it is connected.
   */
  async connect(): Promise<PooledClient> {
    const { options } = this.#pool;
    if (this.#clock.monotonic() >= this.#growsAt) options.max = MAX_CONNECTIONS;
    try {
      return await this.#pool.connect();
    } catch (error) {
      const { totalCount } = this.#pool;
      const isAtLimit = codeOf(error) === TOO_MANY_CONNECTIONS;
      if (!isAtLimit || totalCount === 0) throw error;
      this.#growsAt = this.#clock.monotonic() + LIMIT_PAUSE_MS;
      options.max = totalCount;
      return await this.connect();
    }
  }

  /** Runs a statement and returns its rows. */
  async query(statement: string | Statement): Promise<Row[]> {
    try {
      return await this.#run(statement);
    } catch (error) {
      if (!NOT_PREPARED.test(codeOf(error))) throw error;
      this.#canPrepare = false;
      return await this.#run(statement); // it was not executed
    }
  }

  async #run(statement: string | Statement): Promise<Row[]> {
    const client = await this.connect();
    let isReadOnly = false;
    try {
      return (await client.query(this.#prepared(statement))).rows;
    } catch (error) {
      isReadOnly = codeOf(error) === READ_ONLY; // the next one is checked: behind a pooler, it may lead to a standby now
      throw error;
    } finally {
      client.release(isReadOnly); // not `pool.query()`, which also closes the connection of a commit that conflicts
    }
  }

  #prepared(statement: string | Statement): string | Statement {
    if (typeof statement === "string") return statement;
    const { name, text, values } = statement;
    return this.#canPrepare
      ? { name: `${name} ${this.#id}`, text, values }
      : { text, values };
  }

  /** Ends all connections at once. Statements in progress reject with the reason, and so do later ones. */
  close(reason = "the connection has been closed"): void {
    this.#closing.abort(new Error(reason));
  }
}

/**
 * Returns a class of clients that end when a signal is aborted. They send no goodbye: no transaction is open, and an
 * unreachable server would never receive it.
 */
function clientUntil(signal: AbortSignal, driver: Driver, settings: Settings) {
  return class extends driver.Client {
    constructor() {
      super(settings);
      const destroy = () => this.connection.stream.destroy(signal.reason);
      signal.addEventListener("abort", destroy);
      this.on("end", () => signal.removeEventListener("abort", destroy));
      this.on("error", () => {}); // the statement in progress rejects with the same error
    }

    override connect(callback: (error?: unknown) => void): void {
      if (!signal.aborted) return super.connect(callback);
      // Not at once: the pool would then call itself for each statement that waits, and exhaust the stack.
      queueMicrotask(() => callback(signal.reason));
    }
  };
}

/** Why a primary accepts no writes. */
export const SERVER_READ_ONLY =
  "the server is read-only (default_transaction_read_only), as managed services make it when the storage is full";

/**
 * Returns whether a primary is read-only. A standby is of no use: it may lag behind. It also sets the timeout of
 * statements: PgBouncer rejects that as a parameter of the connection.
 */
async function checkServer(client: Client): Promise<boolean> {
  const { rows: [row] } = await client.query(
    `SELECT current_setting('transaction_read_only') AS read_only, pg_is_in_recovery()::text AS is_standby,
     set_config('statement_timeout', '${OPERATION_TIMEOUT_MS}', false)`,
  );
  if (row?.["is_standby"] !== "false") {
    throw new StoreUnavailableError("it is a standby");
  }
  return row["read_only"] !== "off";
}

async function clientSettings(
  host: PostgresHost,
  target: PostgresTarget,
): Promise<Settings> {
  return {
    host: host.hostname,
    port: host.port,
    user: target.user,
    database: target.database,
    password: () => readPassword(target),
    ssl: target.isEncrypted && await readTlsOptions(target),
    application_name: "rep-gateway",
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS / target.hosts.length,
    keepAlive: true,
    keepAliveInitialDelayMillis: KEEP_ALIVE_MS,
  };
}

async function readTlsOptions(
  { caFile }: PostgresTarget,
): Promise<Record<string, unknown>> {
  if (caFile === undefined) return { rejectUnauthorized: true };
  const ca = await readFile(caFile, "utf8");
  return { rejectUnauthorized: true, ca };
}

/** Called if the server asks for a password: returns the one in the URL, in its file, or in `PGPASSWORD`. */
async function readPassword(
  { password, passwordFile }: PostgresTarget,
): Promise<string> {
  if (password !== undefined) return password;
  if (passwordFile !== undefined) {
    const text = await readFile(passwordFile, "utf8");
    return text.replace(/\r?\n$/, "");
  }
  const fromEnvironment = process.env["PGPASSWORD"];
  if (fromEnvironment) return fromEnvironment;
  throw new PermanentError(
    "the server asks for a password: expected USER:PASSWORD, password_file or PGPASSWORD",
  );
}

/**
 * Codes of errors that a retry does not resolve: invalid authorization (PostgreSQL, Appendix A, class 28), no such
 * database, not permitted; and a file of the URL that cannot be read.
 */
const REJECTIONS = /^(28...|3D000|42501|ENOENT|EACCES|EPERM|EISDIR)$/;
/** Messages of Node.js and the driver about a server whose identity cannot be verified. */
const TLS_REJECTIONS = /certificate|does not support SSL|self.signed|altnames/i;

/** Whether a retry does not resolve an error of the server. */
export function isPermanent(error: unknown): boolean {
  return error instanceof PermanentError || isNotCapable(error) ||
    REJECTIONS.test(codeOf(error)) || TLS_REJECTIONS.test(messageOf(error));
}

/** Returns whether Deno denies a permission. */
function isNotCapable(error: unknown): boolean {
  return error instanceof Error && error.name === "NotCapable";
}

/** Returns the code of an error of the server (PostgreSQL, Appendix A); an empty string if it has none. */
export function codeOf(error: unknown): string {
  if (!(error instanceof Error) || !("code" in error)) return "";
  return String(error.code);
}
