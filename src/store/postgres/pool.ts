import type { PostgresConnection } from "./connection.ts";
import type { Row, Statement } from "./driver.ts";

/** The place of a connection, which is opened when it is first needed, and again when it has ended. */
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
      slot = slot?.isOpen ? slot : await this.#reopen(slot);
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

  #acquire(): Slot | Promise<Slot> {
    if (this.#isClosed) return undefined; // which cannot be opened
    if (this.#free.length === 0) {
      return new Promise((resolve) => this.#waiting.push(resolve));
    }
    const open = this.#free.findLastIndex((slot) => slot?.isOpen);
    return this.#free.splice(open, 1)[0]; // the last one if none is open
  }

  #release(slot: Slot): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#free.push(slot);
    else next(slot); // a failed one, too: who gets it may try to connect itself
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
