import { PostgresServer } from "../tools/postgres.ts";
import type { Engine, EngineServer } from "./_multi_gateway.ts";
import { type RequestCounter, startRelay } from "./_relay.ts";

/** A crash of the machine is not what these tests are about. */
export const FAST = { settings: { fsync: "off" } };

/** PostgreSQL as an engine of the tests with several gateways. */
export function postgres(bin: string): Engine {
  return {
    name: "a PostgreSQL server",
    requestCounter: postgresRequestCounter,
    refusal: /^Cannot open --kv "postgres:\/\/…@127\.0\.0\.1:\d+\/postgres": password authentication failed /,
    maxNoise: 0,
    async start() {
      const server = await PostgresServer.create(bin, FAST);
      return {
        port: server.port,
        kill: () => server.kill(),
        start: () => server.start(),
        access: (port, credentials = "valid") => ({
          kv: PostgresServer.url([{ port }], server).replace(`:${server.password}`, ""),
          env: { PGPASSWORD: credentials === "valid" ? server.password : "wrong" },
        }),
        [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
      };
    },
  };
}

/** A primary with an asynchronous streaming replica. */
export interface PostgresPair extends EngineServer {
  /** Cuts the replica off: what is written from now on is lost in a failover. */
  stopReplication(): void;
  /** Makes the replica the primary. */
  promote(): Promise<void>;
}

/** Starts a {@linkcode PostgresPair}. Its URL names both servers. */
export async function startPair(bin: string): Promise<PostgresPair> {
  await using stack = new AsyncDisposableStack();
  const primary = stack.use(await PostgresServer.create(bin, FAST));
  const relay = stack.use(startRelay(primary.port, postgresRequestCounter));
  const replica = stack.use(await primary.createReplica(relay.port));
  const all = stack.move();
  return {
    port: primary.port,
    kill: () => primary.kill(),
    start: () => primary.start(),
    access: () => ({ kv: PostgresServer.url([primary, replica], primary), env: {} }),
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
function postgresRequestCounter(): RequestCounter {
  let isFirst = true;
  let skip = 0;
  let header: number[] = [];
  return (bytes) => {
    let requests = 0;
    for (const byte of bytes) {
      if (skip > 0) {
        skip--;
        continue;
      }
      header.push(byte);
      if (header.length < LENGTH_BYTES + (isFirst ? 0 : 1)) continue;
      const length = header.slice(-LENGTH_BYTES).reduce((sum, part) => 256 * sum + part, 0);
      if (!isFirst && (header[0] === SYNC || header[0] === QUERY)) requests++;
      [isFirst, skip, header] = [false, length - LENGTH_BYTES, []];
    }
    return requests;
  };
}
