/** The program of the npm package, with Node.js alone: everything that needs Deno becomes one. */
import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { dirname } from "@std/path";
import { npm } from "../tools/install_npm_packages.ts";
import { TESTED_DENO } from "../tools/npm/launcher.ts";
import { TextLineStream } from "../tools/text_lines.ts";
import { npmPackage } from "./_npm_package.ts";
import { pathOf, testRuntimes } from "./_runtimes.ts";
import { TempDirectory } from "./_temp.ts";

/** A project with the package, and a PATH of its own without Deno. */
async function makeProject(): Promise<TempDirectory> {
  const project = await TempDirectory.make({
    "index.html": "<html><head></head></html>",
    // Patterns need a package from npm, which Deno has to find in spite of the project's package.json.
    ".rep.yaml":
      'version: "0.1.0"\nvariables:\n  TITLE: { tier: public, pattern: "H.*", default: Hello }\n',
  });
  const { tarball } = await npmPackage();
  const options = ["--prefer-offline", "--no-audit", "--no-fund"];
  const installed = await npm(["install", ...options, tarball], project.path);
  assertEquals(installed.success, true, installed.stderr);
  await Deno.mkdir(project.at("bin"));
  await Deno.symlink(pathOf("Node 24"), project.at("bin/node"));
  return project;
}

