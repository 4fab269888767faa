import { join } from "@std/path";
import { Denokv, findDenokv } from "../tools/denokv.ts";
import { findPostgres, PostgresServer } from "../tools/postgres.ts";
import type { Figure } from "./_report.ts";

/** An engine that is running. */
export interface Engine {
  readonly name: string;
  /** The value of `--kv`. */
  readonly kv: string;
  readonly isShared: boolean;
  /** The id of the server's process, if it has a single one. */
  readonly pid?: number | undefined;
}

/** A `denokv` server with its defaults, and one that writes commits together that arrive within 2 ms. */
const DENOKV_ARGS = {
  "denokv": [],
  "denokv, together": ["--atomic-write-batch-timeout-ms", "2"],
};
const TOKEN = crypto.randomUUID();

/**
 * Measures all engines of the store, one after the other: memory and SQLite always, `denokv` and PostgreSQL if their
 * programs are found, with their own defaults: every commit waits for the disk.
 */
export async function withEngines(
  measure: (engine: Engine) => Promise<Figure[]>,
): Promise<Figure[]> {
  await using stack = new AsyncDisposableStack();
  const directory = await Deno.makeTempDir();
  stack.defer(() => Deno.remove(directory, { recursive: true }));
  const figures: Figure[] = [];
  for (const engine of await startEngines(directory, stack)) {
    figures.push(...await measure(engine));
  }
  return figures;
}

async function startEngines(
  directory: string,
  stack: AsyncDisposableStack,
): Promise<Engine[]> {
  const all: Engine[] = [
    { name: "memory", kv: ":memory:", isShared: false },
    { name: "SQLite", kv: join(directory, "kv.sqlite3"), isShared: true },
  ];
  const denokv = await findDenokv();
  if (denokv !== undefined) {
    for (const [name, args] of Object.entries(DENOKV_ARGS)) {
      const path = join(directory, `${name}.sqlite3`);
      const server = stack.use(
        await Denokv.launch({ program: denokv, path, token: TOKEN, args }),
      );
      all.push({
        name,
        kv: `http://127.0.0.1:${server.port}`,
        isShared: true,
        pid: server.pid,
      });
    }
    Deno.env.set("DENO_KV_ACCESS_TOKEN", TOKEN);
  }
  const bin = await findPostgres();
  if (bin !== undefined) {
    const server = stack.use(await PostgresServer.create(bin));
    all.push({ name: "PostgreSQL", kv: server.url(), isShared: true });
  }
  return all;
}
