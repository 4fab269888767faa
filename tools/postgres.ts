/**
 * Finds the programs of a PostgreSQL server, and runs servers for tests and benchmarks: on 127.0.0.1, in a temporary
 * directory, as a user that is not root. Which programs are used is printed by
 *
 *     deno run -A tools/postgres.ts
 */
import { dirname, join } from "@std/path";
import { findFile } from "./find_program.ts";
import { findFreePort } from "./free_port.ts";

/** Where Debian and Ubuntu install a version each. */
const DEBIAN_FOLDER = "/usr/lib/postgresql";
/** Users that `initdb` may run as; it rejects root. */
const USERS = ["postgres", "nobody"];
/** The superuser of the servers, and the name of their database. */
const USER = "gateway";
const DATABASE = "postgres";
const LOCAL_ONLY = {
  listen_addresses: "127.0.0.1",
  unix_socket_directories: "",
};
/** The data directory in the temporary one. */
const DATA = "data";

/**
 * Returns the folder of `initdb`, `postgres` and `pg_basebackup`: the one that POSTGRES_BIN names, or Debian's newest;
 * `undefined` if there is none.
 */
export async function findPostgres(): Promise<string | undefined> {
  const named = Deno.env.get("POSTGRES_BIN");
  if (named) return named;
  const versions = await namesIn(DEBIAN_FOLDER);
  versions.sort((a, b) => Number(b) - Number(a));
  const folders = versions.map((version) =>
    join(DEBIAN_FOLDER, version, "bin")
  );
  const initdb = await findFile(folders, "initdb"); // clients are there as well
  return initdb && dirname(initdb);
}

async function namesIn(folder: string): Promise<string[]> {
  try {
    return await Array.fromAsync(Deno.readDir(folder), ({ name }) => name);
  } catch {
    return []; // not installed
  }
}

/** Options of {@linkcode PostgresServer.create}. */
export interface PostgresServerOptions {
  /** Settings such as `fsync`. @default {{}} */
  settings?: Readonly<Record<string, string>>;
  /** Files to put into the data directory, by name. @default {{}} */
  files?: Readonly<Record<string, string>>;
}

/** A server that can be killed and started again: same port, same data. */
export class PostgresServer implements AsyncDisposable {
  readonly port: number;
  readonly password: string;
  readonly #bin: string;
  readonly #directory: string;
  readonly #settings: Readonly<Record<string, string>>;
  #isRunning = false;

  private constructor(
    bin: string,
    { directory, password, settings }: Location,
  ) {
    this.#bin = bin;
    this.#directory = directory;
    this.#settings = settings;
    this.password = password;
    this.port = findFreePort();
  }

