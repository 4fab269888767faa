import { readFile as readFileAt } from "node:fs/promises";
import process from "node:process";
import { messageOf } from "../../observe/log.ts";
import { OPERATION_TIMEOUT_MS, StoreUnavailableError } from "../store.ts";
import {
  type Client,
  loadPostgresDriver,
  type Row,
  type Statement,
} from "./driver.ts";
import { formatHosts, type PostgresHost, type PostgresTarget } from "./url.ts";

/** The server rejects the connection for a reason that does not pass by itself, such as a wrong password. */
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
      try {
        const connection = await PostgresConnection.#connect(
          host,
          target,
          signal,
        );
        if (await connection.#acceptsWrites()) return connection;
        connection.close();
        failures.push("it is a standby");
      } catch (error) {
        if (isPermanent(error)) throw new PermanentError(messageOf(error));
        failures.push(messageOf(error));
      }
    }
    throw new StoreUnavailableError(
      `Cannot connect to ${formatHosts(target)}: ${failures.join("; ")}`,
    );
  }

  static async #connect(
    host: PostgresHost,
    target: PostgresTarget,
    signal: AbortSignal,
  ): Promise<PostgresConnection> {
    const client = await createClient(host, target);
    const connection = new PostgresConnection(client);
    const abort = () => connection.close();
    signal.addEventListener("abort", abort);
    try {
      signal.throwIfAborted();
      await client.connect();
      return connection;
    } finally {
      signal.removeEventListener("abort", abort);
    }
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
   * Ends the connection at once. An operation in progress rejects. Without an open transaction, the server does not
   * expect a goodbye, which a server that is unreachable would never get.
   */
  close(): void {
    this.#onEnd();
    this.#client.connection.stream.destroy();
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
    ssl: target.isEncrypted ? await readTlsOptions(target) : false,
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
  const ca = caFile === undefined
    ? undefined
    : await readFile(caFile, "sslrootcert");
  return { rejectUnauthorized: true, ...(ca === undefined ? {} : { ca }) };
}

/** Called if the server asks for a password: returns that of the URL, of its file, or of `PGPASSWORD`. */
async function readPassword(
  { password, passwordFile }: PostgresTarget,
): Promise<string> {
  if (password !== undefined) return password;
  if (passwordFile !== undefined) {
    return (await readFile(passwordFile, "password_file")).replace(
      /\r?\n$/,
      "",
    );
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
 * Codes of errors that do not pass by themselves: invalid authorization (PostgreSQL, Appendix A, class 28), no such
 * database, not permitted.
 */
const REJECTIONS = /^(28...|3D000|42501)$/;
/** Messages of Node.js and the driver about a server whose identity cannot be verified. */
const TLS_REJECTIONS = /certificate|does not support SSL|self.signed|altnames/i;

/** Whether an error of the server does not pass by itself. */
export function isPermanent(error: unknown): boolean {
  if (error instanceof PermanentError) return true;
  const code = error instanceof Error && "code" in error
    ? String(error.code)
    : "";
  return REJECTIONS.test(code) || TLS_REJECTIONS.test(messageOf(error));
}
