import { assertEquals, assertRejects } from "@std/assert";
import { join } from "@std/path";
import { openRegularFile } from "../../../src/content/static/regular_file.ts";
import { StaticFiles } from "../../../src/content/static/static_files.ts";
import { Problem } from "../../../src/http/problem.ts";
import { FakeClock } from "../../../tools/fake_clock.ts";
import { respondWith } from "./_respond.ts";

Deno.test.sanitizer({ ops: true, resources: true }); // off by default since Deno 2.8

/** A directory `site` with a file, next to a directory `outside`. */
interface Site extends AsyncDisposable {
  root: string;
  outside: string;
}

async function makeSite(): Promise<Site> {
  const parent = await Deno.realPath(await Deno.makeTempDir());
  const [root, outside] = [join(parent, "site"), join(parent, "outside")];
  for (const directory of [root, join(root, "docs"), outside]) await Deno.mkdir(directory);
  await Deno.writeTextFile(join(root, "docs/file.txt"), "inside");
  await Deno.writeTextFile(join(outside, "file.txt"), "secret");
  return { root, outside, [Symbol.asyncDispose]: () => Deno.remove(parent, { recursive: true }) };
}

const decoder = new TextDecoder();

Deno.test("openRegularFile() opens a file and reads at any position", async () => {
  await using site = await makeSite();
  const file = await openRegularFile(join(site.root, "docs/file.txt"), site.root);
  assertEquals(file.size, 6);
  assertEquals(decoder.decode(await file.read(2, 3)), "sid");
  assertEquals(decoder.decode(await file.read(4, 100)), "de");
  assertEquals(await file.read(6, 100), new Uint8Array());
  file.close();
  file.close();
});

Deno.test("openRegularFile() rejects a file that was replaced by a link", async () => {
  await using site = await makeSite();
  const path = join(site.root, "docs/file.txt");
  await Deno.remove(path);
  await Deno.symlink(join(site.outside, "file.txt"), path);
  await assertRejects(() => openRegularFile(path, site.root), Deno.errors.NotFound);
});

Deno.test("openRegularFile() rejects a file whose directory was replaced by a link", async () => {
  await using site = await makeSite();
  await Deno.rename(join(site.root, "docs"), join(site.root, "old"));
  await Deno.symlink(site.outside, join(site.root, "docs"));
  await assertRejects(() => openRegularFile(join(site.root, "docs/file.txt"), site.root), Deno.errors.NotFound);
});

Deno.test({
  name: "openRegularFile() rejects a file that was replaced by a FIFO, without waiting for a writer",
  ignore: Deno.build.os === "windows",
  async fn() {
    await using site = await makeSite();
    const path = join(site.root, "docs/file.txt");
    await Deno.remove(path);
    await new Deno.Command("mkfifo", { args: [path] }).output();
    for (let i = 0; i < 64; i++) { // more than Deno has threads for files
      await assertRejects(() => openRegularFile(path, site.root), Deno.errors.NotFound);
    }
  },
});

Deno.test("openRegularFile() rejects files that are missing, and directories", async () => {
  await using site = await makeSite();
  for (const name of ["missing.txt", "docs/file.txt/x", "docs"]) {
    await assertRejects(() => openRegularFile(join(site.root, name), site.root), Deno.errors.NotFound);
  }
});

/** Replaces a name by two others in turn, for as long as it lives: each is kept under a name of its own. */
const REPLACE_FOREVER = `const [path, a, b] = Deno.args;
for (;;) {
  Deno.renameSync(path, a); Deno.renameSync(b, path);
  Deno.renameSync(path, b); Deno.renameSync(a, path);
}`;

async function replaceForever(path: string, other: string): Promise<AsyncDisposable> {
  const program = join(path, "../replace.js");
  await Deno.writeTextFile(program, REPLACE_FOREVER);
  const args = ["run", "--quiet", "--no-config", "--no-lock", "-A", program, path, `${path}-kept`, other];
  const child = new Deno.Command(Deno.execPath(), { args, stdin: "null", stdout: "null", stderr: "inherit" }).spawn();
  return {
    async [Symbol.asyncDispose]() {
      child.kill("SIGKILL");
      await child.status;
    },
  };
}

async function bodyOrStatus(responding: Promise<Response>): Promise<string> {
  try {
    return await (await responding).text();
  } catch (error) {
    if (error instanceof Problem) return String(error.status);
    throw error;
  }
}

const EXCHANGES = [
  ["file", "docs/file.txt", "file.txt", 0],
  ["file", "docs/file.txt", "file.txt", 1_000_000],
  ["directory", "docs", ".", 0],
  ["directory", "docs", ".", 1_000_000],
] as const;

for (const [what, name, target, cacheBytes] of EXCHANGES) {
  const cache = `a cache of ${cacheBytes} bytes`;
  Deno.test(`StaticFiles sends nothing from outside with ${cache} while a ${what} and a link are exchanged`, async () => {
    await using site = await makeSite();
    const clock = new FakeClock();
    const files = await StaticFiles.open({ directory: site.root, clock, cacheBytes });
    await Deno.symlink(join(site.outside, target), join(site.root, "other"));
    const results = new Set<string>();
    await using _replacing = await replaceForever(join(site.root, name), join(site.root, "other"));
    for (let i = 0; !results.has("404") || i < 300; i++) {
      clock.jump(1_000);
      const request = () => respondWith(files, new Request("http://app.example/docs/file.txt"));
      const batch = await Promise.all(Array.from({ length: 10 }, () => bodyOrStatus(request())));
      for (const result of batch) results.add(result);
    }
    assertEquals(results.difference(new Set(["404", "inside"])), new Set());
  });
}
