import { assertEquals, assertNotEquals, assertRejects } from "@std/assert";
import { eTag } from "@std/http/etag";
import { dirname } from "@std/path";
import { brotliDecompressSync, gunzipSync } from "node:zlib";
import { Compressor } from "../../../src/coding/compressor.ts";
import { StaticFiles } from "../../../src/content/static/static_files.ts";
import type { StaticPage } from "../../../src/content/static/static_page.ts";
import { Problem } from "../../../src/http/problem.ts";
import { FakeClock, settle } from "../../../tools/fake_clock.ts";
import { TempDirectory } from "../../_temp.ts";
import { respondWith } from "./_respond.ts";

Deno.test.sanitizer({ ops: true, resources: true }); // off by default since Deno 2.8

interface Site extends AsyncDisposable {
  readonly clock: FakeClock;
  /** Resolves when everything that was asked for is compressed. */
  compressed(): Promise<void>;
  /** How often something was compressed. */
  compressions(): number;
  readonly files: StaticFiles;
  /** A path in the served directory. The directory itself is inside another one. */
  at(name: string): string;
  get(path: string, headers?: HeadersInit): Promise<Response>;
  /** The body of a response, or its status if there is no file. */
  read(path: string): Promise<string>;
}

class CountingCompressor extends Compressor {
  count = 0;

  override compress(...args: Parameters<Compressor["compress"]>) {
    this.count++;
    return super.compress(...args);
  }
}

async function serve(content: Record<string, string>, cacheBytes?: number): Promise<Site> {
  const directory = await TempDirectory.make();
  for (const [name, text] of Object.entries(content)) {
    await Deno.mkdir(dirname(directory.at(`site/${name}`)), { recursive: true });
    await Deno.utime(await directory.write(`site/${name}`, text), MODIFIED, MODIFIED); // not written just now
  }
  await directory.write("secret.txt", "secret");
  const [clock, compressor] = [new FakeClock(Date.now()), new CountingCompressor()];
  const options = { directory: directory.at("site"), clock, compressor };
  const files = await StaticFiles.open({ ...options, ...(cacheBytes === undefined ? {} : { cacheBytes }) });
  const get = (path: string, headers: HeadersInit = {}) =>
    respondWith(files, new Request(`http://app.example${path}`, { headers }));
  return {
    clock,
    async compressed() {
      await compressor.idle();
      await settle(); // its entity tag is computed then
    },
    compressions: () => compressor.count,
    files,
    at: (name) => directory.at(`site/${name}`),
    get,
    async read(path) {
      try {
        return await (await get(path)).text();
      } catch (error) {
        if (error instanceof Problem) return String(error.status);
        throw error;
      }
    },
    [Symbol.asyncDispose]: () => directory[Symbol.asyncDispose](),
  };
}

/** A change of the served files, and what is read at `/app.txt` before and after it. */
interface Change {
  readonly name: string;
  readonly before?: (site: Site) => Promise<unknown>;
  readonly change: (site: Site) => Promise<unknown>;
  readonly after: string;
}

const MODIFIED = new Date("1994-11-06T08:49:37.500Z");

async function replace(from: string, to: string): Promise<void> {
  await Deno.writeTextFile(`${to}.tmp`, from);
  await Deno.utime(`${to}.tmp`, MODIFIED, MODIFIED);
  await Deno.rename(`${to}.tmp`, to);
}

async function link(target: string, path: string): Promise<void> {
  await Deno.symlink(target, `${path}.tmp`);
  await Deno.rename(`${path}.tmp`, path);
}

