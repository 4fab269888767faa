import { assertEquals, assertNotEquals, assertRejects } from "@std/assert";
import { eTag } from "@std/http/etag";
import { basename } from "@std/path";
import { brotliDecompressSync, gunzipSync } from "node:zlib";
import { Compressor } from "../../../src/content/coding/representations.ts";
import { settle } from "../../../tools/fake_clock.ts";
import {
  answerWith,
  MODIFIED,
  NO_SCRIPT,
  openContent,
  respondWith,
  serveSite,
  type Site,
} from "./_content.ts";
import { allCompressed } from "../_compressed.ts";

Deno.test.sanitizer({ ops: true, resources: true }); // off by default since Deno 2.8

class CountingCompressor extends Compressor {
  count = 0;

  override compress(...args: Parameters<Compressor["compress"]>) {
    this.count++;
    return super.compress(...args);
  }
}

/** Serves files, and counts what is compressed. */
async function serve(files: Record<string, string>, cacheBytes = 67_108_864) {
  const compressor = new CountingCompressor();
  return {
    ...await serveSite(files, { cacheBytes, compressor }),
    /** Resolves when everything that was asked for is compressed. */
    async compressed() {
      await allCompressed(compressor);
      await settle();
    },
    /** How often something was compressed. */
    compressions: () => compressor.count,
  };
}

/** A change of the served files, and what is read at `/app.txt` before and after it. */
interface Change {
  name: string;
  before?: (site: Site) => Promise<unknown>;
  change: (site: Site) => Promise<unknown>;
  after: string;
}

async function replace(from: string, to: string) {
  await Deno.writeTextFile(`${to}.tmp`, from);
  await Deno.utime(`${to}.tmp`, MODIFIED, MODIFIED);
  await Deno.rename(`${to}.tmp`, to);
}

async function link(target: string, path: string) {
  await Deno.symlink(target, `${path}.tmp`);
  await Deno.rename(`${path}.tmp`, path);
}

const CHANGES: Change[] = [
  {
    name: "is replaced",
    change: ({ at }) => Deno.writeTextFile(at("app.txt"), "longer text"),
    after: "longer text",
  },
  {
    name: "is replaced by one with the same size and date",
    before: ({ at }) => replace("old", at("app.txt")),
    change: ({ at }) => replace("new", at("app.txt")),
    after: "new",
  },
  {
    name:
      "is overwritten with the same size and date, and so has the same inode",
    before: ({ at }) => Deno.utime(at("app.txt"), MODIFIED, MODIFIED),
    change: async ({ at }) => {
      await Deno.writeTextFile(at("app.txt"), "new");
      await Deno.utime(at("app.txt"), MODIFIED, MODIFIED);
    },
    after: "new",
  },
  {
    name: "is deleted",
    change: ({ at }) => Deno.remove(at("app.txt")),
    after: "404",
  },
  {
    name: "becomes a link out of the directory",
    change: ({ at }) => link("../secret.txt", at("app.txt")),
    after: "404",
  },
  {
    name: "becomes a link",
    change: ({ at }) => link("2/app.txt", at("app.txt")),
    after: "two",
  },
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
  Deno.test(`StaticContent serves a file from memory for less than a second after it ${name}`, async () => {
    const files = { "app.txt": "old", "1/app.txt": "old", "2/app.txt": "two" };
    await using site = await serve(files);
    await before?.(site);
    const reads = [await site.read("/app.txt")];
    await change(site);
    for (const ms of [999, 1, 1_000]) {
      site.clock.pass(ms);
      reads.push(await site.read("/app.txt"));
    }
    assertEquals(reads, ["old", "old", after, after]);
  });
}

