import { assertEquals } from "@std/assert";
import { join } from "@std/path";
import { versionOf } from "../../../src/content/static/file_version.ts";
import { resolvePath } from "../../../src/content/static/resolve_path.ts";

Deno.test.sanitizer({ ops: true, resources: true }); // off by default since Deno 2.8

async function makeDirectory(): Promise<AsyncDisposable & { path: string }> {
  const path = await Deno.realPath(await Deno.makeTempDir());
  return { path, [Symbol.asyncDispose]: () => Deno.remove(path, { recursive: true }) };
}

Deno.test("resolvePath() distinguishes files, directories and absent paths", async () => {
  await using directory = await makeDirectory();
  const file = join(directory.path, "app.js");
  await Deno.writeTextFile(file, "");
  const version = versionOf(await Deno.stat(file));
  assertEquals(await resolvePath(directory.path, ["app.js"]), {
    kind: "file",
    file: { path: file, root: directory.path, version },
  });
  assertEquals(await resolvePath(directory.path, []), { kind: "directory" });
  assertEquals(await resolvePath(directory.path, ["missing.js"]), { kind: "absent" });
  assertEquals(await resolvePath(directory.path, ["app.js", "index.html"]), { kind: "absent" });
});

Deno.test("resolvePath() reports absence if the directory itself does not exist", async () => {
  assertEquals(await resolvePath("/nowhere/at/all", ["app.js"]), { kind: "absent" });
});

Deno.test("resolvePath() rejects names that lead out of the directory", async () => {
  await using directory = await makeDirectory();
  await Deno.mkdir(join(directory.path, "site"));
  await Deno.writeTextFile(join(directory.path, "secret.txt"), "secret");
  for (const names of [["..", "secret.txt"], [".."], ["../secret.txt"], ["../../.."]]) {
    assertEquals(await resolvePath(join(directory.path, "site"), names), { kind: "rejected" });
  }
});

Deno.test("resolvePath() resolves paths below the root of a file system", async () => {
  await using directory = await makeDirectory();
  assertEquals(await resolvePath("/", directory.path.split("/").slice(1)), { kind: "directory" });
});

Deno.test("resolvePath() rejects names that are too long and circular links", async () => {
  await using directory = await makeDirectory();
  await Deno.symlink("loop", join(directory.path, "loop"));
  assertEquals(await resolvePath(directory.path, ["a".repeat(300)]), { kind: "rejected" });
  assertEquals(await resolvePath(directory.path, ["loop"]), { kind: "rejected" });
});

Deno.test({
  name: "resolvePath() rejects a directory without search permission",
  ignore: Deno.uid() === 0, // root has every permission
  async fn() {
    await using directory = await makeDirectory();
    const closed = join(directory.path, "lost+found");
    await Deno.mkdir(closed, { mode: 0o000 });
    const resolved = await resolvePath(directory.path, ["lost+found", "app.js"]);
    await Deno.chmod(closed, 0o700); // so that it can be removed
    assertEquals(resolved, { kind: "rejected" });
  },
});
