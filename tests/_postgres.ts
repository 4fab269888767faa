import { PostgresServer } from "../tools/postgres.ts";
import type { Engine, EngineServer } from "./_multi_gateway.ts";
import { Relay, type RequestCounter } from "./_relay.ts";

/** What the tests need, for the names of those that are ignored without it. */
export const MISSING = "PostgreSQL (Debian's package postgresql)";

/** Servers need not survive a crash of the machine. */
export const FAST = { settings: { fsync: "off" } };

/** PostgreSQL as an engine of the tests with several gateways. */
export function postgres(bin: string): Engine {
  return {
    name: "a PostgreSQL server",
    createCounter: () => new PostgresRequestCounter(),
    rejection:
      /^Cannot open the store "postgres:\/\/…@127\.0\.0\.1:\d+\/postgres": password authentication failed /,
    maxDenoLines: 0,
    async start() {
      const server = await PostgresServer.create(bin, FAST);
      return {
        port: server.port,
        kill: () => server.kill(),
        start: () => server.start(),
        access: (port, credentials = "valid") => ({
          kv: PostgresServer.url([{ port }], server).replace(
            `:${server.password}`,
            "",
          ),
          env: {
            PGPASSWORD: credentials === "valid" ? server.password : "wrong",
          },
        }),
        [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
      };
    },
  };
}

/** A primary with an asynchronous streaming replica. */
export interface PostgresPair extends EngineServer {
  /** Cuts the replica off: a failover loses what is written from then on. */
  stopReplication(): void;
  /** Makes the replica the primary. */
  promote(): Promise<void>;
}

/** Starts a {@linkcode PostgresPair}. Its URL names both servers. */
export async function startPair(bin: string): Promise<PostgresPair> {
  await using stack = new AsyncDisposableStack();
  const primary = stack.use(await PostgresServer.create(bin, FAST));
  const relay = stack.use(
    new Relay(primary.port, () => new PostgresRequestCounter()),
  );
  const replica = stack.use(await primary.createReplica(relay.port));
  const all = stack.move();
  return {
    port: primary.port,
    kill: () => primary.kill(),
    start: () => primary.start(),
    access: () => ({
      kv: PostgresServer.url([primary, replica], primary),
      env: {},
    }),
    stopReplication: () => relay.cut(),
    promote: () => replica.promote(),
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
}

/** The length of the first message, which has no type (PostgreSQL, "Message Formats"). */
const LENGTH_BYTES = 4;
const SYNC = "S".charCodeAt(0);
const QUERY = "Q".charCodeAt(0);

/** Counts the requests of a PostgreSQL client: each ends with a Sync message, or is a Query message. */
class PostgresRequestCounter implements RequestCounter {
  #isFirst = true;
  #skip = 0;
  #header: number[] = [];

  count(bytes: Uint8Array): number {
    let requests = 0;
    for (const byte of bytes) {
      if (this.#skip > 0) this.#skip--;
      else if (
        this.#header.push(byte) === LENGTH_BYTES + (this.#isFirst ? 0 : 1) &&
        this.#readHeader()
      ) requests++;
    }
    return requests;
  }

  /** Returns whether the message is a request or ends one; its content is skipped. */
  #readHeader(): boolean {
    const length = this.#header.slice(-LENGTH_BYTES).reduce(
      (sum, part) => 256 * sum + part,
      0,
    );
    const isRequest = !this.#isFirst &&
      [SYNC, QUERY].includes(this.#header[0] ?? 0);
    [this.#isFirst, this.#skip, this.#header] = [
      false,
      length - LENGTH_BYTES,
      [],
    ];
    return isRequest;
  }
}