const CHANGES: Change[] = [
  { name: "is replaced", change: ({ at }) => Deno.writeTextFile(at("app.txt"), "longer text"), after: "longer text" },
  {
    name: "is replaced by one with the same size and date",
    before: ({ at }) => replace("old", at("app.txt")),
    change: ({ at }) => replace("new", at("app.txt")),
    after: "new",
  },
  {
    name: "is overwritten with the same size and date, and so has the same inode",
    before: ({ at }) => Deno.utime(at("app.txt"), MODIFIED, MODIFIED),
    change: async ({ at }) => {
      await Deno.writeTextFile(at("app.txt"), "new");
      await Deno.utime(at("app.txt"), MODIFIED, MODIFIED);
    },
    after: "new",
  },
  { name: "is deleted", change: ({ at }) => Deno.remove(at("app.txt")), after: "404" },
  {
    name: "becomes a link out of the directory",
    change: ({ at }) => link("../secret.txt", at("app.txt")),
    after: "404",
  },
  { name: "becomes a link", change: ({ at }) => link("2/app.txt", at("app.txt")), after: "two" },
  {
    name: "is a link that is switched to a file with the same size",
    before: ({ at }) => link("1/app.txt", at("app.txt")),
    change: ({ at }) => link("2/app.txt", at("app.txt")),
    after: "two",
  },
  {
    name: "is below a link that is switched",
    before: async ({ at }) => {
      await link("1", at("data"));
      await link("data/app.txt", at("app.txt"));
    },
    change: ({ at }) => link("2", at("data")),
    after: "two",
  },
  {
    name: "is replaced by a directory",
    change: async ({ at }) => {
      await Deno.remove(at("app.txt"));
      await Deno.mkdir(at("app.txt"));
    },
    after: "404",
  },
];

for (const { name, before, change, after } of CHANGES) {
  Deno.test(`StaticFiles serves a file from memory for less than a second after it ${name}`, async () => {
    await using site = await serve({ "app.txt": "old", "1/app.txt": "old", "2/app.txt": "two" });
    await before?.(site);
    assertEquals(await site.read("/app.txt"), "old");
    await change(site);
    site.clock.jump(999);
    assertEquals(await site.read("/app.txt"), "old");
    site.clock.jump(1);
    assertEquals(await site.read("/app.txt"), after);
    site.clock.jump(1_000);
    assertEquals(await site.read("/app.txt"), after);
  });
}

Deno.test("StaticFiles serves a release that a link is switched to after a second, pages and files alike", async () => {
  await using site = await serve({
    "1/index.html": "one",
    "1/app.txt": "one",
    "2/index.html": "two",
    "2/app.txt": "two",
  });
  await link("1", site.at("current"));
  const files = await StaticFiles.open({ directory: site.at("current"), clock: site.clock });
  const read = async () => {
    const paths = ["/", "/users", "/app.txt"];
    const responses = paths.map((path) => respondWith(files, new Request(`http://app.example${path}`)));
    return await Promise.all((await Promise.all(responses)).map((response) => response.text()));
  };
  assertEquals(await read(), ["one", "one", "one"]);
  await link("2", site.at("current"));
  assertEquals(await read(), ["one", "one", "one"]);
  site.clock.jump(1_000);
  assertEquals(await read(), ["two", "two", "two"]);
});

Deno.test("StaticFiles does not keep what it read of a file while that was being written", async () => {
  await using site = await serve({ "index.html": "index" });
  using file = await Deno.open(site.at("app.txt"), { write: true, create: true });
  assertEquals(await site.read("/app.txt"), "");
  await file.write(new TextEncoder().encode("one "));
  assertEquals(await site.read("/app.txt"), "one ");
  await file.write(new TextEncoder().encode("two"));
  assertEquals(await site.read("/app.txt"), "one two");
});

Deno.test("StaticFiles serves a file that is created after a second", async () => {
  await using site = await serve({ "index.html": "index" });
  assertEquals([await site.read("/a.txt"), await site.read("/docs/a"), await site.read("/b")], [
    "404",
    "index",
    "index",
  ]);
  await Deno.mkdir(site.at("docs"));
  for (const name of ["a.txt", "docs/a", "b"]) await Deno.writeTextFile(site.at(name), "new");
  assertEquals([await site.read("/a.txt"), await site.read("/docs/a"), await site.read("/b")], [
    "404",
    "index",
    "index",
  ]);
  site.clock.jump(1_000);
  assertEquals([await site.read("/a.txt"), await site.read("/docs/a"), await site.read("/b")], ["new", "new", "new"]);
});

Deno.test("StaticFiles looks at a file again if the clock was set back", async () => {
  await using site = await serve({ "app.txt": "old" });
  assertEquals(await site.read("/app.txt"), "old");
  await Deno.writeTextFile(site.at("app.txt"), "new text");
  site.clock.jump(-60_000);
  assertEquals(await site.read("/app.txt"), "new text");
});

