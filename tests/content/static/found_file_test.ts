import { assertEquals } from "@std/assert";
import { join } from "@std/path";
import { serveSite, type Site, writeFiles } from "./_content.ts";

Deno.test.sanitizer({ ops: true, resources: true }); // off by default since Deno 2.8

/** Larger than what is read into memory. */
const LARGE = "inside".repeat(200_000);

/** Serves two files; next to their directory is a directory `outside`. */
async function serve(cacheBytes = 67_108_864) {
  const files = { "docs/file.txt": "inside", "docs/large.txt": LARGE };
  const site = await serveSite(files, { cacheBytes });
  const others = { "file.txt": "secret", "large.txt": "secret" };
  await writeFiles(site.at("../outside"), others);
  return site;
}

/** Runs a function just before the next file is opened. */
function beforeOpen(run: () => Promise<unknown>) {
  const { open } = Deno;
  Deno.open = async (path, options) => {
    Deno.open = open;
    await run();
    return await open(path, options);
  };
}

/** A change of the site between the look at a file and its opening. */
interface Replacement {
  name: string;
  replace: (site: Site, path: string) => Promise<unknown>;
  expected: string;
}

const REPLACEMENTS: Replacement[] = [
  {
    name:
      "StaticContent does not find a file that is removed before it is opened",
    replace: (_, path) => Deno.remove(path),
    expected: "404",
  },
  {
    name:
      "StaticContent sends the file that replaces another one before that is opened",
    async replace(_, path) {
      await Deno.writeTextFile(`${path}.new`, "new");
      await Deno.rename(`${path}.new`, path);
    },
    expected: "new",
  },
  {
    name:
      "StaticContent does not send a file that is replaced by a link before it is opened",
    async replace({ at }, path) {
      await Deno.remove(path);
      await Deno.symlink(at("../outside/file.txt"), path);
    },
    expected: "404",
  },
  {
    name:
      "StaticContent does not send a file that is replaced by a link to it before it is opened",
    async replace({ at }, path) {
      await Deno.rename(path, at("../outside/moved.txt"));
      await Deno.symlink(at("../outside/moved.txt"), path);
    },
    expected: "404",
  },
  {
    name:
      "StaticContent does not send a file whose directory is replaced by a link before it is opened",
    async replace({ at }) {
      await Deno.rename(at("docs"), at("old"));
      await Deno.symlink(at("../outside"), at("docs"));
    },
    expected: "404",
  },
  {
    name:
      "StaticContent does not send a file whose directory is replaced by a link to it before it is opened",
    async replace({ at }) {
      await Deno.rename(at("docs"), at("../outside/docs"));
      await Deno.symlink(at("../outside/docs"), at("docs"));
    },
    expected: "404",
  },
];

/** One that is read into memory, and one that is streamed. */
const FILES = ["docs/file.txt", "docs/large.txt"];

for (const { name, replace, expected } of REPLACEMENTS) {
  Deno.test(name, async () => {
    for (const file of FILES) {
      await using site = await serve();
      beforeOpen(() => replace(site, site.at(file)));
      assertEquals(await site.read(`/${file}`), expected, file);
    }
  });
}

for (const file of FILES) {
  Deno.test(`StaticContent does not send ${file} if it is truncated while it is read or hashed`, async () => {
    await using site = await serve();
    const { open } = Deno;
    Deno.open = async (path, options) => {
      const file = await open(path, options);
      const stat = file.stat.bind(file);
      file.stat = async () => {
        const stats = await stat();
        await Deno.truncate(String(path), 3);
        return stats;
      };
      return file;
    };
    try {
      assertEquals(await site.read(`/${file}`), "ins");
    } finally {
      Deno.open = open;
    }
  });
}

Deno.test("StaticContent sends as much of a file as it had when it was found, and all of it after a second", async () => {
  await using site = await serve();
  beforeOpen(() => Deno.writeTextFile(site.at("docs/file.txt"), LARGE));
  assertEquals(await site.read("/docs/file.txt"), "inside");
  site.clock.pass(1_000);
  assertEquals(await site.read("/docs/file.txt"), LARGE);
});

Deno.test("StaticContent streams no more than the size that a file had, and looks again at one that has become smaller", async () => {
  await using site = await serve();
  const path = site.at("docs/large.txt");
  beforeOpen(() => Deno.writeTextFile(path, " and more", { append: true }));
  assertEquals(await site.read("/docs/large.txt"), LARGE);
  beforeOpen(() => Deno.truncate(path, 3));
  assertEquals(await site.read("/docs/large.txt"), "ins");
});

/** Replaces a name by two others in turn, for as long as it lives: each is kept under a name of its own. */
const REPLACE_FOREVER = `const [path, a, b] = Deno.args;
for (;;) {
  Deno.renameSync(path, a); Deno.renameSync(b, path);
  Deno.renameSync(path, b); Deno.renameSync(a, path);
}`;

async function replaceForever(
  path: string,
  other: string,
) {
  const program = join(path, "../replace.js");
  await Deno.writeTextFile(program, REPLACE_FOREVER);
  const flags = ["--quiet", "--no-config", "--no-lock", "-A"];
  const args = ["run", ...flags, program, path, `${path}-kept`, other];
  const child = new Deno.Command(Deno.execPath(), { args }).spawn();
  return {
    async [Symbol.asyncDispose]() {
      child.kill("SIGKILL");
      await child.status;
    },
  };
}

for (const cacheBytes of [0, 1_000_000]) {
  Deno.test(`StaticContent sends nothing from outside with a cache of ${cacheBytes} bytes while a file and a link are exchanged`, async () => {
    await using site = await serve(cacheBytes);
    await Deno.symlink(site.at("../outside/file.txt"), site.at("other"));
    const results = new Set<string>();
    const [path, other] = [site.at("docs/file.txt"), site.at("other")];
    await using _replacing = await replaceForever(path, other);
    for (let i = 0; !results.has("404") || i < 300; i++) {
      site.clock.pass(1_000);
      const paths = Array(10).fill("/docs/file.txt");
      for (const result of await site.readAll(paths)) results.add(result);
    }
    assertEquals(results.difference(new Set(["404", "inside"])), new Set());
  });
}