/** Returns the program with these arguments, and a PATH that has only the project's `bin`, and these folders. */
function program(
  project: TempDirectory,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Deno.Command {
  return new Deno.Command(pathOf("Node 24"), {
    args: [project.at("node_modules/@rep/gateway/rep-gateway.js"), ...args],
    cwd: project.path,
    clearEnv: true,
    env: {
      HOME: project.path,
      PATH: project.at("bin"),
      DENO_DIR: project.at("deno"),
      NO_COLOR: "1",
      ...registryOf(Deno.env.toObject()),
      ...env,
    },
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  });
}

/** Returns the variables that say where npm and Deno find packages. */
function registryOf(env: Readonly<Record<string, string>>) {
  return Object.fromEntries(
    Object.entries(env).filter(([name]) =>
      /^npm_config_|_proxy$|^(NPM_CONFIG|DENO_CERT|DENO_TLS|NODE_EXTRA_CA|SSL_CERT)/i
        .test(name)
    ),
  );
}

async function outputOf(command: Deno.Command) {
  const { code, stdout, stderr } = await command.output();
  const decoder = new TextDecoder();
  return { code, out: decoder.decode(stdout), err: decoder.decode(stderr) };
}

/** Puts a script on the project's PATH. */
async function addScript(
  project: TempDirectory,
  name: string,
  lines: string,
): Promise<void> {
  await project.write(`bin/${name}`, `#!/bin/sh\n${lines}\n`);
  await Deno.chmod(project.at(`bin/${name}`), 0o755);
}

/** Puts the Deno of the tests on the project's PATH. */
async function addDeno(project: TempDirectory): Promise<void> {
  await Deno.symlink(Deno.execPath(), project.at("bin/deno"));
}

testRuntimes(
  "the npm program becomes the Deno on the PATH: the same process serves, and ends with a signal",
  async () => {
    await using project = await makeProject();
    await addDeno(project);
    const args = [
      "--hostname=127.0.0.1",
      "--port=0",
      "--static-dir=.",
      "--manifest=.rep.yaml",
      "--kv=:memory:",
    ];
    const usage = await outputOf(program(project, ["list", "--help"]));
    assertStringIncludes(usage.out, "Usage: npx @rep/gateway list [OPTION");
    const gateway = program(project, args).spawn();
    let url: string | undefined;
    const lines = gateway.stdout.pipeThrough(new TextDecoderStream())
      .pipeThrough(new TextLineStream());
    for await (const line of lines.values({ preventCancel: true })) {
      const event = JSON.parse(line);
      if (event.msg !== "rep.listening") continue;
      url = event.url;
      break;
    }
    assertMatch(
      await Deno.readTextFile(`/proc/${gateway.pid}/comm`),
      /^deno$/m,
    );
    const page = await (await fetch(`${url}`)).text();
    assertStringIncludes(page, '"TITLE":"Hello"');
    gateway.kill("SIGTERM");
    assertEquals((await gateway.status).code, 0);
    await lines.cancel();
    await gateway.stderr.cancel();
  },
);

testRuntimes(
  "the npm program installs Deno once if the PATH has none that is new enough, and its default database stays",
  async () => {
    await using project = await makeProject();
    await addScript(
      project,
      "deno",
      'echo "A version manager speaks"\necho \'["1.46.3","/bin/false"]\'',
    );
    await Deno.symlink(await findNpm(), project.at("bin/npm"));
    const env = { npm_config_cache: await npmCache() };
    const set = await outputOf(program(project, ["set", "A=1"], env));
    assertMatch(set.err, /^Installing Deno .* once\n/);
    assertEquals(set.code, 0, set.err);

    await Deno.rename(
      project.at("node_modules/@rep/gateway"),
      project.at("node_modules/@rep/gateway-next"),
    );
    await Deno.symlink("gateway-next", project.at("node_modules/@rep/gateway"));
    const listed = await outputOf(program(project, ["list"], env));
    assertMatch(listed.out, /^A +\d+ +\S+ +1$/m);
    assertEquals([listed.code, listed.err], [0, ""]);
  },
);

testRuntimes(
  "the npm program replaces an installation of Deno that is damaged, also if two begin at once",
  async () => {
    await using project = await makeProject();
    await addScript(project, "deno", "echo nothing that is JSON");
    await Deno.symlink(await findNpm(), project.at("bin/npm"));
    const env = { npm_config_cache: await npmCache() };
    const version = `.cache/rep-gateway/deno-${TESTED_DENO}`;
    const binary = `${version}/node_modules/deno/deno`;
    for (const damaged of [binary, `${version}/package.json`]) {
      await Deno.remove(project.at(version), { recursive: true })
        .catch(() => {});
      await Deno.mkdir(dirname(project.at(damaged)), { recursive: true });
      await project.write(damaged, "");
      await Deno.chmod(project.at(damaged), 0o755);
      const run = () => outputOf(program(project, ["history"], env));
      for (const { code, err } of await Promise.all([run(), run()])) {
        assertMatch(err, /^Installing Deno .* once\n/);
        assertEquals(code, 0, err);
      }
    }
    const folders = Deno.readDirSync(project.at(".cache/rep-gateway"));
    assertEquals([...folders].length, 1, "what is incomplete is removed");
  },
);

testRuntimes(
  "the npm program says into which folder it cannot install Deno",
  async () => {
    await using project = await makeProject();
    await project.write(".cache", "a file");
    const { code, err } = await outputOf(program(project, ["list"]));
    assertEquals(code, 1);
    assertMatch(
      err,
      /^Cannot install Deno into ".*\.cache\/rep-gateway": .*npm install deno@.*PATH.*XDG_CACHE_HOME/,
    );
  },
);

testRuntimes(
  "the npm program says what is missing: a newer Node.js, or a package of Deno for the system",
  async () => {
    await using project = await makeProject();
    await addScript(project, "npm", "exit 1");
    const missing = await outputOf(program(project, ["list"]));
    assertEquals(missing.code, 1);
    assertMatch(missing.err, /Cannot install Deno .*npm install deno@.*PATH/);
    assertEquals(missing.err.includes("Alpine"), false);

    await addScript(project, "npm", NPM_WITH_BROKEN_DENO);
    const broken = await outputOf(program(project, ["list"]));
    assertEquals(broken.code, 1);
    assertMatch(broken.err, /\nCannot run Deno .*Alpine.*noexec/);

    const old = "--import=data:text/javascript,delete(process.execve)";
    const env = { NODE_OPTIONS: old };
    const tooOld = await outputOf(program(project, ["list"], env));
    assertMatch(
      tooOld.err,
      /^Cannot start Deno: it needs Node\.js 22\.15.*v24/,
    );
    assertEquals(tooOld.code, 1);
    // As Node.js 20, for everything that it could run, and with both kinds of commands.
    const older = "--import=data:text/javascript,delete(Map.groupBy)";
    for (const args of [["lint", "."], ["init"], ["list"], ["--help"]]) {
      const { code, err } = await outputOf(
        program(project, args, { NODE_OPTIONS: older }),
      );
      assertMatch(
        err,
        /^Cannot use @rep\/gateway: it needs Node\.js 22\.15 or newer, got v24\S+\n$/,
      );
      assertEquals(code, 1);
    }
    const helped = await outputOf(program(project, ["--help"], env));
    assertStringIncludes(helped.out, "Usage: npx @rep/gateway [OPTION ...]");
  },
);

/** An npm whose Deno does not run, as on Alpine. */
const NPM_WITH_BROKEN_DENO = `PATH=/usr/bin:/bin
mkdir -p "$3/node_modules/deno"
echo 'throw new Error("Musl is not supported")' > "$3/node_modules/deno/bin.cjs"`;

/** What a broken Deno on the PATH does, as a script; `%` is the project. */
const BROKEN_DENOS: Readonly<Record<string, string>> = {
  "names a binary that does not exist": `echo '["99.0.0","%/gone"]'`,
  "names a binary that is a directory": `echo '["99.0.0","%/bin"]'`,
  "names a binary that cannot be executed": `echo '["99.0.0","%/index.html"]'`,
  "names a binary that is too old": `echo '["99.0.0","%/old"]'`,
  "fails": `echo '["99.0.0","/bin/sh"]'; exit 134`,
  "ends by a signal": "kill -9 $$",
  "hangs, and ignores signals": "trap '' TERM INT; /bin/sleep 15",
  "prints without end": "exec /usr/bin/yes",
};

testRuntimes(
  "the npm program passes over a Deno on the PATH that is broken, and takes the next one",
  async () => {
    await using project = await makeProject();
    await Deno.mkdir(project.at("next"));
    await project.write("old", `#!/bin/sh\necho '["1.46.3","/bin/sh"]'\n`);
    await Deno.chmod(project.at("old"), 0o755);
    await Deno.symlink(Deno.execPath(), project.at("next/deno"));
    const path = `${project.at("bin")}:${project.at("next")}`;
    const args = ["list", "--kv", project.at("kv.sqlite3")];
    await outputOf(
      program(project, ["set", "A=1", ...args.slice(1)], { PATH: path }),
    );
    for (const [what, script] of Object.entries(BROKEN_DENOS)) {
      await addScript(project, "deno", script.replaceAll("%", project.path));
      const { code, out, err } = await outputOf(
        program(project, args, { PATH: path }),
      );
      assertEquals([code, err], [0, ""], what);
      assertMatch(out, /^A +/m, what);
    }
  },
);

testRuntimes(
  "the npm program installs Deno below XDG_CACHE_HOME if that is an absolute path, otherwise below ~/.cache",
  async () => {
    await using project = await makeProject();
    await addScript(project, "npm", "exit 1");
    const own = project.at(".cache");
    const other = project.at("other");
    const cases = [["", own], ["relative", own], ["./x", own], [other, other]];
    for (const [named = "", expected = ""] of cases) {
      const env = { XDG_CACHE_HOME: named };
      const { err } = await outputOf(program(project, ["list"], env));
      assertStringIncludes(err, `into ${expected}/rep-gateway/deno-`, named);
      const left = Deno.readDirSync(`${expected}/rep-gateway`);
      assertEquals([...left].length, 0, named);
    }
    const names = [...Deno.readDirSync(project.path)].map(({ name }) => name);
    assertEquals(names.includes("relative") || names.includes("x"), false);
  },
);

/** An npm that goes on writing until it is ended, in a process of its own. */
const WRITING_NPM = `PATH=/usr/bin:/bin
mkdir -p "$3/node_modules"
(while :; do echo x > "$3/node_modules/$(date +%N)"; sleep 0.01; done) &
echo writing > "$HOME/begun"
wait`;

/** An npm whose Deno runs for the first time until the test has sent its signal. */
const SLOW_DENO = `PATH=/usr/bin:/bin
mkdir -p "$3/node_modules/deno"
cat > "$3/node_modules/deno/bin.cjs" <<'END'
const { existsSync, writeFileSync } = require("node:fs");
const begun = process.env.HOME + "/begun";
writeFileSync(begun, "running");
while (existsSync(begun)) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 10);
console.log('["99.0.0","/bin/sh"]');
END`;

for (
  const [what, npmScript] of [
    ["while npm writes", WRITING_NPM],
    ["while Deno runs for the first time", SLOW_DENO],
  ] as const
) {
  testRuntimes(
    `the npm program leaves nothing of an installation that a signal ends ${what}`,
    async () => {
      await using project = await makeProject();
      await addScript(project, "npm", npmScript);
      for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"] as const) {
        const child = program(project, ["list"]).spawn();
        while (!await exists(project.at("begun"))) {
          await new Promise((resolve) => setTimeout(resolve, 20));
        }
        child.kill(signal);
        await Deno.remove(project.at("begun"));
        const { signal: ended } = await child.output();
        assertEquals(ended, signal);
        const left = Deno.readDirSync(project.at(".cache/rep-gateway"));
        assertEquals([...left].length, 0);
      }
    },
  );
}

async function exists(path: string): Promise<boolean> {
  return await Deno.stat(path).then(() => true, () => false);
}

async function findNpm(): Promise<string> {
  const which = new Deno.Command("sh", { args: ["-c", "command -v npm"] });
  const { stdout } = await which.output();
  return await Deno.realPath(new TextDecoder().decode(stdout).trim());
}

async function npmCache(): Promise<string> {
  return (await npm(["config", "get", "cache"], ".")).stdout.trim();
}
