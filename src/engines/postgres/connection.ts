import { readFile as readFileAt } from "node:fs/promises";
import process from "node:process";
import { messageOf } from "../../core/observe/log.ts";
import { importPackage } from "../../core/values/runtime.ts";
import {
  OPERATION_TIMEOUT_MS,
  StoreUnavailableError,
} from "../../core/store/store.ts";
import { formatHosts, type PostgresHost, type PostgresTarget } from "./url.ts";

const DRIVER: string = "npm:pg@8.23.1";

/** A row of a result; every column that is used is text. */
export type Row = Readonly<Record<string, string | null>>;

/** A statement that the server prepares once per connection, with its parameters. */
export interface Statement {
  readonly name: string;
  readonly text: string;
  readonly values: readonly (string | number | null)[];
}

/** The part of the driver's `Client` that is used. The package has no types of its own. */
export interface Client {
  connect(): Promise<unknown>;
  query(statement: string | Statement): Promise<{ rows: Row[] }>;
  on(event: "error", listener: (error: Error) => void): void;
  on(event: "end", listener: () => void): void;
  on(
    event: "notification",
    listener: (notification: { payload?: string }) => void,
  ): void;
  readonly connection: { readonly stream: { destroy(): void } };
}

interface Driver {
  readonly Client: new (config: Readonly<Record<string, unknown>>) => Client;
}

/**
 * Loads the driver; see {@linkcode importPackage}.
 *
 * @throws {TypeError} If it is neither installed nor can be downloaded.
 */