Deno.test("StaticContent serves a release that a link is switched to after a second, pages and files alike", async () => {
  await using site = await serve({
    "1/index.html": "one",
    "1/app.txt": "one",
    "2/index.html": "two",
    "2/app.txt": "two",
  });
  await link("1", site.at("current"));
  const options = { directory: site.at("current"), clock: site.clock };
  const content = await openContent(options);
  const readAll = () =>
    Promise.all(["/", "/users", "/app.txt"].map(async (path) => {
      const request = new Request(`http://app.example${path}`);
      return await (await respondWith(content, request)).text();
    }));
  assertEquals(await readAll(), ["one", "one", "one"]);
  await link("2", site.at("current"));
  assertEquals(await readAll(), ["one", "one", "one"]);
  site.clock.pass(1_000);
  assertEquals(await readAll(), ["two", "two", "two"]);
});

Deno.test("StaticContent serves a file that is created after a second", async () => {
  await using site = await serve({ "index.html": "index" });
  const paths = ["/a.txt", "/docs/a", "/b"];
  assertEquals(await site.readAll(paths), ["404", "index", "index"]);
  await Deno.mkdir(site.at("docs"));
  for (const path of paths) await site.write(path, "new");
  assertEquals(await site.readAll(paths), ["404", "index", "index"]);
  site.clock.pass(1_000);
  assertEquals(await site.readAll(paths), ["new", "new", "new"]);
});

Deno.test("StaticContent looks once at a directory that is missing, however many links lead into it, and again after a second", async () => {
  await using site = await serve({ "index.html": "home" });
  const looked: string[] = [];
  const { stat } = Deno;
  Deno.stat = (path) => {
    looked.push(basename(String(path)));
    return stat(path);
  };
  try {
    for (let order = 0; order < 100; order++) {
      assertEquals(await site.read(`/orders/${order}/lines/1`), "home");
    }
  } finally {
    Deno.stat = stat;
  }
  const fallbacks = ["200.html", "404.html", "__spa-fallback.html"];
  const expected = [...fallbacks, "index.csr.html", "orders"];
  assertEquals(looked.toSorted(), expected);
  await Deno.mkdir(site.at("orders"));
  await site.write("orders/1.html", "an order");
  assertEquals(await site.read("/orders/1"), "home");
  await site.clock.tick(1_000);
  assertEquals(await site.read("/orders/1"), "an order");
});

Deno.test("StaticContent looks at a file again after a second, wherever the system's clock is set meanwhile", async () => {
  await using site = await serve({ "app.txt": "old" });
  assertEquals(await site.read("/app.txt"), "old");
  await Deno.writeTextFile(site.at("app.txt"), "new text");
  for (const ms of [-60_000, 120_000]) {
    site.clock.jump(ms);
    assertEquals(await site.read("/app.txt"), "old");
  }
  site.clock.jump(-60_000);
  site.clock.pass(1_000);
  assertEquals(await site.read("/app.txt"), "new text");
});

Deno.test({
  name:
    "StaticContent does not serve a file from memory after its read permission was removed",
  ignore: Deno.uid() === 0, // root has every permission
  async fn() {
    await using site = await serve({ "app.txt": "old" });
    assertEquals(await site.read("/app.txt"), "old");
    await Deno.chmod(site.at("app.txt"), 0o000);
    site.clock.pass(1_000);
    assertEquals(await site.read("/app.txt"), "500");
    await Deno.chmod(site.at("app.txt"), 0o600);
    site.clock.pass(1_000);
    assertEquals(await site.read("/app.txt"), "old");
  },
});

Deno.test({
  name:
    "StaticContent sends a file plain if its compressed variant must not be read",
  ignore: Deno.uid() === 0, // root has every permission
  async fn() {
    for (const cacheBytes of [0, 1_000_000]) {
      await using site = await serve(
        { "app.txt": "text", "app.txt.br": "br" },
        cacheBytes,
      );
      await Deno.chmod(site.at("app.txt.br"), 0o000);
      for (const accepted of ["", "br"]) {
        const headers = { "accept-encoding": accepted };
        assertEquals(await site.read("/app.txt", headers), "text");
      }
    }
  },
});