Deno.test({
  name: "StaticFiles does not serve a file from memory after it became a FIFO",
  ignore: Deno.build.os === "windows",
  async fn() {
    await using site = await serve({ "app.txt": "old" });
    assertEquals(await site.read("/app.txt"), "old");
    await Deno.remove(site.at("app.txt"));
    await new Deno.Command("mkfifo", { args: [site.at("app.txt")] }).output();
    site.clock.jump(1_000);
    assertEquals(await site.read("/app.txt"), "404");
  },
});

Deno.test({
  name: "StaticFiles does not serve a file from memory after its read permission was removed",
  ignore: Deno.uid() === 0, // root has every permission
  async fn() {
    await using site = await serve({ "app.txt": "old" });
    assertEquals(await site.read("/app.txt"), "old");
    await Deno.chmod(site.at("app.txt"), 0o000);
    site.clock.jump(1_000);
    await assertRejects(() => site.read("/app.txt"), Deno.errors.PermissionDenied);
    await Deno.chmod(site.at("app.txt"), 0o600);
    assertEquals(await site.read("/app.txt"), "old");
  },
});

Deno.test({
  name: "StaticFiles sends a file plain if its compressed variant must not be read",
  ignore: Deno.uid() === 0, // root has every permission
  async fn() {
    for (const cacheBytes of [0, 1_000_000]) {
      await using site = await serve({ "app.txt": "text", "app.txt.br": "br" }, cacheBytes);
      await Deno.chmod(site.at("app.txt.br"), 0o000);
      for (const accepted of ["", "br"]) {
        const response = await site.get("/app.txt", { "accept-encoding": accepted });
        assertEquals([response.headers.get("content-encoding"), await response.text()], [null, "text"]);
      }
    }
  },
});

async function pageAt(site: Site, path: string): Promise<StaticPage> {
  const result = await site.files.respond(new Request(`http://app.example${path}`));
  if (result.kind !== "page") throw new Error(`Expected a page, got ${result.kind}`);
  return result.page;
}

Deno.test("StaticFiles has the same page for requests that come in at once, by any path", async () => {
  await using site = await serve({ "index.html": "index" });
  const paths = ["/", "/", "/index.html", "/users/1", "/users/2"];
  const pages = await Promise.all(paths.map((path) => pageAt(site, path)));
  assertEquals(new Set(pages).size, 1);
});

Deno.test("StaticFiles keeps a page in memory for as long as the file is unchanged", async () => {
  await using site = await serve({ "index.html": "index" });
  const first = await pageAt(site, "/");
  for (let second = 0; second < 3; second++) {
    site.clock.jump(1_000);
    assertEquals(await pageAt(site, "/") === first, true);
  }
  await Deno.writeTextFile(site.at("index.html"), "other");
  site.clock.jump(1_000);
  assertEquals(await pageAt(site, "/") === first, false);
});

Deno.test("StaticFiles responds at once from memory", async () => {
  await using site = await serve({ "index.html": "index", "app.txt": "text" });
  for (const path of ["/", "/users/1", "/app.txt", "/missing.txt"]) await site.read(path);
  for (const path of ["/", "/users/1", "/app.txt"]) {
    assertEquals(site.files.respond(new Request(`http://app.example${path}?query`)) instanceof Promise, false);
  }
});

/** Counts the calls of `Deno.realPath`, with which every lookup begins. */
async function countLookups(run: () => Promise<unknown>): Promise<number> {
  const { realPath } = Deno;
  let count = 0;
  Deno.realPath = (path) => {
    count++;
    return realPath(path);
  };
  try {
    await run();
  } finally {
    Deno.realPath = realPath;
  }
  return count;
}

Deno.test("StaticFiles asks the file system nothing for routes of the app below one that it knows, or for known paths", async () => {
  await using site = await serve({ "index.html": "index" });
  const first = await countLookups(() => Promise.all(["/users/0", "/missing.js"].map(site.read)));
  assertNotEquals(first, 0);
  const routes = Array.from({ length: 100 }, (_, i) => `/users/${i}/edit`);
  assertEquals(await countLookups(() => Promise.all([...routes, "/users/0", "/missing.js"].map(site.read))), 0);
});

