/** `--keep-builds` with real processes: permissions of Deno and of the system, a directory that CI fills, and its messages. */
import { assertEquals, assertMatch } from "@std/assert";
import {
  commandArgs,
  listeningUrl,
  runCommand,
  RunningCommand,
  startCommand,
} from "./_command.ts";
import { buildOf, Directories } from "./content/builds/_builds.ts";
import { findProgram } from "../tools/find_program.ts";
import { findFreePort } from "../tools/free_port.ts";

const A = buildOf("A", { "assets/a-1.js": "a", "assets/a-1.js.map": "map" });
const B = buildOf("B", { "assets/b-2.js": "bb" });

function argsOf(directories: Directories): string[] {
  return [
    `--static-dir=${directories.at("app")}`,
    "--immutable=assets/*",
    `--keep-builds=${directories.at("keep")}`,
    "--kv=:memory:",
  ];
}

async function statusOf(url: string): Promise<number> {
  const response = await fetch(url);
  await response.body?.cancel();
  return response.status;
}

async function problemsOf({ url }: RunningCommand): Promise<unknown> {
  return (await (await fetch(`${url}/rep/health`)).json()).problems;
}

/** What docs/builds.md tells CI to do with each build, before it is deployed. */
const FILL =
  `mkdir -p "$KEEP/_/files" && (cd "$BUILD" && find assets -type f ! -name '*.map' ! -name '*.html' -exec cp -p --parents -t "$KEEP/_/files" {} +)`;

Deno.test("without the permission to write, the gateway serves what CI has put into the directory, which is no problem", async () => {
  await using directories = await Directories.make();
  await directories.write("app", A);
  const env = { BUILD: directories.at("app"), KEEP: directories.at("keep") };
  const { code } = await new Deno.Command("sh", { args: ["-c", FILL], env })
    .output();
  assertEquals(code, 0);
  assertEquals(await directories.kept(), ["assets/a-1.js"]);
  await directories.replace("app", B);
  const permissions = [
    "--allow-net",
    "--allow-env",
    "--allow-read",
    "--no-prompt",
  ];
  await using gateway = await startCommand(
    argsOf(directories),
    {},
    permissions,
  );
  assertEquals(await statusOf(`${gateway.url}/assets/a-1.js`), 200);
  assertEquals(await statusOf(`${gateway.url}/assets/x-1.js`), 404);
  assertEquals(await problemsOf(gateway), undefined);
  const { detail } = await gateway.logged(({ detail }) =>
    String(detail).includes("--keep-builds")
  );
  assertEquals(
    detail,
    `--keep-builds "${
      directories.at("keep")
    }" is only read: expected --allow-write=${
      directories.at("keep")
    }, unless something else fills it`,
  );
  assertEquals(Object.keys(await directories.read("keep")), [
    "_/files/assets/a-1.js",
  ]);
});

Deno.test("--allow-write=DIR is the only permission to write that is needed, also for a directory that does not exist yet", async () => {
  await using directories = await Directories.make();
  await directories.write("app", A);
  const permissions = [
    "--allow-net",
    "--allow-env",
    "--allow-read",
    `--allow-write=${directories.at("keep")}`,
    "--no-prompt",
  ];
  await using gateway = await startCommand(
    argsOf(directories),
    {},
    permissions,
  );
  assertEquals(await problemsOf(gateway), undefined);
  assertEquals(await directories.kept(), ["assets/a-1.js"]);
});

const canDropCapability = Deno.build.os === "linux" && Deno.uid() === 0 &&
  await findProgram("setpriv") !== undefined;

/** Starts a gateway of root that has no more rights than others. */
async function startWithoutRights(
  directories: Directories,
): Promise<RunningCommand> {
  const capabilities = "--bounding-set=-dac_override,-dac_read_search";
  const own = ["--hostname=127.0.0.1", "--port", String(findFreePort())];
  const args = commandArgs([...own, ...argsOf(directories)]);
  return await RunningCommand.start({
    program: "setpriv",
    args: [capabilities, Deno.execPath(), ...args],
    env: {},
  }, listeningUrl);
}

Deno.test({
  name:
    `a volume has a directory lost+found, which only root may read: as the app's and as that of kept builds, nothing is wrong with it${
      canDropCapability ? "" : " (skipped: needs root and setpriv)"
    }`,
  ignore: !canDropCapability,
  async fn() {
    await using directories = await Directories.make();
    await directories.write("app", A);
    for (const name of ["app/lost+found", "keep/lost+found"]) {
      await Deno.mkdir(directories.at(name), { recursive: true });
      await Deno.chmod(directories.at(name), 0o700);
      await Deno.chown(directories.at(name), 1, 1);
    }
    await using gateway = await startWithoutRights(directories);
    assertEquals(await problemsOf(gateway), undefined);
    assertEquals(await directories.kept(), ["assets/a-1.js"]);
    await gateway[Symbol.asyncDispose]();
    const errors = gateway.output.filter((line) => /"ERROR"/.test(line));
    assertEquals(errors, []);
  },
});

Deno.test({
  name: `a directory without write permission is a problem, and is served${
    canDropCapability ? "" : " (skipped: needs root and setpriv)"
  }`,
  ignore: !canDropCapability,
  async fn() {
    await using directories = await Directories.make();
    await directories.write("app", B);
    await directories.write("keep/_/files", { "assets/a-1.js": "a" });
    for (const name of ["keep", "keep/_", "keep/_/files"]) {
      await Deno.chown(directories.at(name), 1, 1);
    }
    await using gateway = await startWithoutRights(directories);
    assertEquals(await problemsOf(gateway), ["builds_not_kept"]);
    assertEquals(await statusOf(`${gateway.url}/assets/a-1.js`), 200);
    const { detail } = await gateway.logged(({ msg }) =>
      msg === "rep.builds.not_kept"
    );
    assertMatch(String(detail), /Permission denied/);
  },
});

Deno.test("a directory that cannot keep builds ends the start with a message that names the flag", async () => {
  await using directories = await Directories.make();
  await directories.write("app", A);
  const { code, stderr } = await runCommand([
    `--static-dir=${directories.at("app")}`,
    "--immutable=assets/*",
    `--keep-builds=${directories.at("app/keep")}`,
    "--kv=:memory:",
    "--port=0",
  ]);
  assertEquals(code, 1);
  assertMatch(
    stderr,
    /^Cannot use --keep-builds: expected a directory neither inside ".*\/app" nor around it, got ".*\/app\/keep"\n$/,
  );
  const sites = await runCommand([
    `--sites=${directories.at(".")}`,
    "--immutable=assets/*",
    `--keep-builds=${directories.at("keep")}`,
    "--kv=:memory:",
    "--port=0",
  ]);
  assertMatch(
    sites.stderr,
    /^Cannot use --keep-builds: expected a directory neither inside/,
  );
});