/** Counts how often files are opened. */
async function countOpened(run: () => Promise<unknown>) {
  const { open } = Deno;
  let count = 0;
  Deno.open = (...args: Parameters<typeof open>) => {
    count++;
    return open(...args);
  };
  try {
    await run();
  } finally {
    Deno.open = open;
  }
  return count;
}

/** Returns whether a file is in memory. */
async function isKept({ read }: Site, path: string) {
  return await countOpened(() => read(path)) === 0;
}

Deno.test("StaticContent keeps what it made of a page for as long as the file is unchanged", async () => {
  const html = "<p>text</p>".repeat(500);
  await using site = await serve({ "index.html": html });
  const codingOf = async () => {
    const { headers, body } = await site.get("/", { "accept-encoding": "br" });
    await body?.cancel();
    return headers.get("content-encoding");
  };
  assertEquals(await codingOf(), null);
  await site.compressed();
  for (let second = 0; second < 3; second++) {
    site.clock.pass(1_000);
    assertEquals([await codingOf(), site.compressions()], ["br", 1]);
  }
  await Deno.writeTextFile(site.at("index.html"), `${html}<p>more</p>`);
  site.clock.pass(1_000);
  assertEquals(await codingOf(), null);
});

Deno.test("StaticContent counts what is made of a page against the limit", async () => {
  await using site = await serve({ "a.html": "a", "b.html": "b" }, 40_000);
  const script = { ...NO_SCRIPT, bytes: new Uint8Array(10_000) };
  const ask = async (name: string) => {
    const request = new Request(`http://app.example/${name}.html`);
    const { body } = await answerWith(site.content, request, script);
    await body?.cancel();
  };
  const kept = async () => [
    await isKept(site, "/a.html"),
    await isKept(site, "/b.html"),
  ];
  await ask("a"); // only now the size of the script is known
  await ask("b");
  assertEquals(await kept(), [true, true]);
  site.clock.pass(1_000);
  await ask("a");
  assertEquals(await kept(), [true, false]);
});

Deno.test("StaticContent keeps nothing with a cache of 0 bytes", async () => {
  await using site = await serve({ "app.txt": "old" }, 0);
  assertEquals(await site.read("/app.txt"), "old");
  await Deno.writeTextFile(site.at("app.txt"), "new text");
  assertEquals(await site.read("/app.txt"), "new text");
});

Deno.test("StaticContent is not affected by a response whose bytes are changed or transferred, unless they are shared", async () => {
  const options = { sharesBytes: false };
  await using site = await serveSite({ "app.txt": "text" }, options);
  (await (await site.get("/app.txt")).bytes()).fill(0);
  for await (const chunk of (await site.get("/app.txt")).body ?? []) {
    chunk.buffer.transfer();
  }
  assertEquals(await site.read("/app.txt"), "text");
});

const SCRIPT = Array.from(
  { length: 500 },
  (_, i) => `export const value${i} = ${i};`,
).join("\n");
const CODINGS = [
  ["gzip, deflate, br, zstd", "br", brotliDecompressSync],
  ["gzip", "gzip", gunzipSync],
] as const;

for (const [accepted, coding, decode] of CODINGS) {
  Deno.test(`StaticContent sends text plain until it is compressed, and then in ${coding} for "${accepted}"`, async () => {
    await using site = await serve({ "app.js": SCRIPT });
    const headers = { "accept-encoding": accepted };
    const first = await site.get("/app.js", headers);
    const common = Object.fromEntries(first.headers);
    assertEquals(
      [await first.text(), common.vary, common.etag],
      [SCRIPT, "Accept-Encoding", await eTag(SCRIPT)],
    );
    await site.compressed();
    const second = await site.get("/app.js", headers);
    const bytes = await second.bytes();
    assertEquals(new TextDecoder().decode(decode(bytes)), SCRIPT);
    assertEquals(Object.fromEntries(second.headers), {
      ...common,
      "content-encoding": coding,
      "content-length": `${bytes.length}`,
      "etag": `${(await eTag(bytes))?.slice(0, -1)}-${coding}"`,
    });
  });
}

