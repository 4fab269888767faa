import { assertEquals, assertRejects } from "@std/assert";
import { ConfigurationError } from "../../src/variables/snapshot.ts";
import { readTextFile, sourcesOf, watchedPaths } from "../../src/variables/sources.ts";
import { TempDirectory } from "../_temp.ts";

type SourceSettings = Parameters<typeof sourcesOf>[0];

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

Deno.test("sourcesOf() lets the environment win over the env file", async () => {
  await using directory = await TempDirectory.make({ "app.env": "REP_PUBLIC_SRC_A=file\nREP_PUBLIC_SRC_B=file" });
  const { variables } = sourcesOf(settings({ "env-file": directory.at("app.env") }));
  await withVariable("REP_PUBLIC_SRC_A", "environment", async () => {
    const { REP_PUBLIC_SRC_A, REP_PUBLIC_SRC_B } = await variables();
    assertEquals([REP_PUBLIC_SRC_A, REP_PUBLIC_SRC_B], ["environment", "file"]);
  });
});

Deno.test("sourcesOf() reads the files again every time", async () => {
  await using directory = await TempDirectory.make({ "app.env": "REP_PUBLIC_SRC_A=1", ".rep.yaml": "a" });
  const paths = { "env-file": directory.at("app.env"), manifest: directory.at(".rep.yaml") };
  const { variables, manifest } = sourcesOf(settings(paths));
  assertEquals([(await variables()).REP_PUBLIC_SRC_A, await manifest?.()], ["1", "a"]);
  await directory.write("app.env", "REP_PUBLIC_SRC_A=2");
  await directory.write(".rep.yaml", "b");
  assertEquals([(await variables()).REP_PUBLIC_SRC_A, await manifest?.()], ["2", "b"]);
});

Deno.test("sourcesOf() has no manifest when none is named", () => {
  assertEquals(sourcesOf(settings({})).manifest, undefined);
});

Deno.test("sourcesOf() reads --watch-path when it is watched and there is no --env-file", async () => {
  await using directory = await TempDirectory.make({ REP_PUBLIC_SRC_A: "mounted", "app.env": "REP_PUBLIC_SRC_A=file" });
  const watched = { "watch-path": directory.path, "hot-reload-mode": "file_watch" } as const;
  const read = async (some: Partial<SourceSettings>) => (await sourcesOf(settings(some)).variables()).REP_PUBLIC_SRC_A;
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

Deno.test("sourcesOf() says which path it could not read, and why", async () => {
  await using directory = await TempDirectory.make();
  const path = directory.at("app.env");
  const { variables, manifest } = sourcesOf(settings({ "env-file": path, manifest: path }));
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
