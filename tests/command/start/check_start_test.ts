import { assertEquals, assertRejects } from "@std/assert";
import { ConfigurationError } from "../../../src/core/config/variables/snapshot.ts";
import {
  checkStart,
  ownFiles,
  type StartContext,
  startWarnings,
} from "../../../src/command/start/check_start.ts";
import { startCommand } from "../../_command.ts";
import { TempDirectory } from "../../_temp.ts";
import { optionsOf } from "../_options.ts";

Deno.test.sanitizer({ ops: true, resources: true }); // off by default since Deno 2.8

/** Upstreams, and the permission that each requires. */
const UPSTREAMS: Record<string, string> = {
  "http://up.example/": "--allow-net=up.example:80",
  "https://up.example/base": "--allow-net=up.example:443",
  "http://[::1]:3000/": "--allow-net=[::1]:3000",
};

Deno.test("checkStart() names the permission for the upstream", {
  permissions: { net: ["a.example:80"] },
}, async () => {
  await checkStart(optionsOf(["--upstream=a.example"]));
  for (const [upstream, flag] of Object.entries(UPSTREAMS)) {
    await assertRejects(
      () => checkStart(optionsOf([`--upstream=${upstream}`])),
      ConfigurationError,
      `Cannot proxy to --upstream "${upstream}": expected ${flag}`,
    );
  }
});

/** Returns the beginning of each warning. */
function warningsFor(
  args: string[],
  context: Partial<StartContext> = {},
): string[] {
  const warnings = startWarnings(optionsOf(args), {
    isStoreShared: false,
    sharesDefaultDatabase: false,
    isModeSet: false,
    defaultManifest: undefined,
    ...context,
  });
  return warnings.map((warning) => warning.split(":")[0] ?? "");
}

const NOTHING = "there is nothing to serve but the endpoints under /rep/";
const SHARED_DATABASE =
  "gateways of different apps share Deno's default database if they run from the same URL";
const NO_MANIFEST = "the manifest in this directory is not used";
const NO_EFFECT = "--hot-reload has no effect";
const SIGHUP_ONLY = "a changed file is only noticed at SIGHUP";
const SERVED = "--static-dir=dist";
const HOT = "--hot-reload";

/** What is warned about, for options and circumstances. */
const WARNINGS: readonly (readonly [
  args: string[],
  context: Partial<StartContext>,
  warnings: string[],
])[] = [
  [[], {}, [NOTHING]],
  [[SERVED], {}, []],
  [[SERVED], { defaultManifest: ".rep.yaml" }, [NO_MANIFEST]],
  [[SERVED, "--manifest=a.yaml"], { defaultManifest: ".rep.yaml" }, []],
  [[SERVED], { sharesDefaultDatabase: true }, [SHARED_DATABASE]],
  [["--upstream=127.0.0.1:3000"], {}, []],
  [["--mode=embedded"], {}, []],
  [[SERVED, HOT], {}, [NO_EFFECT]],
  [[SERVED, HOT, "--hot-reload-mode=poll"], { isModeSet: true }, [NO_EFFECT]],
  [[SERVED, HOT], { isStoreShared: true }, []],
  [[SERVED, HOT, "--env-file=a.env"], {}, [SIGHUP_ONLY]],
  [[SERVED, HOT, "--manifest=a.yaml"], { isStoreShared: true }, [
    SIGHUP_ONLY,
  ]],
  [[SERVED, HOT, "--env-file=a.env"], { isModeSet: true }, []],
  [[SERVED, HOT, "--env-file=a.env", "--hot-reload-mode=file_watch"], {
    isModeSet: true,
  }, []],
  [[SERVED, HOT, "--watch-path=/etc/rep", "--hot-reload-mode=file_watch"], {
    isModeSet: true,
  }, []],
  [[SERVED, "--env-file=a.env"], {}, []],
  [[SERVED, "--poll=30s"], {}, ["--poll has no effect"]],
  [[SERVED, HOT, "--poll=30s"], { isStoreShared: true }, []],
];

Deno.test("startWarnings() says what is probably not intended", () => {
  for (const [args, context, warnings] of WARNINGS) {
    assertEquals([args, warningsFor(args, context)], [args, warnings]);
  }
});

/** Returns the paths for arguments in which `%` is the path of a directory, relative to that. */
async function pathsFor(
  { path }: TempDirectory,
  args: readonly string[],
): Promise<string[]> {
  const options = optionsOf(args.map((arg) => arg.replaceAll("%", path)));
  const paths = await ownFiles(options);
  return paths.map((own) => own.replace(path, "%"));
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
const OWN: readonly (readonly [args: string[], paths: string[]])[] = [
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

Deno.test("ownFiles() returns what options name, if a directory is served", async () => {
  await using directory = await TempDirectory.make();
  for (const folder of ["env/app", "site"]) {
    await Deno.mkdir(directory.at(folder), { recursive: true });
  }
  for (const [name, text] of Object.entries(FILES)) {
    await directory.write(name, text);
  }
  await Deno.symlink("kv", directory.at("link"));
  for (const [args, expected] of OWN) {
    assertEquals([args, await pathsFor(directory, args)], [args, expected]);
  }
});

Deno.test("a command never serves its own files if they are in the served directory, and warns", async () => {
  await using directory = await TempDirectory.make({
    "index.html": "<html><head></head></html>",
    "app.env": "REP_SERVER_PASSWORD=secret",
    "rep.yaml": 'version: "0.1.0"\nvariables: {}',
    "master.key": btoa("k".repeat(32)),
    "REP_SERVER_B": "secret",
    "asset.txt": "asset",
  });
  const args = [
    "--static-dir",
    directory.path,
    "--env-file",
    directory.at("app.env"),
    "--manifest",
    directory.at("rep.yaml"),
    "--kv",
    directory.at("kv.sqlite3"),
  ];
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
    String(detail).includes("never served")
  );
  assertEquals(
    names.filter((name) => !String(detail).includes(`/${name}"`)),
    [],
  );
});
