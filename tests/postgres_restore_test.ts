import { assertEquals, assertMatch } from "@std/assert";
import { PostgresPool } from "../src/engines/postgres/connection.ts";
import { parsePostgresUrl } from "../src/engines/postgres/url.ts";
import { findPostgres, PostgresServer } from "../tools/postgres.ts";
import { runCommand, type RunningCommand, startCommand } from "./_command.ts";
import { logged } from "./_multi_gateway.ts";
import { FAST, MISSING } from "./_postgres.ts";
import { Client, has, valuesOf } from "./_stream_client.ts";
import { TempDirectory } from "./_temp.ts";
import { within } from "./_time.ts";

// What docs/stores.md and docs/deploy.md say about a schema that is dropped, created again or restored under running gateways.

const bin = await findPostgres();

/** Two gateways on one server, with a file that says A=file and a variable that says A=set. */
class World implements AsyncDisposable {
  readonly server: PostgresServer;
  readonly gateways: RunningCommand[] = [];
  readonly #stack: AsyncDisposableStack;
  readonly #args: readonly string[];

  private constructor(
    server: PostgresServer,
    args: readonly string[],
    stack: AsyncDisposableStack,
  ) {
    this.server = server;
    this.#args = args;
    this.#stack = stack;
  }

  /** @param kvOf Returns the value of the gateways' `--kv`. */
  static async start(
    kvOf: (server: PostgresServer) => Promise<string> | string,
  ): Promise<World> {
    await using stack = new AsyncDisposableStack();
    const server = stack.use(await PostgresServer.create(bin ?? "", FAST));
    const directory = stack.use(
      await TempDirectory.make({
        "index.html": "<head></head>",
        "app.env": "REP_PUBLIC_A=file\nREP_SENSITIVE_S=s\n",
      }),
    );
    const kv = await kvOf(server);
    const flags = ["--hot-reload", "--static-dir", directory.path, "--kv", kv];
    const args = [...flags, "--env-file", directory.at("app.env")];
    const world = new World(server, args, stack.move());
    await Promise.all([world.startGateway(), world.startGateway()]);
    assertEquals(await world.set("set"), "Taken by 2 gateways\n");
    return world;
  }

  async startGateway(): Promise<RunningCommand> {
    const gateway = this.#stack.use(await within(startCommand(this.#args)));
    this.gateways.push(gateway);
    return gateway;
  }

  /** Returns what the command says. */
  async set(value: string): Promise<string> {
    const args = ["set", `A=${value}`, "--kv", this.server.url()];
    return (await runCommand(args)).stderr;
  }

  /** Returns the values of A in all pages that are requested while something happens. */
  async pagesDuring(happening: Promise<unknown>): Promise<unknown[]> {
    const seen = new Set<unknown>();
    let isOver = false;
    const ending = happening.finally(() => isOver = true);
    ending.catch(() => {}); // awaited below
    do {
      for (const { url } of this.gateways) {
        const page = await (await within(fetch(url))).text();
        seen.add(/"A":"(\w+)"/.exec(page)?.[1]);
      }
    } while (!isOver);
    await ending;
    return [...seen];
  }

  async [Symbol.asyncDispose]() {
    await this.#stack.disposeAsync();
  }
}

/** Runs statements as the superuser. */
async function query(server: PostgresServer, text: string): Promise<void> {
  const target = parsePostgresUrl(server.url());
  const connection = await PostgresPool.open(target);
  await connection.query(text);
  connection.close();
}

async function problemsOf({ url }: RunningCommand): Promise<string[]> {
  const response = await within(fetch(`${url}/rep/health`));
  return (await response.json()).problems ?? [];
}

async function keyOf({ url }: RunningCommand): Promise<string> {
  return (await (await within(fetch(`${url}/rep/session-key`))).json()).key;
}

/** Returns the documented commands that contain a text. */
async function documented(page: string, text: string): Promise<string> {
  const markdown = await Deno.readTextFile(page);
  const blocks = [...markdown.matchAll(/^```\w+\n(.*?)^```$/gms)];
  const block = blocks.find(([, block = ""]) => block.includes(text));
  return block?.[1] ?? "";
}

/** Creates the schema, and a role that may use it as documented, but not create it. Returns the role's URL. */
async function createLimitedRole(server: PostgresServer): Promise<string> {
  await createSchema(server);
  const password = server.password;
  await query(server, `CREATE ROLE limited LOGIN PASSWORD '${password}'`);
  await query(server, await grants());
  const url = new URL(server.url());
  url.username = "limited";
  return url.href;
}

async function createSchema(server: PostgresServer): Promise<void> {
  const { code } = await runCommand(["list", "--kv", server.url()]);
  assertEquals(code, 0);
}

async function grants(): Promise<string> {
  const statements = await documented("docs/stores.md", "GRANT USAGE");
  return statements.replaceAll("TO gateway", "TO limited");
}

