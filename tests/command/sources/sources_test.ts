import { assertEquals, assertRejects } from "@std/assert";
import {
  createSources,
  type SourceOptions,
  watchedPaths,
} from "../../../src/command/sources/variable_sources.ts";
import { readPaths } from "../../../src/files/read_named.ts";
import { ConfigurationError } from "../../../src/core/config/variables/snapshot.ts";
import { silentLog } from "../../../src/core/observe/log.ts";
import { systemClock } from "../../../src/core/values/clock.ts";
import { withEnvironment } from "../../_environment.ts";
import { captureLog, setUp } from "../../_gateway.ts";
import { TempDirectory } from "../../_temp.ts";
import { WatchedClock } from "../../_time.ts";

function options(some: Partial<SourceOptions>): SourceOptions {
  return {
    "env-file": [],
    "watch-path": undefined,
    manifest: undefined,
    "hot-reload-mode": "signal",
    ...some,
  };
}

const CONTEXT = { clock: systemClock, log: silentLog };

async function messageOf(promise: Promise<unknown>) {
  return (await assertRejects(() => promise, ConfigurationError)).message;
}

Deno.test("createSources() lets the environment override the env file", async () => {
  await using directory = await TempDirectory.make({
    "app.env": "REP_PUBLIC_SRC_A=file\nREP_PUBLIC_SRC_B=file",
  });
  const { variables } = createSources(
    options({ "env-file": [directory.at("app.env")] }),
    CONTEXT,
  );
  await withEnvironment({ REP_PUBLIC_SRC_A: "environment" }, async () => {
    const { REP_PUBLIC_SRC_A, REP_PUBLIC_SRC_B } = await variables();
    assertEquals([REP_PUBLIC_SRC_A, REP_PUBLIC_SRC_B], ["environment", "file"]);
  });
});

Deno.test("createSources() logs once what is set in an env file without effect, and no value", async () => {
  const text =
    "REP_PUBLIC_SRC_A=1\nREP_PUBLIC_SRC_B=1\nREP_GATEWAY_PORT=9000\n";
  await using directory = await TempDirectory.make({ "app.env": text });
  const { log, lines } = captureLog();
  const { variables } = createSources(
    options({ "env-file": [directory.at("app.env")] }),
    { ...CONTEXT, log },
  );
  await withEnvironment({ REP_PUBLIC_SRC_A: "CANARY" }, async () => {
    for (let read = 0; read < 2; read++) await variables();
  });
  assertEquals(
    lines.map((
      { level, msg, variable_name, variables },
    ) => [level, msg, variable_name ?? variables]),
    [
      ["WARN", "rep.config.suspicious_name", "REP_GATEWAY_PORT"],
      ["INFO", "rep.config.overridden", ["REP_PUBLIC_SRC_A"]],
    ],
  );
  assertEquals(JSON.stringify(lines).includes("CANARY"), false);
});

Deno.test("createSources() logs in one line, once, which names of Vite an env file has, and no value", async () => {
  const text = "VITE_TITLE=CANARY\nVITE_PLAN=CANARY\nREP_PUBLIC_A=1\nHOME=2\n";
  await using directory = await TempDirectory.make({ "app.env": text });
  const { log, lines } = captureLog();
  const { variables } = createSources(
    options({ "env-file": [directory.at("app.env")] }),
    { ...CONTEXT, log },
  );
  for (let read = 0; read < 2; read++) await variables();
  assertEquals(
    lines.map(({ msg, variable_name, detail }) => [msg, variable_name, detail]),
    [[
      "rep.config.suspicious_name",
      "VITE_TITLE, VITE_PLAN",
      "ignored in env files: expected the prefix REP_PUBLIC_ instead of VITE_",
    ]],
  );
});