export async function loadPostgresDriver(): Promise<Driver> {
  try {
    return (await importPackage<{ default: Driver }>(DRIVER)).default;
  } catch (error) {
    throw new TypeError(
      `Cannot load the PostgreSQL driver ${DRIVER}: ${messageOf(error)}`,
    );
  }
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

/** One connection to the server of a target that accepts writes. */
export class PostgresConnection {
  readonly #client: Client;
  readonly #closed = Promise.withResolvers<void>();
  #isOpen = true;

  private constructor(client: Client) {
    this.#client = client;
    client.on("error", () => this.#onEnd()); // the operation in progress rejects with the same error
    client.on("end", () => this.#onEnd());
  }

  /**
   * Connects to the first host that accepts writes.
   *
   * @param signal Ends the attempt.
   * @throws {PermanentError} If a host rejects the user, the database or the encryption.
   * @throws {StoreUnavailableError} If no host is reachable and accepts writes.
   */
  static async open(
    target: PostgresTarget,
    signal: AbortSignal,
  ): Promise<PostgresConnection> {
    const failures: string[] = [];
    for (const host of target.hosts) {
      if (signal.aborted) break;
      const client = await createClient(host, target);
      const connection = new PostgresConnection(client);
      try {
        await connection.#connect(signal);
        if (await connection.#acceptsWrites()) return connection;
        failures.push("it is a standby");
      } catch (error) {
        if (isPermanent(error)) throw new PermanentError(messageOf(error));
        failures.push(messageOf(error));
      }
      connection.close();
    }
    const reasons = failures.join("; ");
    throw new StoreUnavailableError(
      `Cannot connect to ${formatHosts(target)}: ${reasons}`,
    );
  }

  /** Whether the connection can be used. */
  get isOpen(): boolean {
    return this.#isOpen;
  }

  /** Resolves when the connection has ended, whatever the reason. */
  get closed(): Promise<void> {
    return this.#closed.promise;
  }

  /** Runs a statement and returns its rows. Text without parameters may contain several statements. */
  async query(statement: string | Statement): Promise<Row[]> {
    return (await this.#client.query(statement)).rows;
  }

  /** Calls back with the payload of every notification. */
  onNotification(callback: (payload: string) => void): void {
    this.#client.on("notification", ({ payload = "" }) => callback(payload));
  }

  /**
   * Ends the connection at once. An operation in progress rejects. It sends no goodbye: no transaction is open, and an
   * unreachable server would never receive it.
   */
  close(): void {
    this.#onEnd();
    this.#client.connection.stream.destroy();
  }

  async #connect(signal: AbortSignal): Promise<void> {
    const abort = () => this.close();
    signal.addEventListener("abort", abort);
    try {
      signal.throwIfAborted();
      await this.#client.connect();
    } finally {
      signal.removeEventListener("abort", abort);
    }
  }

  #onEnd(): void {
    this.#isOpen = false;
    this.#closed.resolve();
  }

  async #acceptsWrites(): Promise<boolean> {
    const [row] = await this.query(
      "SELECT current_setting('transaction_read_only') AS read_only",
    );
    return row?.["read_only"] === "off";
  }
}

async function createClient(
  host: PostgresHost,
  target: PostgresTarget,
): Promise<Client> {
  const driver = await loadPostgresDriver();
  return new driver.Client({
    host: host.hostname,
    port: host.port,
    user: target.user,
    database: target.database,
    password: () => readPassword(target),
    ssl: target.isEncrypted && await readTlsOptions(target),
    application_name: "rep-gateway",
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS / target.hosts.length,
    statement_timeout: OPERATION_TIMEOUT_MS,
    query_timeout: OPERATION_TIMEOUT_MS,
    keepAlive: true,
    keepAliveInitialDelayMillis: KEEP_ALIVE_MS,
  });
}

async function readTlsOptions(
  { caFile }: PostgresTarget,
): Promise<Record<string, unknown>> {
  if (caFile === undefined) return { rejectUnauthorized: true };
  const ca = await readFile(caFile, "sslrootcert");
  return { rejectUnauthorized: true, ca };
}

/** Called if the server asks for a password: returns the one in the URL, in its file, or in `PGPASSWORD`. */
async function readPassword(
  { password, passwordFile }: PostgresTarget,
): Promise<string> {
  if (password !== undefined) return password;
  if (passwordFile !== undefined) {
    const text = await readFile(passwordFile, "password_file");
    return text.replace(/\r?\n$/, "");
  }
  const fromEnvironment = process.env["PGPASSWORD"];
  if (fromEnvironment) return fromEnvironment;
  throw new PermanentError(
    "the server asks for a password: expected USER:PASSWORD, password_file or PGPASSWORD",
  );
}

async function readFile(path: string, parameter: string): Promise<string> {
  try {
    return await readFileAt(path, "utf8");
  } catch (error) {
    throw new PermanentError(
      `cannot read ${parameter} "${path}": ${messageOf(error)}`,
    );
  }
}

/**
 * Codes of errors that a retry does not resolve: invalid authorization (PostgreSQL, Appendix A, class 28), no such
 * database, not permitted.
 */
const REJECTIONS = /^(28...|3D000|42501)$/;
/** Messages of Node.js and the driver about a server whose identity cannot be verified. */
const TLS_REJECTIONS = /certificate|does not support SSL|self.signed|altnames/i;

/** Whether a retry does not resolve an error of the server. */
export function isPermanent(error: unknown): boolean {
  return error instanceof PermanentError ||
    REJECTIONS.test(codeOf(error)) || TLS_REJECTIONS.test(messageOf(error));
}

/** Returns the code of an error of the server (PostgreSQL, Appendix A); an empty string if it has none. */
export function codeOf(error: unknown): string {
  if (!(error instanceof Error) || !("code" in error)) return "";
  return String(error.code);
}

/** A place for a connection, which is opened when it is first needed, and again after it has ended. */
type Slot = PostgresConnection | undefined;

/**
 * A bounded number of connections. Each runs one statement at a time; further statements wait for the next free one.
 */
export class PostgresPool {
  readonly #open: () => Promise<PostgresConnection>;
  /** The slots that are free, the most recently used last. */
  readonly #free: Slot[];
  readonly #connections: Set<PostgresConnection>;
  readonly #waiting: ((slot: Slot) => void)[] = [];
  #isClosed = false;

  /** Creates a pool of up to `size` connections, of which the first is already open. */
  constructor(
    first: PostgresConnection,
    open: () => Promise<PostgresConnection>,
    size: number,
  ) {
    this.#open = open;
    this.#free = [...Array<undefined>(size - 1), first];
    this.#connections = new Set([first]);
  }

  /** Runs a statement on a free connection. */
  async query(statement: Statement): Promise<Row[]> {
    let slot = await this.#acquire();
    try {
      if (!slot?.isOpen) slot = await this.#reopen(slot);
      return await slot.query(statement);
    } finally {
      this.#release(slot);
    }
  }

  /** Closes all connections. Statements in progress reject. */
  close(): void {
    this.#isClosed = true;
    for (const connection of this.#connections) connection.close();
    for (const resolve of this.#waiting.splice(0)) resolve(undefined);
  }

  async #acquire(): Promise<Slot> {
    if (this.#isClosed) return undefined; // which cannot be opened
    if (this.#free.length > 0) return this.#free.pop();
    const slot = Promise.withResolvers<Slot>();
    this.#waiting.push(slot.resolve);
    return await slot.promise;
  }

  #release(slot: Slot): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#free.push(slot);
    else next(slot); // also after a failure: the next statement may try to connect
  }

  async #reopen(ended: Slot): Promise<PostgresConnection> {
    if (this.#isClosed) throw new Error("the connection has been closed");
    if (ended !== undefined) this.#connections.delete(ended);
    const connection = await this.#open();
    this.#connections.add(connection);
    if (this.#isClosed) connection.close();
    return connection;
  }
}