Deno.test("StaticContent evaluates preconditions and ranges of a compressed file for the bytes that it sends", async () => {
  await using site = await serve({ "app.js": SCRIPT });
  const br = { "accept-encoding": "br" };
  const ask = async (sent: HeadersInit) => {
    const { status, headers, body } = await site.get("/app.js", sent);
    const bytes = await new Response(body).bytes();
    return { status, etag: headers.get("etag")!, bytes };
  };
  const plain = await ask(br);
  await site.compressed();
  const compressed = await ask(br);
  const { etag } = compressed;
  const known = { status: 304, etag, bytes: new Uint8Array() };
  const both = `${plain.etag}, ${etag}`;
  assertEquals(await ask({ ...br, "if-none-match": etag }), known);
  assertEquals(await ask({ "if-none-match": etag }), plain);
  assertEquals(await ask({ ...br, "if-none-match": plain.etag }), compressed);
  assertEquals(await ask({ ...br, "if-none-match": both }), known);
  const range = { ...br, "range": "bytes=5-9" };
  const part = { status: 206, etag, bytes: compressed.bytes.slice(5, 10) };
  assertEquals(await ask({ ...range, "if-range": etag }), part);
  assertEquals(await ask({ ...range, "if-range": plain.etag }), compressed);
});

Deno.test("StaticContent prefers .br to .zst and .gz files, and notices a new one after a second", async () => {
  await using site = await serve({ "app.js": SCRIPT, "app.js.gz": "GZ" });
  const headers = { "accept-encoding": "gzip, zstd, br" };
  assertEquals(await site.read("/app.js", headers), "GZ");
  for (const suffix of ["zst", "br"]) {
    await site.write(`app.js.${suffix}`, suffix);
    site.clock.pass(1_000);
    assertEquals(await site.read("/app.js", headers), suffix);
  }
});

const GONE: Record<string, (site: Site) => Promise<void>> = {
  async "a build has emptied the directory"({ at }) {
    await Deno.remove(at(), { recursive: true });
    await Deno.mkdir(at());
  },
  "the directory is gone": ({ at }) => Deno.rename(at(), at("../other")),
  async "the directory is a file"({ at }) {
    await Deno.rename(at(), at("../other"));
    await Deno.writeTextFile(at(), "");
  },
};

for (const [what, remove] of Object.entries(GONE)) {
  Deno.test(`StaticContent responds with 503 and Retry-After while ${what}, and logs it once`, async () => {
    await using site = await serve({ "index.html": "index", "app.js": "1" });
    assertEquals(await site.readAll(["/users", "/app.js"]), ["index", "1"]);
    await remove(site);
    for (let second = 0; second < 3; second++) {
      site.clock.pass(1_000);
      for (const path of ["/", "/users", "/app.js", "/missing.js", "/docs/"]) {
        const { status, headers } = await site.get(path);
        assertEquals([status, headers.get("retry-after")], [503, "1"], path);
      }
      assertEquals(await site.read("/.env"), "404");
    }
    const directory = site.at();
    assertEquals(
      site.lines.map(({ level, msg, detail }) => [level, msg, detail]),
      [[
        "ERROR",
        "rep.static.unavailable",
        `expected "index.html" in "${directory}"`,
      ]],
    );
    await Deno.remove(directory, { recursive: true }).catch(() => {});
    await Deno.mkdir(directory);
    await site.write("index.html", "new");
    site.clock.pass(1_000);
    assertEquals(await site.readAll(["/", "/app.js"]), ["new", "404"]);
  });
}

Deno.test("StaticContent responds with 503 while a directory without a page is gone", async () => {
  await using site = await serve({ "app.js": "1" });
  assertEquals(await site.readAll(["/app.js", "/b.js"]), ["1", "404"]);
  await Deno.rename(site.at(), site.at("../other"));
  site.clock.pass(1_000);
  assertEquals(await site.readAll(["/app.js", "/b.js"]), ["503", "503"]);
  await Deno.rename(site.at("../other"), site.at());
  site.clock.pass(20);
  assertEquals(await site.readAll(["/app.js", "/b.js"]), ["1", "404"]);
});

