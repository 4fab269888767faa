/**
 * Makes the dumps in `tests/engines/dumps/`, which every later version has to open. A gateway of a checkout fills new
 * stores, so that the dump of a version that changes a store is made once, when the version is committed:
 *
 *     git worktree add /tmp/112aa7d 112aa7d
 *     deno run -A tools/store_dump.ts /tmp/112aa7d tests/engines/dumps/112aa7d
 *     deno run -A tools/store_dump.ts . tests/engines/dumps/273fc5b_shop --app shop
 *
 * Further flags are for the gateway and its commands. The name of an app stands after the commit. The script needs
 * `sqlite3`, and PostgreSQL with `pg_dump`. The master keys in the dumps are used nowhere else.
 */
import { join } from "@std/path";
import { findFreePort } from "./free_port.ts";
import { findPostgres, PostgresServer } from "./postgres.ts";
import { TextLineStream } from "./text_lines.ts";

/** The variables of two deployments, one after the other: one value changes, and one is deleted. */
const FIRST = { REP_PUBLIC_COLOR: "red", REP_PUBLIC_GONE: "1" };
const SECOND = { REP_PUBLIC_COLOR: "blue" };
const SECRET = { REP_SENSITIVE_TOKEN: "a test value" };

const PAGE = "<!doctype html><head></head><body></body>";

/** Runs a program to its end, and returns what it prints. */
async function run(
  program: string,
  args: readonly string[],
  options: Deno.CommandOptions = {},
): Promise<string> {
  const command = new Deno.Command(program, { ...options, args: [...args] });
  const { success, stdout, stderr } = await command.output();
  const decoder = new TextDecoder();
  if (success) return decoder.decode(stdout);
  throw new Error(`Cannot run ${program}: ${decoder.decode(stderr)}`);
}

/** Whose stores are dumped. */
interface Version {
  readonly checkout: string;
  /** For the gateway and its commands. */
  readonly flags: readonly string[];
}

/**
 * Fills a new store with the gateway of a checkout, and returns the payload of a page, whose SENSITIVE values the master
 * key in the store opens.
 */
async function fill({ checkout, flags }: Version, kv: string): Promise<string> {
  const std = await run(Deno.execPath(), ["run", "-A", "tools/std.ts"], {
    cwd: checkout,
  });
  const args = [
    "run",
    ...std.split(/\s+/).filter((flag) => flag !== ""),
    "-A",
    "--deny-sys=hostname", // which the dump would contain
    "--unstable-kv",
    "main.ts",
  ];
  const own = ["--kv", kv, ...flags];
  const set = (assignment: string) =>
    run(Deno.execPath(), [...args, "set", assignment, ...own], {
      cwd: checkout,
    });
  await set("TITLE=Grüße");
  const payload = await serveOnce(checkout, [...args, ...own], FIRST);
  await set("TITLE=Grüße 2");
  await serveOnce(checkout, [...args, ...own], SECOND);
  return payload;
}

/** Starts a gateway, which publishes the variables, and stops it. Returns the payload of its page. */
async function serveOnce(
  checkout: string,
  args: readonly string[],
  variables: Readonly<Record<string, string>>,
): Promise<string> {
  const directory = await Deno.makeTempDir();
  await Deno.writeTextFile(join(directory, "index.html"), PAGE);
  const port = String(findFreePort());
  const own = ["--hostname", "127.0.0.1", "--port", port, "--hot-reload"];
  const command = new Deno.Command(Deno.execPath(), {
    args: [...args, ...own, "--static-dir", directory],
    env: { ...variables, ...SECRET },
    cwd: checkout,
    stdout: "piped",
  });
  const child = command.spawn();
  const lines = child.stdout
    .pipeThrough(new TextDecoderStream())
    .pipeThrough(new TextLineStream());
  let page = "";
  for await (const line of lines) {
    if (!line.includes("rep.listening")) continue;
    page = await (await fetch(`http://127.0.0.1:${port}/`)).text();
    child.kill("SIGTERM");
  }
  await child.status;
  await Deno.remove(directory, { recursive: true });
  const [, payload = ""] = /<script[^>]*>(.*)<\/script>/.exec(page) ?? [];
  return `${JSON.stringify(JSON.parse(payload), null, 2)}\n`;
}

async function dumpSqlite(version: Version, folder: string): Promise<void> {
  const directory = await Deno.makeTempDir();
  const kv = join(directory, "kv.sqlite3");
  const payload = await fill(version, kv);
  await Deno.writeTextFile(join(folder, "sqlite.json"), payload);
  const sql = await run("sqlite3", [kv, ".dump"]);
  await Deno.writeTextFile(join(folder, "sqlite.sql"), sql);
  await Deno.remove(directory, { recursive: true });
}

async function dumpPostgres(version: Version, folder: string): Promise<void> {
  const bin = await findPostgres();
  if (bin === undefined) throw new Error("Cannot find PostgreSQL");
  await using server = await PostgresServer.create(bin);
  const kv = server.url();
  const payload = await fill(version, kv);
  await Deno.writeTextFile(join(folder, "postgres.json"), payload);
  const options = ["--inserts", "--no-owner", "--schema", "rep_gateway"];
  const sql = await run(join(bin, "pg_dump"), [...options, kv]);
  // Commands of psql, which a driver does not know.
  const statements = sql.replaceAll(/^\\.*\n/gm, "");
  await Deno.writeTextFile(join(folder, "postgres.sql"), statements);
}

if (import.meta.main) {
  const [checkout = ".", folder = ".", ...flags] = Deno.args;
  await Deno.mkdir(folder, { recursive: true });
  await dumpSqlite({ checkout, flags }, folder);
  await dumpPostgres({ checkout, flags }, folder);
}