  /** Creates a database and starts its server. */
  static async create(
    bin: string,
    options: PostgresServerOptions = {},
  ): Promise<PostgresServer> {
    const { settings = {}, files = {} } = options;
    const password = crypto.randomUUID();
    const server = new PostgresServer(bin, {
      directory: await makeDirectory(),
      password,
      settings,
    });
    await server.#write("password", password);
    const access = [
      "--username",
      USER,
      "--auth",
      "scram-sha-256",
      "--pwfile",
      join(server.#directory, "password"),
    ];
    await server.#run("initdb", [...access, "--no-sync"]);
    for (const [name, text] of Object.entries(files)) {
      await server.#write(`${DATA}/${name}`, text);
    }
    await server.start();
    return server;
  }

  /**
   * Copies this server's data to a new one, which follows it by streaming replication until it is promoted.
   *
   * @param port The port of this server, or of a relay to it.
   */
  async createReplica(port: number = this.port): Promise<PostgresServer> {
    const directory = await makeDirectory();
    const replica = new PostgresServer(this.#bin, {
      directory,
      password: this.password,
      settings: this.#settings,
    });
    const source = [
      "--host",
      "127.0.0.1",
      "--port",
      String(port),
      "--username",
      USER,
    ];
    await replica.#run("pg_basebackup", [
      ...source,
      "--write-recovery-conf",
      "--checkpoint",
      "fast",
      "--no-sync",
    ]);
    await replica.start();
    return replica;
  }

  /** The URL of servers that are replicas of each other, with parameters such as `schema=a`. */
  static url(
    servers: readonly { port: number }[],
    { password }: PostgresServer,
    parameters = "",
  ): string {
    const hosts = servers.map(({ port }) => `127.0.0.1:${port}`).join();
    return `postgres://${USER}:${password}@${hosts}/${DATABASE}${
      parameters && `?${parameters}`
    }`;
  }

  /** The URL of this server alone. */
  url(parameters = ""): string {
    return PostgresServer.url([this], this, parameters);
  }

  /** Starts the server, and waits until it accepts connections. */
  async start(): Promise<void> {
    const settings = Object.entries({
      port: String(this.port),
      ...LOCAL_ONLY,
      ...this.#settings,
    });
    const flags = settings.map(([name, value]) => `-c ${name}='${value}'`).join(
      " ",
    );
    await this.#run("pg_ctl", [
      "--wait",
      "--silent",
      "--log",
      join(this.#directory, "log"),
      "--options",
      flags,
      "start",
    ]);
    this.#isRunning = true;
  }

  /** Ends the server without notice and without a checkpoint, as a crash does. */
  async kill(): Promise<void> {
    if (!this.#isRunning) return;
    this.#isRunning = false;
    await this.#run("pg_ctl", [
      "--wait",
      "--silent",
      "--mode",
      "immediate",
      "stop",
    ]);
  }

  /** Makes a replica a primary. */
  async promote(): Promise<void> {
    await this.#run("pg_ctl", ["--wait", "--silent", "promote"]);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill();
    await Deno.remove(this.#directory, { recursive: true });
  }

  get #data(): string {
    return join(this.#directory, DATA);
  }

  async #run(program: string, args: readonly string[]): Promise<void> {
    const { success, stderr } =
      await (await this.#command(program, ["-D", this.#data, ...args]))
        .output();
    if (!success) {
      throw new Error(
        `Cannot run ${program}: ${new TextDecoder().decode(stderr)}`,
      );
    }
  }

  async #command(
    program: string,
    args: readonly string[],
  ): Promise<Deno.Command> {
    const env = { PGPASSWORD: this.password, LC_ALL: "C.UTF-8" };
    const user = await findUser();
    const pipes = { stdin: "null", stdout: "null", stderr: "piped" } as const;
    return new Deno.Command(join(this.#bin, program), {
      args: [...args],
      env,
      cwd: this.#directory,
      ...user,
      ...pipes,
    });
  }

  async #write(name: string, text: string): Promise<void> {
    const path = join(this.#directory, name);
    await Deno.writeTextFile(path, text, { mode: 0o600 });
    const user = await findUser();
    if (user !== undefined) await Deno.chown(path, user.uid, user.gid);
  }
}

interface Location {
  readonly directory: string;
  readonly password: string;
  readonly settings: Readonly<Record<string, string>>;
}

async function makeDirectory(): Promise<string> {
  const directory = await Deno.makeTempDir();
  const user = await findUser();
  if (user !== undefined) await Deno.chown(directory, user.uid, user.gid);
  return directory;
}

/** The user to run as if this process runs as root; `undefined` if it does not. */
async function findUser(): Promise<{ uid: number; gid: number } | undefined> {
  if (Deno.uid() !== 0) return undefined;
  for (const name of USERS) {
    const uid = await id("-u", name);
    const gid = await id("-g", name);
    if (uid !== undefined && gid !== undefined) return { uid, gid };
  }
  throw new Error(
    `Cannot run PostgreSQL as root: expected one of the users ${
      USERS.join(", ")
    }`,
  );
}

async function id(flag: string, name: string): Promise<number | undefined> {
  const { success, stdout } = await new Deno.Command("id", {
    args: [flag, name],
    stderr: "null",
  }).output();
  return success ? Number(new TextDecoder().decode(stdout)) : undefined;
}

async function main(): Promise<void> {
  const bin = await findPostgres();
  if (bin === undefined) {
    throw new Error(
      "Cannot find PostgreSQL: expected Debian's package postgresql, or POSTGRES_BIN to name the folder of initdb",
    );
  }
  await Deno.stdout.write(
    new TextEncoder().encode(`PostgreSQL is in ${bin}\n`),
  );
}

if (import.meta.main) await main();