Deno.test({
  name:
    "StaticContent logs once a minute what it must not read: a file or a directory, or what is in one that must not be searched",
  ignore: Deno.uid() === 0, // root has every permission
  async fn() {
    const MODES = [
      ["app.txt", 0o000, "/app.txt", "500"],
      ["docs", 0o000, "/docs/a.txt", "500"],
      ["docs", 0o444, "/docs/a.txt", "500"],
      ["", 0o444, "/app.txt", "500"],
    ] as const;
    for (const [name, mode, path, expected] of MODES) {
      await using site = await serve({
        "index.html": "index",
        "app.txt": "text",
        "docs/a.txt": "a",
      });
      await Deno.chmod(site.at(name), mode);
      for (let second = 0; second < 59; second++) {
        site.clock.pass(1_000);
        assertEquals(await site.read(path), expected);
      }
      const event = "ERROR rep.static.unreadable";
      const events = () =>
        site.lines.map(({ level, msg }) => `${level} ${msg}`);
      assertEquals(events(), [event]);
      site.clock.pass(2_000);
      await site.read(path);
      assertEquals(events(), [event, event]);
      await Deno.chmod(site.at(name), 0o700);
      site.clock.pass(1_000);
      assertNotEquals(await site.read(path), expected);
    }
  },
});

Deno.test("StaticContent rethrows other errors of the file system, and asks again for the next request", async () => {
  await using site = await serve({ "index.html": "index", "app.txt": "text" });
  const { open } = Deno;
  const message = "Too many open files (os error 24)";
  Deno.open = () => Promise.reject(new Error(message));
  try {
    await assertRejects(() => site.read("/app.txt"), Error, message);
  } finally {
    Deno.open = open;
  }
  assertEquals(await site.read("/app.txt"), "text");
  assertEquals(site.lines, []);
});

Deno.test("StaticContent serves the new directory 20 ms after two moves have put it in the place of the old one", async () => {
  await using site = await serve({ "index.html": "old", "app.js": "old" });
  await using other = await serve({
    "index.html": "new",
    "app.js": "new",
    "new.js": "new",
  });
  const readAll = () => site.readAll(["/", "/users", "/app.js", "/new.js"]);
  assertEquals(await readAll(), ["old", "old", "old", "404"]);
  site.clock.pass(1_000);
  await Deno.rename(site.at(), site.at("../old"));
  assertEquals(await readAll(), ["503", "503", "503", "503"]);
  await Deno.rename(other.at(), site.at());
  site.clock.pass(20);
  assertEquals(await readAll(), ["new", "new", "new", "new"]);
});

Deno.test({
  name:
    "StaticContent does not wait for ever if a file becomes a FIFO before it is opened",
  ignore: Deno.build.os === "windows",
  async fn() {
    await using site = await serve({ "index.html": "index", "app.js": "old" });
    const fifo = site.at("fifo");
    await new Deno.Command("mkfifo", { args: [fifo] }).output();
    const { open } = Deno;
    Deno.open = async (path, options) => {
      Deno.open = open;
      await Deno.remove(path);
      await Deno.link(fifo, String(path));
      return await open(path, options);
    };
    const reading = site.read("/app.js");
    for (let second = 0; second < 10; second++) await site.clock.tick(1_000);
    const isRead = reading.then((read) => read);
    const isWaiting = settle().then(() => "still waiting");
    assertEquals(await Promise.race([isRead, isWaiting]), "500");
    assertEquals(await site.read("/app.js"), "404");
    (await open(fifo, { write: true })).close(); // ends the open() that waits for a writer
    await replace("new", site.at("app.js"));
    site.clock.pass(1_000);
    assertEquals(await site.read("/app.js"), "new");
    await settle();
  },
});