Deno.test("createSources() warns of directories and files without variables when it reads them for the first time", async () => {
  await using directory = await TempDirectory.make({
    "app.env": "# REP_PUBLIC_A=1\n",
  });
  await using misnamed = await TempDirectory.make({ "db-password": "CANARY" });
  await using good = await TempDirectory.make({ "REP_SERVER_A": "1" });
  const { log, lines } = captureLog();
  const paths = [misnamed.path, directory.at("app.env"), good.path];
  const { variables } = createSources(options({ "env-file": paths }), {
    ...CONTEXT,
    log,
  });
  for (let read = 0; read < 2; read++) await variables();
  assertEquals(
    lines.map(({ level, msg, detail }) => [level, msg, detail]),
    paths.slice(0, 2).map((path) => [
      "WARN",
      "rep.start.warning",
      `--env-file "${path}" contains no variables: expected lines of REP_…=value, or files whose names begin with REP_`,
    ]),
  );
});

Deno.test("createSources() rejects a manifest with invalid settings at a reload", async () => {
  const text = 'version: "0.1.0"\nvariables: {}\nsettings: {hot_reload: 1}';
  await using directory = await TempDirectory.make({ ".rep.yaml": text });
  const path = directory.at(".rep.yaml");
  const { manifest } = createSources(options({ manifest: path }), CONTEXT);
  const { issues } = await assertRejects(
    async () => await manifest?.(),
    ConfigurationError,
  );
  assertEquals(issues, [
    `Cannot use the manifest "${path}:3": settings.hot_reload: expected true or false, got 1`,
  ]);
});

/** Runs a program of the system. */
async function run(program: string, ...args: string[]) {
  assertEquals(
    (await new Deno.Command(program, { args }).output()).success,
    true,
  );
}

Deno.test({
  name: "createSources() reads regular files only, and none of more than 4 MiB",
  ignore: Deno.build.os === "windows",
  async fn() {
    await using directory = await TempDirectory.make({
      "large": "#".repeat(4 * 1024 * 1024 + 1),
    });
    await run("mkfifo", directory.at("fifo"));
    await Deno.mkdir(directory.at("mount"));
    await run("mkfifo", directory.at("mount/REP_PUBLIC_A"));
    const cases = [
      ["fifo", "expected a regular file, got", "fifo"],
      ["mount", "expected a regular file, got", "mount/REP_PUBLIC_A"],
      ["large", "expected at most 4194304 bytes in", "large"],
    ] as const;
    for (const [name, expected, where] of cases) {
      const { variables } = createSources(
        options({ "env-file": [directory.at(name)] }),
        CONTEXT,
      );
      const path = directory.at(name);
      assertEquals(
        await messageOf(variables()),
        `Cannot read --env-file "${path}": ${expected} '${
          directory.at(where)
        }'`,
      );
    }
    for (const path of [directory.at("fifo"), "/dev/zero"]) {
      const { manifest } = createSources(options({ manifest: path }), CONTEXT);
      const expected =
        `Cannot read --manifest "${path}": expected a regular file, got '${path}'`;
      assertEquals(await messageOf(Promise.resolve(manifest?.())), expected);
    }
  },
});

Deno.test("readPaths() does not wait for a file system that does not answer", async () => {
  const clock = new WatchedClock();
  const reading = messageOf(
    readPaths(
      { flag: "--env-file", paths: ["a.env"] },
      () => new Promise(() => {}),
      clock,
    ),
  );
  await clock.tick(15_000);
  assertEquals(
    await reading,
    'Cannot read --env-file "a.env": expected to be read within 15 s',
  );
});

Deno.test("createSources() reads --watch-path if it is watched and --env-file is not set", async () => {
  await using directory = await TempDirectory.make({
    REP_PUBLIC_SRC_A: "mounted",
    "app.env": "REP_PUBLIC_SRC_A=file",
  });
  const watched = {
    "watch-path": directory.path,
    "hot-reload-mode": "file_watch",
  } as const;
  const read = async (some: Partial<SourceOptions>) =>
    (await createSources(options(some), CONTEXT).variables()).REP_PUBLIC_SRC_A;
  assertEquals(await read(watched), "mounted");
  assertEquals(
    await read({ ...watched, "env-file": [directory.at("app.env")] }),
    "file",
  );
  assertEquals(
    await read({ ...watched, "hot-reload-mode": "signal" }),
    undefined,
  );
});

