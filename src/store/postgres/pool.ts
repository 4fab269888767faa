import type { PostgresConnection } from "./connection.ts";
import type { Row, Statement } from "./driver.ts";

/**
 * A bounded number of connections. Each runs one statement at a time; further statements wait for the next free one.
 */
export class PostgresPool {
  readonly #open: () => Promise<PostgresConnection>;
  readonly #size: number;
  /** The connections that are free, the most recently used last. */
  readonly #free: PostgresConnection[];
  readonly #all: Set<PostgresConnection>;
  readonly #waiting: ((connection: PostgresConnection | undefined) => void)[] = [];
  /** The connections that are being opened count as well. */
  #count = 1;
  #isClosed = false;

  /** Creates a pool of up to `size` connections, of which the first is already open. */
  constructor(first: PostgresConnection, open: () => Promise<PostgresConnection>, size: number) {
    this.#open = open;
    this.#size = size;
    this.#free = [first];
    this.#all = new Set([first]);
  }

  /** Runs a statement on a free connection. */
  async query(statement: Statement): Promise<Row[]> {
    const connection = await this.#acquire();
    try {
      return await connection.query(statement);
    } finally {
      this.#release(connection);
    }
  }

  /** Closes all connections. Statements in progress reject. */
  close(): void {
    this.#isClosed = true;
    for (const connection of this.#all) connection.close();
    for (const resolve of this.#waiting.splice(0)) resolve(undefined);
  }

  async #acquire(): Promise<PostgresConnection> {
    for (;;) {
      if (this.#isClosed) throw new Error("the connection has been closed");
      const free = this.#free.pop();
      if (free?.isOpen) return free;
      if (free !== undefined) this.#forget(free);
      else if (this.#count < this.#size) return await this.#connect();
      else {
        const released = await new Promise<PostgresConnection | undefined>((resolve) => this.#waiting.push(resolve));
        if (released?.isOpen) return released;
        if (released !== undefined) this.#forget(released);
      }
    }
  }

  async #connect(): Promise<PostgresConnection> {
    this.#count++;
    try {
      const connection = await this.#open();
      this.#all.add(connection);
      if (this.#isClosed) connection.close();
      return connection;
    } catch (error) {
      this.#count--;
      this.#waiting.shift()?.(undefined); // it may try to connect itself
      throw error;
    }
  }

  #forget(connection: PostgresConnection): void {
    if (this.#all.delete(connection)) this.#count--;
  }

  #release(connection: PostgresConnection): void {
    const next = this.#waiting.shift();
    if (next !== undefined) next(connection);
    else this.#free.push(connection);
  }
}
