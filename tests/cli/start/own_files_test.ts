import { assertEquals } from "@std/assert";
import {
  parseCommandLine,
  readOptions,
} from "../../../src/cli/options/read_options.ts";
import { ownFiles } from "../../../src/cli/start/check_start.ts";
import { startCommand } from "../../_command.ts";
import { TempDirectory } from "../../_temp.ts";

Deno.test.sanitizer({ ops: true, resources: true }); // off by default since Deno 2.8

/** Returns the paths for arguments in which `%` is the path of a directory, relative to that. */
async function pathsFor(
  directory: TempDirectory,
  ...args: string[]
): Promise<string[]> {
  const { flags } = parseCommandLine(
    args.map((arg) => arg.replaceAll("%", directory.path)),
  );
  const paths = await ownFiles(
    readOptions({ flags, environment: {}, manifest: {} }),
  );
  return paths.map((path) => path.replace(directory.path, "%"));
}

const FILES = {
  "app.env": "",
  "kv": "",
  "env/REP_PUBLIC_A": "a",
  "env/other": "",
  "site/index.html": "",
};
const SITE = "--static-dir=%/site";

/** The paths for the options beside `--static-dir`, or others. */
const CASES: readonly (readonly [args: string[], paths: string[]])[] = [
  [["--env-file=%/app.env"], []],
  [[SITE], []],
  [[SITE, "--kv=:memory:"], []],
  [[SITE, "--kv=https://kv.example.com"], []],
  [[SITE, "--env-file=%/app.env,%/missing.env"], [
    "%/app.env",
    "%/missing.env",
  ]],
  [[SITE, "--manifest=%/rep.yaml"], ["%/rep.yaml"]],
  [[SITE, "--kv=%/kv"], ["%/kv", "%/kv-wal", "%/kv-shm", "%/kv-journal"]],
  [[SITE, "--kv=%/link"], ["%/link", "%/kv-wal", "%/kv-shm", "%/kv-journal"]],
  [[SITE, "--kv=%/new"], ["%/new", "%/new-wal", "%/new-shm", "%/new-journal"]],
  [[SITE, "--kv=postgres://u:p@h/d?password_file=%/pw&sslrootcert=%/ca"], [
    "%/pw",
    "%/ca",
  ]],
  [[SITE, "--tls-cert=%/tls.crt", "--tls-key=%/tls.key"], [
    "%/tls.crt",
    "%/tls.key",
  ]],
  // A directory of variables, with everything in it; if it contains the app, only what is read of it.
  [[SITE, "--env-file=%/env"], ["%/env", "%/env/REP_PUBLIC_A"]],
  [["--static-dir=%/env", "--env-file=%/env"], ["%/env/REP_PUBLIC_A"]],
  [["--static-dir=%/env/app", "--env-file=%/env"], ["%/env/REP_PUBLIC_A"]],
  [[SITE, "--watch-path=%/env", "--hot-reload-mode=file_watch"], [
    "%/env",
    "%/env/REP_PUBLIC_A",
  ]],
  // A directory that is only watched.
  [[
    SITE,
    "--watch-path=%",
    "--env-file=%/app.env",
    "--hot-reload-mode=file_watch",
  ], ["%/app.env"]],
];

for (const [args, expected] of CASES) {
  Deno.test(`ownFiles() returns ${expected.join(", ") || "nothing"} for ${args.join(" ")}`, async () => {
    await using directory = await TempDirectory.make();
    for (const folder of ["env/app", "site"]) {
      await Deno.mkdir(directory.at(folder), { recursive: true });
    }
    for (const [name, text] of Object.entries(FILES)) {
      await directory.write(name, text);
    }
    await Deno.symlink("kv", directory.at("link"));
    assertEquals(await pathsFor(directory, ...args), expected);
  });
}

Deno.test("a command that serves the directory with its own files does not serve these, and warns", async () => {
  await using directory = await TempDirectory.make({
    "index.html": "<html><head></head></html>",
    "app.env": "REP_SERVER_PASSWORD=secret",
    "rep.yaml": 'version: "0.1.0"\nvariables: {}',
    "master.key": btoa("k".repeat(32)),
    "REP_SERVER_B": "secret",
    "asset.txt": "asset",
  });
  const args = ["--static-dir", "--env-file", "--manifest", "--kv"]
    .flatMap((
      flag,
      index,
    ) => [
      flag,
      directory.at(["", "app.env", "rep.yaml", "kv.sqlite3"][index]!),
    ]);
  const env = { REP_GATEWAY_MASTER_KEY_FILE: directory.at("master.key") };
  await using command = await startCommand(args, env);
  const names = [
    "app.env",
    "rep.yaml",
    "kv.sqlite3",
    "kv.sqlite3-wal",
    "kv.sqlite3-shm",
    "master.key",
  ];
  const statusOf = async (name: string) => {
    const response = await fetch(`${command.url}/${name}`);
    await response.body?.cancel();
    return response.status;
  };
  assertEquals(await Promise.all(names.map(statusOf)), names.map(() => 404));
  assertEquals([await statusOf("asset.txt"), await statusOf("REP_SERVER_B")], [
    200,
    200,
  ]); // not read: no env directory
  const { detail } = await command.logged(({ detail }) =>
    String(detail).startsWith("never served")
  );
  assertEquals(
    names.filter((name) => !String(detail).includes(`/${name}"`)),
    [],
  );
});