Deno.test("StaticFiles looks at and reads a file once for requests that come in at once", async () => {
  const countFor = async (requests: number) => {
    await using site = await serve({ "index.html": "index" });
    return await countLookups(() => Promise.all(Array.from({ length: requests }, () => site.read("/"))));
  };
  assertEquals(await countFor(20), await countFor(1));
});

Deno.test("StaticFiles removes the least recently used files when the cache is full", async () => {
  await using site = await serve({ "a.html": "a", "b.html": "b", "c.html": "c" }, 5_000);
  const [a, b] = [await pageAt(site, "/a.html"), await pageAt(site, "/b.html")];
  assertEquals(await pageAt(site, "/a.html") === a, true);
  await pageAt(site, "/c.html");
  assertEquals([await pageAt(site, "/a.html") === a, await pageAt(site, "/b.html") === b], [true, false]);
});

Deno.test("StaticFiles counts what is made of a page against the limit", async () => {
  await using site = await serve({ "a.html": "a", "b.html": "b" }, 40_000);
  const [a, b] = [await pageAt(site, "/a.html"), await pageAt(site, "/b.html")];
  b.countDerived(34_000);
  assertEquals([await pageAt(site, "/b.html") === b, await pageAt(site, "/a.html") === a], [true, false]);
});

Deno.test("StaticFiles still counts what is made of a page after it has looked at the file again", async () => {
  await using site = await serve({ "a.html": "a", "b.html": "b" }, 40_000);
  const b = await pageAt(site, "/b.html");
  b.countDerived(34_000);
  site.clock.jump(1_000); // the file has just been created, so it is read again
  assertEquals(await pageAt(site, "/b.html") === b, true);
  const a = await pageAt(site, "/a.html");
  await pageAt(site, "/b.html");
  assertEquals([await pageAt(site, "/a.html") === a, await pageAt(site, "/b.html") === b], [true, false]);
});

Deno.test("StaticFiles compresses a file once, or not at all if the cache is small", async () => {
  const text = "text ".repeat(8_000); // with what it takes compressed, more than the smallest of these caches
  for (const cacheBytes of [45_100, 100_000, 400_000]) {
    await using site = await serve({ "app.txt": text }, cacheBytes);
    for (let i = 0; i < 3; i++) {
      await (await site.get("/app.txt", { "accept-encoding": "gzip" })).body?.cancel();
      await site.compressed();
    }
    assertEquals(site.compressions() <= 1, true, `${site.compressions()} with ${cacheBytes}`);
  }
});

Deno.test("StaticFiles keeps nothing with a cache of 0 bytes", async () => {
  await using site = await serve({ "app.txt": "old" }, 0);
  assertEquals(await site.read("/app.txt"), "old");
  await Deno.writeTextFile(site.at("app.txt"), "new text");
  assertEquals(await site.read("/app.txt"), "new text");
});

Deno.test("StaticFiles is not affected by a response whose bytes are changed or transferred", async () => {
  await using site = await serve({ "app.txt": "text" });
  (await (await site.get("/app.txt")).bytes()).fill(0);
  for await (const chunk of (await site.get("/app.txt")).body ?? []) chunk.buffer.transfer();
  assertEquals(await site.read("/app.txt"), "text");
});

const SCRIPT = Array.from({ length: 500 }, (_, i) => `export const value${i} = ${i};`).join("\n");
const DECODERS = { br: brotliDecompressSync, gzip: gunzipSync };

for (const [accepted, coding] of [["gzip, deflate, br, zstd", "br"], ["gzip", "gzip"]] as const) {
  Deno.test(`StaticFiles sends text plain until it is compressed, and then in ${coding} for "${accepted}"`, async () => {
    await using site = await serve({ "app.js": SCRIPT });
    const headers = { "accept-encoding": accepted };
    const first = await site.get("/app.js", headers);
    const etag = await eTag(SCRIPT) ?? "";
    const common = Object.fromEntries(first.headers);
    assertEquals([await first.text(), common.vary, common.etag], [SCRIPT, "Accept-Encoding", etag]);
    await site.compressed();
    const second = await site.get("/app.js", headers);
    const bytes = await second.bytes();
    assertEquals(new TextDecoder().decode(DECODERS[coding](bytes)), SCRIPT);
    assertEquals(Object.fromEntries(second.headers), {
      ...common,
      "content-encoding": coding,
      "content-length": `${bytes.length}`,
      "etag": `${(await eTag(bytes))?.slice(0, -1)}-${coding}"`,
    });
  });
}

