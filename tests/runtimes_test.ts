/** The checks of `tests/runtimes/` in every runtime that the npm package is for, each with its own program. */
import { assertEquals } from "@std/assert";
import { Denokv, findDenokv } from "../tools/denokv.ts";
import { buildNpmPackage } from "../tools/npm_package.ts";
import { findPostgres, PostgresServer } from "../tools/postgres.ts";
import { RunningCommand } from "./_command.ts";
import { FAST, MISSING } from "./_postgres.ts";
import { installedPackage, pathOf, run, testRuntimes } from "./_runtimes.ts";
import { TempDirectory } from "./_temp.ts";
import type { Result } from "./runtimes/check.ts";
import { SUITE, WORKER_SUITE } from "./runtimes/suite.ts";

/** Deno's own flags: it reads no configuration but that of the project, as anywhere else. */
const ARGS = [
  ["Deno", ["run", "-A", "--quiet", "--node-modules-dir=manual"]],
  ["Node 22", []],
  ["Node 24", []],
  ["Bun", []],
] as const;

/** Makes a project with the package, the packages that it names, and the checks. */
async function makeProject() {
  const project = await TempDirectory.make({
    "package.json": '{ "private": true, "type": "module" }',
  });
  for (const scope of ["@rep", "@deno"]) {
    await Deno.mkdir(project.at(`node_modules/${scope}`), { recursive: true });
  }
  await buildNpmPackage(project.path);
  await Deno.rename(
    project.at("package"),
    project.at("node_modules/@rep/gateway"),
  );
  for (const name of ["re2js", "pg", "@deno/kv"]) {
    await Deno.symlink(
      installedPackage(name),
      project.at(`node_modules/${name}`),
    );
  }
  for await (const { name } of Deno.readDir("tests/runtimes")) {
    await Deno.copyFile(`tests/runtimes/${name}`, project.at(name));
  }
  return project;
}

function failuresOf(results: readonly Result[]): readonly Result[] {
  return results.filter(({ error }) => error !== null);
}

function namesOf(
  results: readonly { name: string }[],
): readonly string[] {
  return results.map(({ name }) => name);
}

for (const [program, args] of ARGS) {
  testRuntimes(
    `${program} passes all checks of the module, after which nothing keeps its process`,
    async () => {
      await using project = await makeProject();
      const output = await run(program, [...args, "program.ts"], project.path, {
        REP_PUBLIC_RUNTIME: program,
      });
      const results: Result[] = output.trim().split("\n").map((line) =>
        JSON.parse(line)
      );
      assertEquals(failuresOf(results), []);
      assertEquals(namesOf(results), namesOf(SUITE));
    },
  );
}

testRuntimes(
  "workerd passes the checks of workers in one Durable Object, without any module of Node",
  async () => {
    await using project = await makeProject();
    const bundle = [
      "bundle",
      "--quiet",
      "--node-modules-dir=manual",
      "--code-splitting",
      "--platform=browser",
    ];
    await run(
      "Deno",
      [...bundle, "--outdir=worker", "worker.ts"],
      project.path,
    );
    await project.write(
      "config.capnp",
      await workerdConfig(project.at("worker")),
    );
    const options = {
      program: pathOf("workerd"),
      args: ["serve", "config.capnp", "--control-fd=1"],
      env: {},
    };
    await using worker = await RunningCommand.start({
      ...options,
      cwd: project.path,
    }, (line) => {
      const port = /"event":"listen".*"port":(\d+)/.exec(line)?.[1];
      return port && `http://127.0.0.1:${port}`;
    });
    const results: Result[] = await (await fetch(worker.url)).json();
    assertEquals(failuresOf(results), []);
    assertEquals(
      namesOf(results),
      namesOf(WORKER_SUITE),
    );
  },
);

/** Without `nodejs_compat`: a module of `node:` that was loaded would be an error. */
async function workerdConfig(folder: string) {
  const files = await Array.fromAsync(Deno.readDir(folder), ({ name }) => name);
  const [first = "", ...others] = files.sort((a, b) =>
    Number(b === "worker.js") - Number(a === "worker.js")
  );
  const modules = [first, ...others].map((name) =>
    `(name = "${name}", esModule = embed "worker/${name}")`
  );
  return `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [(name = "main", worker = .worker)],
  sockets = [(name = "http", address = "127.0.0.1:0", http = (), service = "main")],
);
const worker :Workerd.Worker = (
  compatibilityDate = "2026-01-01",
  modules = [${modules.join(", ")}],
  durableObjectNamespaces = [(className = "Checks", uniqueKey = "checks")],
  durableObjectStorage = (inMemory = void),
  bindings = [(name = "CHECKS", durableObjectNamespace = "Checks")],
);
`;
}

/** What two gateways on one database must print. */
const SHARED = {
  change: "B",
  decrypted: { TOKEN: "t0ken" },
  statuses: [200, 429],
  lines: [],
};

async function checkStore(
  url: string,
  env: Record<string, string> = {},
) {
  await using project = await makeProject();
  assertEquals(
    JSON.parse(
      await run("Node 22", ["store_program.ts", url], project.path, env),
    ),
    SHARED,
  );
}

const postgres = await findPostgres();
const denokv = await findDenokv();

testRuntimes(
  "Node keeps everything in PostgreSQL, by the package pg",
  async () => {
    if (postgres === undefined) return;
    await using server = await PostgresServer.create(postgres, FAST);
    await checkStore(PostgresServer.url([server], server));
  },
  postgres === undefined ? MISSING : undefined,
);

testRuntimes(
  "Node keeps everything in Deno KV, by the package @deno/kv",
  () => checkStore(":memory:"),
);

testRuntimes(
  "Node keeps everything in a denokv server, by the package @deno/kv",
  async () => {
    if (denokv === undefined) return;
    await using directory = await TempDirectory.make();
    const token = crypto.randomUUID();
    await using server = await Denokv.launch({
      program: denokv,
      path: directory.at("kv.sqlite3"),
      token,
    });
    await checkStore(`http://127.0.0.1:${server.port}`, {
      DENO_KV_ACCESS_TOKEN: token,
    });
  },
  denokv === undefined
    ? "denokv (deno task test:denokv installs it)"
    : undefined,
);
