import { assertEquals, assertRejects } from "@std/assert";
import { join } from "@std/path";
import type { StreamedBody } from "../../../src/coding/representations.ts";
import { lookAt } from "../../../src/content/static/look.ts";
import {
  type FilePlace,
  readFile,
} from "../../../src/content/static/open_file.ts";
import { FakeClock } from "../../../tools/fake_clock.ts";
import { answerWith, openContent } from "./_content.ts";

Deno.test.sanitizer({ ops: true, resources: true }); // off by default since Deno 2.8

/** A directory `site` with a file, next to a directory `outside`. */
interface Site extends AsyncDisposable {
  root: string;
  outside: string;
}

async function makeSite(): Promise<Site> {
  const parent = await Deno.realPath(await Deno.makeTempDir());
  const [root, outside] = [join(parent, "site"), join(parent, "outside")];
  for (const directory of [root, join(root, "docs"), outside]) {
    await Deno.mkdir(directory);
  }
  await Deno.writeTextFile(join(root, "docs/file.txt"), "inside");
  await Deno.writeTextFile(join(outside, "file.txt"), "secret");
  return {
    root,
    outside,
    [Symbol.asyncDispose]: () => Deno.remove(parent, { recursive: true }),
  };
}

/** Looks at a file in a site. */
async function look({ root }: Site, name: string): Promise<FilePlace> {
  return { ...await lookAt(join(root, name)), root, coding: "identity" };
}

/** Reads a file: into memory, or from a stream. */
async function read(place: FilePlace, maxBytes: number): Promise<string> {
  const { body } = await readFile(place, maxBytes);
  return await new Response(
    body instanceof Uint8Array ? body : await body.read(),
  ).text();
}

for (
  const [kind, maxBytes] of [["into memory", 1_000], [
    "as a stream",
    3,
  ]] as const
) {
  Deno.test(`readFile() reads a file ${kind}`, async () => {
    await using site = await makeSite();
    assertEquals(
      await read(await look(site, "docs/file.txt"), maxBytes),
      "inside",
    );
  });

  Deno.test(`readFile() rejects a file that is truncated while it is read ${kind}`, async () => {
    await using site = await makeSite();
    const place = await look(site, "docs/file.txt");
    const { open } = Deno;
    Deno.open = async (path, options) => {
      const file = await open(path, options);
      const stat = file.stat.bind(file);
      file.stat = async () => ({ ...await stat(), size: 9 });
      return file;
    };
    try {
      await assertRejects(() => read(place, maxBytes), Error, "truncated");
    } finally {
      Deno.open = open;
    }
  });
}

Deno.test("readFile() streams no more than the size that the file had, and rejects one that became smaller", async () => {
  await using site = await makeSite();
  const { body } = await readFile(await look(site, "docs/file.txt"), 3);
  const streamed = body as StreamedBody;
  const path = join(site.root, "docs/file.txt");
  await Deno.writeTextFile(path, " and more", { append: true });
  assertEquals([
    streamed.length,
    await new Response(await streamed.read()).text(),
  ], [6, "inside"]);
  await Deno.truncate(path, 3);
  await assertRejects(async () => await streamed.read(), Deno.errors.NotFound);
});

/** A change of the site since a file was looked at. */
interface Replacement {
  readonly name: string;
  readonly replace: (site: Site, path: string) => Promise<unknown>;
}

const REPLACEMENTS: Replacement[] = [
  {
    name: "readFile() rejects a file that was removed",
    replace: (_, path) => Deno.remove(path),
  },
  {
    name: "readFile() rejects a file that was replaced by another one",
    async replace(_, path) {
      await Deno.writeTextFile(`${path}.new`, "inside");
      await Deno.rename(`${path}.new`, path);
    },
  },
  {
    name: "readFile() rejects a file that was replaced by a link",
    async replace({ outside }, path) {
      await Deno.remove(path);
      await Deno.symlink(join(outside, "file.txt"), path);
    },
  },
  {
    name: "readFile() rejects a file that was replaced by a link to it",
    async replace({ outside }, path) {
      await Deno.rename(path, join(outside, "moved.txt"));
      await Deno.symlink(join(outside, "moved.txt"), path);
    },
  },
  {
    name: "readFile() rejects a file whose directory was replaced by a link",
    async replace({ root, outside }) {
      await Deno.rename(join(root, "docs"), join(root, "old"));
      await Deno.symlink(outside, join(root, "docs"));
    },
  },
  {
    name:
      "readFile() rejects a file whose directory was replaced by a link to it",
    async replace({ root, outside }) {
      await Deno.rename(join(root, "docs"), join(outside, "docs"));
      await Deno.symlink(join(outside, "docs"), join(root, "docs"));
    },
  },
];

for (const { name, replace } of REPLACEMENTS) {
  Deno.test(name, async () => {
    await using site = await makeSite();
    const place = await look(site, "docs/file.txt");
    const { body } = await readFile(place, 3);
    await replace(site, place.path);
    await assertRejects(() => readFile(place, 1_000), Deno.errors.NotFound);
    await assertRejects(
      async () => await (body as StreamedBody).read(),
      Deno.errors.NotFound,
    );
  });
}

/** Replaces a name by two others in turn, for as long as it lives: each is kept under a name of its own. */
const REPLACE_FOREVER = `const [path, a, b] = Deno.args;
for (;;) {
  Deno.renameSync(path, a); Deno.renameSync(b, path);
  Deno.renameSync(path, b); Deno.renameSync(a, path);
}`;

async function replaceForever(
  path: string,
  other: string,
): Promise<AsyncDisposable> {
  const program = join(path, "../replace.js");
  await Deno.writeTextFile(program, REPLACE_FOREVER);
  const args = [
    "run",
    "--quiet",
    "--no-config",
    "--no-lock",
    "-A",
    program,
    path,
    `${path}-kept`,
    other,
  ];
  const child = new Deno.Command(Deno.execPath(), {
    args,
    stdin: "null",
    stdout: "null",
    stderr: "inherit",
  }).spawn();
  return {
    async [Symbol.asyncDispose]() {
      child.kill("SIGKILL");
      await child.status;
    },
  };
}

async function bodyOrStatus(responding: Promise<Response>): Promise<string> {
  const response = await responding;
  const text = await response.text();
  return response.status < 400 ? text : String(response.status);
}

const EXCHANGES = [
  ["file", "docs/file.txt", "file.txt", 0],
  ["file", "docs/file.txt", "file.txt", 1_000_000],
  ["directory", "docs", ".", 0],
  ["directory", "docs", ".", 1_000_000],
] as const;

for (const [what, name, target, cacheBytes] of EXCHANGES) {
  const cache = `a cache of ${cacheBytes} bytes`;
  Deno.test(`StaticContent sends nothing from outside with ${cache} while a ${what} and a link are exchanged`, async () => {
    await using site = await makeSite();
    const clock = new FakeClock();
    const content = await openContent({
      directory: site.root,
      clock,
      cacheBytes,
    });
    await Deno.symlink(join(site.outside, target), join(site.root, "other"));
    const results = new Set<string>();
    await using _replacing = await replaceForever(
      join(site.root, name),
      join(site.root, "other"),
    );
    for (let i = 0; !results.has("404") || i < 300; i++) {
      clock.pass(1_000);
      const request = () =>
        answerWith(content, new Request("http://app.example/docs/file.txt"));
      const batch = await Promise.all(
        Array.from({ length: 10 }, () => bodyOrStatus(request())),
      );
      for (const result of batch) results.add(result);
    }
    assertEquals(results.difference(new Set(["404", "inside"])), new Set());
  });
}