/** Runs a documented command in a directory, for a server. */
async function runDocumented(
  program: string,
  server: PostgresServer,
  directory: TempDirectory,
): Promise<void> {
  const commands = await documented("docs/deploy.md", program);
  const command = commands.split("\n").find((it) => it.startsWith(program));
  const { code, stderr } = await new Deno.Command("sh", {
    args: ["-c", command ?? "false"],
    env: { url: server.url(), PATH: `${bin}:${Deno.env.get("PATH")}` }, // Debian has the programs beside the server
    cwd: directory.path,
  }).output();
  assertEquals([code, new TextDecoder().decode(stderr)], [0, ""]);
}

function testPostgres(
  name: string,
  kvOf: (server: PostgresServer) => Promise<string> | string,
  test: (world: World) => Promise<void>,
) {
  Deno.test({
    name: bin === undefined ? `without ${MISSING}: ${name}` : name,
    ignore: bin === undefined,
    async fn() {
      await using world = await World.start(kvOf);
      await test(world);
    },
  });
}

testPostgres(
  "gateways whose schema is dropped create it again, with what was set and the master key",
  (server) => server.url(),
  async (world) => {
    const { gateways, server } = world;
    const key = await keyOf(gateways[0]!);
    await using stream = await Client.open(gateways[0]!);
    await using other = await Client.open(gateways[1]!);

    await query(server, "DROP SCHEMA rep_gateway CASCADE");
    // One of them may create the schema before the other notices that it is gone.
    const emptied = logged(gateways, "rep.store.emptied");
    assertEquals(await world.pagesDuring(emptied), ["set"]);
    assertEquals(await keyOf(await world.startGateway()), key);
    await world.set("newer");
    for (const client of [stream, other]) {
      await client.until(has("newer"));
      assertEquals(new Set(valuesOf(client)), new Set(["set", "newer"]));
    }

    const problems = await Promise.all(gateways.map(problemsOf));
    assertEquals(problems, [["store_emptied"], ["store_emptied"], []]); // the third one has read nothing before
    for (const gateway of gateways) {
      gateway.signal("SIGHUP");
      await gateway.printed("no variable has changed");
      assertEquals(await problemsOf(gateway), []);
    }
  },
);

for (
  const loss of [
    "DROP SCHEMA rep_gateway CASCADE",
    "TRUNCATE rep_gateway.entry",
  ]
) {
  testPostgres(
    `a set that comes before the gateways notice the loss hides nothing: ${loss}`,
    (server) => server.url(),
    async ({ gateways, server }) => {
      for (const gateway of gateways) gateway.signal("SIGSTOP");
      await query(server, loss);
      const { code } = await runCommand(["set", "B=new", "--kv", server.url()]);
      assertEquals(code, 0);
      const emptied = logged(gateways, "rep.store.emptied");
      for (const gateway of gateways) gateway.signal("SIGCONT");
      await emptied;
      const list = await runCommand(["list", "--json", "--kv", server.url()]);
      const variables: { name: string; value: string }[] = JSON.parse(
        list.stdout,
      );
      assertEquals(variables.map(({ name, value }) => [name, value]), [
        ["A", "set"],
        ["B", "new"],
      ]);
      for (const gateway of gateways) {
        const page = await (await within(fetch(gateway.url))).text();
        assertMatch(page, /"A":"set","B":"new"/);
        assertEquals(await problemsOf(gateway), ["store_emptied"]);
      }
    },
  );
}

testPostgres(
  "gateways that may not create their schema serve on until somebody has created it as documented",
  createLimitedRole,
  async (world) => {
    const { gateways, server } = world;
    await query(server, "DROP SCHEMA rep_gateway CASCADE");
    const down = logged(gateways, "rep.store.down");
    assertEquals(await world.pagesDuring(down), ["set"]);
    assertEquals(await problemsOf(gateways[0]!), ["store_unavailable"]);

    await createSchema(server);
    await query(server, await grants());
    const up = logged(gateways, "rep.store.up");
    assertEquals(await world.pagesDuring(up), ["set"]);
    await world.set("newer");
  },
);

testPostgres(
  "a backup is restored beside running gateways, whose open pages get its values",
  createLimitedRole,
  async (world) => {
    const { gateways, server } = world;
    await using directory = await TempDirectory.make();
    await using stream = await Client.open(gateways[0]!);
    await runDocumented("pg_dump", server, directory);
    await world.set("newer");
    await stream.until(has("newer"));
    await runDocumented("pg_restore", server, directory);
    await stream.until((client) => valuesOf(client).at(-1) === "set");
    await world.set("newest");
    await stream.until(has("newest"));
    assertEquals(valuesOf(stream), ["newer", "set", "newest"]);
    assertEquals(await Promise.all(gateways.map(problemsOf)), [[], []]);
    const emptied = gateways.flatMap(({ output }) =>
      output.filter((line) => line.includes("rep.store.emptied"))
    );
    assertEquals(emptied, []);
  },
);
