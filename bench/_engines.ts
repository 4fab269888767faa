import { join } from "@std/path";
import { Denokv, findDenokv } from "../tools/denokv.ts";
import { findPostgres, PostgresServer } from "../tools/postgres.ts";

/** An engine that is running. */
export interface Engine {
  readonly name: string;
  /** The value of `--kv`. */
  readonly kv: string;
  readonly isShared: boolean;
}

/**
 * Starts all engines of the store: memory and SQLite always, `denokv` and PostgreSQL if their programs are found, with their own
 * defaults: every commit waits for the disk.
 *
 * @param directory Where the databases are.
 * @param stack Ends the servers.
 */
export async function startEngines(directory: string, stack: AsyncDisposableStack): Promise<Engine[]> {
  const all: Engine[] = [
    { name: "memory", kv: ":memory:", isShared: false },
    { name: "SQLite", kv: join(directory, "kv.sqlite3"), isShared: true },
  ];
  const denokv = await findDenokv();
  if (denokv !== undefined) {
    const token = crypto.randomUUID();
    const server = stack.use(await Denokv.launch({ program: denokv, path: join(directory, "server.sqlite3"), token }));
    Deno.env.set("DENO_KV_ACCESS_TOKEN", token);
    all.push({ name: "denokv", kv: `http://127.0.0.1:${server.port}`, isShared: true });
  }
  const bin = await findPostgres();
  if (bin !== undefined) {
    const server = stack.use(await PostgresServer.create(bin));
    all.push({ name: "PostgreSQL", kv: server.url(), isShared: true });
  }
  return all;
}
