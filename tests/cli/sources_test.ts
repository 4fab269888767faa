import { assertEquals, assertRejects } from "@std/assert";
import { ConfigurationError } from "../../src/variables/snapshot.ts";
import { createSources, readTextFile, watchedPaths } from "../../src/cli/sources.ts";
import { TempDirectory } from "../_temp.ts";

type SourceSettings = Parameters<typeof createSources>[0];

function settings(some: Partial<SourceSettings>): SourceSettings {
  return { "env-file": undefined, "watch-path": undefined, manifest: undefined, "hot-reload-mode": "signal", ...some };
}

/** Runs with a variable in the process's environment. */
async function withVariable(name: string, value: string, run: () => Promise<void>): Promise<void> {
  Deno.env.set(name, value);
  try {
    await run();
  } finally {
    Deno.env.delete(name);
  }
}

async function refusalOf(promise: Promise<unknown>): Promise<string> {
  return (await assertRejects(() => promise, ConfigurationError)).message;
}

Deno.test("createSources() lets the environment win over the env file", async () => {
  await using directory = await TempDirectory.make({ "app.env": "REP_PUBLIC_SRC_A=file\nREP_PUBLIC_SRC_B=file" });
  const { variables } = createSources(settings({ "env-file": directory.at("app.env") }));
  await withVariable("REP_PUBLIC_SRC_A", "environment", async () => {
    const { REP_PUBLIC_SRC_A, REP_PUBLIC_SRC_B } = await variables();
    assertEquals([REP_PUBLIC_SRC_A, REP_PUBLIC_SRC_B], ["environment", "file"]);
  });
});

const MANIFESTS = { a: 'version: "0.1.0"\nvariables: {}', b: 'version: "0.2.0"\nvariables: {}' };

Deno.test("createSources() reads the files again every time", async () => {
  await using directory = await TempDirectory.make({ "app.env": "REP_PUBLIC_SRC_A=1", ".rep.yaml": MANIFESTS.a });
  const paths = { "env-file": directory.at("app.env"), manifest: directory.at(".rep.yaml") };
  const { variables, manifest } = createSources(settings(paths));
  assertEquals([(await variables()).REP_PUBLIC_SRC_A, await manifest?.()], ["1", MANIFESTS.a]);
  await directory.write("app.env", "REP_PUBLIC_SRC_A=2");
  await directory.write(".rep.yaml", MANIFESTS.b);
  assertEquals([(await variables()).REP_PUBLIC_SRC_A, await manifest?.()], ["2", MANIFESTS.b]);
});

Deno.test("createSources() rejects a manifest whose settings are invalid at a reload, too", async () => {
  const text = 'version: "0.1.0"\nvariables: {}\nsettings: {hot_reload: 1}';
  await using directory = await TempDirectory.make({ ".rep.yaml": text });
  const { manifest } = createSources(settings({ manifest: directory.at(".rep.yaml") }));
  const { issues } = await assertRejects(async () => await manifest?.(), ConfigurationError);
  assertEquals(issues, ["Cannot use the manifest: settings.hot_reload: expected true or false, got 1"]);
});

Deno.test("createSources() has no manifest when none is named", () => {
  assertEquals(createSources(settings({})).manifest, undefined);
});

Deno.test("createSources() reads --watch-path when it is watched and there is no --env-file", async () => {
  await using directory = await TempDirectory.make({ REP_PUBLIC_SRC_A: "mounted", "app.env": "REP_PUBLIC_SRC_A=file" });
  const watched = { "watch-path": directory.path, "hot-reload-mode": "file_watch" } as const;
  const read = async (some: Partial<SourceSettings>) =>
    (await createSources(settings(some)).variables()).REP_PUBLIC_SRC_A;
  assertEquals(await read(watched), "mounted");
  assertEquals(await read({ ...watched, "env-file": directory.at("app.env") }), "file");
  assertEquals(await read({ ...watched, "hot-reload-mode": "signal" }), undefined);
});

Deno.test("watchedPaths() names --watch-path, else --env-file and --manifest", () => {
  const all = settings({ "watch-path": "w", "env-file": "e", manifest: "m" });
  assertEquals([
    watchedPaths(all),
    watchedPaths({ ...all, "watch-path": undefined }),
    watchedPaths(settings({ manifest: "m" })),
    watchedPaths(settings({})),
  ], [["w"], ["e", "m"], ["m"], []]);
});

Deno.test("createSources() says which path it could not read, and why", async () => {
  await using directory = await TempDirectory.make();
  const path = directory.at("app.env");
  const { variables, manifest } = createSources(settings({ "env-file": path, manifest: path }));
  assertEquals([await refusalOf(variables()), await refusalOf(Promise.resolve(manifest?.()))], [
    `Cannot read --env-file "${path}": No such file or directory (os error 2): stat '${path}'`,
    `Cannot read --manifest "${path}": No such file or directory (os error 2): readfile '${path}'`,
  ]);
});

Deno.test("readTextFile() says so when it was given a directory", async () => {
  await using directory = await TempDirectory.make();
  const { path } = directory;
  assertEquals(
    await refusalOf(readTextFile(path, "--tls-cert")),
    `Cannot read --tls-cert "${path}": Is a directory (os error 21): readfile '${path}'`,
  );
});

Deno.test("readTextFile() says which permission is missing, and asks nobody", { permissions: {} }, async () => {
  assertEquals(
    await refusalOf(readTextFile("/etc/rep/app.env", "--env-file")),
    'Cannot read --env-file "/etc/rep/app.env": expected --allow-read=/etc/rep/app.env',
  );
});