Deno.test("watchedPaths() returns --watch-path, --env-file and --manifest", () => {
  const all = options({
    "watch-path": "w",
    "env-file": ["e", "f"],
    manifest: "m",
  });
  assertEquals([
    watchedPaths(all),
    watchedPaths({ ...all, "watch-path": undefined }),
    watchedPaths(options({ manifest: "m" })),
    watchedPaths(options({})),
  ], [["w", "e", "f", "m"], ["e", "f", "m"], ["m"], []]);
});

Deno.test("createSources() reports the path that could not be read, and the reason", async () => {
  await using directory = await TempDirectory.make();
  const path = directory.at("app.env");
  const { variables, manifest } = createSources(
    options({ "env-file": [path], manifest: path }),
    CONTEXT,
  );
  assertEquals([
    await messageOf(variables()),
    await messageOf(Promise.resolve(manifest?.())),
  ], [
    `Cannot read --env-file "${path}": No such file or directory (os error 2): stat '${path}'`,
    `Cannot read --manifest "${path}": No such file or directory (os error 2): stat '${path}'`,
  ]);
  const watched = createSources(
    options({ "watch-path": path, "hot-reload-mode": "file_watch" }),
    CONTEXT,
  );
  assertEquals(
    await messageOf(watched.variables()),
    `Cannot read --watch-path "${path}": No such file or directory (os error 2): stat '${path}'`,
  );
});

Deno.test("an invalid env file is rejected as a whole: nothing changes, and health is degraded until it is valid", async () => {
  const valid = "REP_PUBLIC_SRC_A=1\nREP_PUBLIC_SRC_B=2\n";
  await using directory = await TempDirectory.make({ "app.env": valid });
  const path = directory.at("app.env");
  const clock = new WatchedClock();
  const { variables } = createSources(options({ "env-file": [path] }), {
    clock,
    log: silentLog,
  });
  await using service = await setUp({}, { variables });
  const state = async () => {
    const { status, variables } = await (await service.ask("/rep/health"))
      .json();
    const published = service.logged("rep.config.changed").length;
    return [status, variables.public, published];
  };
  assertEquals(await state(), ["healthy", 2, 2]);
  for (const invalid of INVALID) {
    await Deno.writeFile(path, invalid);
    const reload = assertRejects(
      () => service.gateway.reload(),
      ConfigurationError,
    );
    await clock.waits(2); // one of them is the deadline of reading
    await clock.tick(500); // nothing that is invalid is believed at first sight
    await reload;
    assertEquals(await state(), ["degraded", 2, 2]);
    await directory.write("app.env", valid);
    await service.gateway.reload();
    assertEquals(await state(), ["healthy", 2, 2]);
  }
});

const encoder = new TextEncoder();

/** What env files were seen to contain while they were written, or after somebody made a mistake. */
const INVALID: readonly Uint8Array[] = [
  new Uint8Array(),
  new Uint8Array([0x8f, 0x1b, 0xff, 0x0a, 0x00, 0xc3, 0x28]),
  new Uint8Array([...encoder.encode("REP_PUBLIC_SRC_A=1\n"), 0, 0, 0]),
  encoder.encode("REP_PUBLIC_SRC_A=1\nREP_PUBLIC_SR"),
  encoder.encode('REP_PUBLIC_SRC_A="1\nREP_PUBLIC_SRC_B=2\n'),
  encoder.encode("REP_PUBLIC_SRC_A: 1\n"),
  encoder.encode("REP_PUBLIC_SRC_A=1\nREP_PUBLIC_SRC_A=2\n"),
];