Deno.test("StaticFiles evaluates preconditions and ranges of a compressed file for the bytes that it sends", async () => {
  await using site = await serve({ "app.js": SCRIPT });
  const br = { "accept-encoding": "br" };
  const plain = await site.get("/app.js", br);
  await plain.body?.cancel();
  await site.compressed();
  const compressed = await site.get("/app.js", br);
  const bytes = await compressed.bytes();
  const [plainEtag = "", etag = ""] = [plain, compressed].map(({ headers }) => headers.get("etag") ?? "");
  const statusOf = async (headers: HeadersInit) => {
    const response = await site.get("/app.js", headers);
    return [response.status, response.headers.get("etag"), (await response.bytes()).length];
  };
  assertEquals(await statusOf({ ...br, "if-none-match": etag }), [304, etag, 0]);
  assertEquals(await statusOf({ "if-none-match": etag }), [200, plainEtag, SCRIPT.length]);
  // A client that got the plain file keeps it.
  assertEquals(await statusOf({ ...br, "if-none-match": plainEtag }), [304, plainEtag, 0]);
  assertEquals(await statusOf({ ...br, "if-none-match": `${plainEtag}, ${etag}` }), [304, etag, 0]);
  const range = await site.get("/app.js", { ...br, "range": "bytes=5-9", "if-range": etag });
  assertEquals([range.status, range.headers.get("content-encoding"), await range.bytes()], [
    206,
    "br",
    bytes.slice(5, 10),
  ]);
  assertEquals(await statusOf({ ...br, "range": "bytes=5-9", "if-range": plainEtag }), [200, etag, bytes.length]);
});

Deno.test("StaticFiles compresses a file again after it has changed", async () => {
  await using site = await serve({ "app.js": SCRIPT });
  const read = async () => {
    const response = await site.get("/app.js", { "accept-encoding": "gzip" });
    const bytes = await response.bytes();
    const isPlain = response.headers.get("content-encoding") === null;
    return [isPlain, new TextDecoder().decode(isPlain ? bytes : gunzipSync(bytes))];
  };
  await read();
  await site.compressed();
  assertEquals(await read(), [false, SCRIPT]);
  await Deno.writeTextFile(site.at("app.js"), `${SCRIPT}//`);
  site.clock.jump(1_000);
  assertEquals(await read(), [true, `${SCRIPT}//`]);
  await site.compressed();
  assertEquals(await read(), [false, `${SCRIPT}//`]);
});

const NOT_COMPRESSED: [name: string, content: string, sidecar: Record<string, string>, vary: string | null][] = [
  ["a.png", SCRIPT, {}, null],
  ["a.js", "short", {}, null],
  ["a.js", SCRIPT, { "a.js.gz": "GZ" }, "Accept-Encoding"],
];

for (const [name, content, sidecar, vary] of NOT_COMPRESSED) {
  Deno.test(`StaticFiles does not compress ${name} of ${content.length} bytes beside ${Object.keys(sidecar)}`, async () => {
    await using site = await serve({ [name]: content, ...sidecar });
    for (let i = 0; i < 2; i++) {
      const { headers, body } = await site.get(`/${name}`, { "accept-encoding": "br" });
      await body?.cancel();
      await site.compressed();
      assertEquals([headers.get("content-encoding"), headers.get("vary")], [null, vary]);
    }
  });
}

Deno.test("StaticFiles prefers .br to .zst and .gz files, and notices a new one after a second", async () => {
  await using site = await serve({ "app.js": SCRIPT, "app.js.gz": "GZ" });
  const read = async () => await (await site.get("/app.js", { "accept-encoding": "gzip, zstd, br" })).text();
  assertEquals(await read(), "GZ");
  for (const [suffix, expected] of [["zst", "ZS"], ["br", "BR"]] as const) {
    await Deno.writeTextFile(site.at(`app.js.${suffix}`), expected);
    site.clock.jump(1_000);
    assertEquals(await read(), expected);
  }
});
