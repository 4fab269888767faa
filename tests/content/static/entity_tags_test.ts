import { assertEquals, assertNotEquals } from "@std/assert";
import { eTag } from "@std/http/etag";
import { settle } from "../../../tools/fake_clock.ts";
import { MODIFIED, serveSite, type Site } from "./_content.ts";

Deno.test.sanitizer({ ops: true, resources: true }); // off by default since Deno 2.8

const MIB = 1024 * 1024;
const SIZE = 1_300_000;

/** Two versions of a file, of the same size. */
const OLD = new Uint8Array(SIZE).fill(1);
const NEW = new Uint8Array(SIZE).fill(2);

async function answer(site: Site, path: string, headers: HeadersInit = {}) {
  const response = await site.get(path, headers);
  const bytes = await response.bytes();
  return { status: response.status, etag: response.headers.get("etag"), bytes };
}

async function tagOf(site: Site, path: string, headers?: HeadersInit) {
  return (await answer(site, path, headers)).etag;
}

/** Requests of a client that has the old file, or a part of it. */
function conditions(etag: string): Record<string, string>[] {
  const date = MODIFIED.toUTCString();
  return [
    { "if-none-match": etag },
    { "if-none-match": `W/${etag}` },
    { "if-modified-since": date },
    { "if-none-match": etag, "if-modified-since": date },
    { "range": "bytes=100-", "if-range": etag },
    { "range": "bytes=100-", "if-range": date },
    { "range": "bytes=100-", "if-range": `W/${etag}` },
  ];
}

Deno.test("StaticContent gives a file of any size the tag of its bytes, on every replica", async () => {
  for (const size of [0, 1, 256 * 1024 + 1, MIB - 1, MIB, MIB + 1, SIZE]) {
    const bytes = new Uint8Array(size).fill(7);
    const expected = await eTag(bytes);
    for (const cacheBytes of [0, 1_000_000, 67_108_864]) {
      await using site = await serveSite({ "a.bin": bytes }, { cacheBytes });
      assertEquals(await tagOf(site, "/a.bin"), expected, `${size}`);
      const date = new Date("1985-10-26T08:15:00Z");
      await Deno.utime(site.at("a.bin"), date, date);
      site.clock.pass(1_000);
      assertEquals(await tagOf(site, "/a.bin"), expected, `${size}`);
    }
  }
});

Deno.test("StaticContent never takes a new file for the old one after a restart, although both have the same size and date", async () => {
  for (const name of ["main.js", "page.html", "main.js.br"]) {
    await using before = await serveSite({ "main.js": OLD, [name]: OLD });
    const path = `/${name.replace(".br", "")}`;
    const br = { "accept-encoding": "br" };
    const etag = await tagOf(before, path, br) ?? "";
    await using after = await serveSite({ "main.js": OLD, [name]: NEW });
    for (const headers of conditions(etag)) {
      const { status, bytes } = await answer(after, path, {
        ...br,
        ...headers,
      });
      assertEquals([status, bytes], [200, NEW], JSON.stringify(headers));
    }
    const current = await tagOf(after, path, br) ?? "";
    const known = { ...br, "if-none-match": current };
    assertEquals((await answer(after, path, known)).status, 304);
  }
});

/** Ways in which a file is replaced by another one with the same size and date. */
const REPLACEMENTS: Record<string, (path: string) => Promise<void>> = {
  async "is renamed onto it"(path) {
    await Deno.writeFile(`${path}.tmp`, NEW);
    await Deno.utime(`${path}.tmp`, MODIFIED, MODIFIED);
    await Deno.rename(`${path}.tmp`, path);
  },
  async "overwrites it in place"(path) {
    await Deno.writeFile(path, NEW);
    await Deno.utime(path, MODIFIED, MODIFIED);
  },
  async "is copied onto it with cp -p"(path) {
    await Deno.writeFile(`${path}.tmp`, NEW);
    await Deno.utime(`${path}.tmp`, MODIFIED, MODIFIED);
    await new Deno.Command("cp", { args: ["-p", `${path}.tmp`, path] })
      .output();
  },
};

for (const [how, replace] of Object.entries(REPLACEMENTS)) {
  Deno.test(`StaticContent gives a large file another tag if a new one ${how} while it runs`, async () => {
    await using site = await serveSite({ "main.js": OLD });
    const etag = await tagOf(site, "/main.js") ?? "";
    await replace(site.at("main.js"));
    site.clock.pass(1_000);
    for (const headers of conditions(etag)) {
      const { status, bytes } = await answer(site, "/main.js", headers);
      assertEquals([status, bytes], [200, NEW], JSON.stringify(headers));
    }
    assertEquals(await tagOf(site, "/main.js"), await eTag(NEW));
  });
}

Deno.test("StaticContent sends no new bytes with the tag of the old ones, even within the second after a look", async () => {
  await using site = await serveSite({ "main.js": OLD });
  const etag = await tagOf(site, "/main.js") ?? "";
  await Deno.writeFile(site.at("main.js"), NEW); // with another time
  const range = { "range": "bytes=100-", "if-range": etag };
  const expected = { status: 200, etag: await eTag(NEW) ?? "", bytes: NEW };
  assertEquals(await answer(site, "/main.js", range), expected);
});

/** Calls back each time that a file is read from the disk. */
function beforeRead(run: () => Promise<unknown>): Disposable {
  const { open } = Deno;
  Deno.open = async (path, options) => {
    const file = await open(path, options);
    const read = file.read.bind(file);
    file.read = async (bytes) => {
      await run();
      return await read(bytes);
    };
    return file;
  };
  return { [Symbol.dispose]: () => void (Deno.open = open) };
}

Deno.test("StaticContent stops to hash a file that is changed, gives it no tag, and one when it is not changed any more", async () => {
  await using site = await serveSite({ "main.js": OLD });
  const path = site.at("main.js");
  let reads = 0;
  {
    using _changing = beforeRead(() => Deno.truncate(path, SIZE + ++reads));
    for (const [index, headers] of [{}, ...conditions("*")].entries()) {
      site.clock.pass(1_000);
      const { status, etag } = await answer(site, "/main.js", headers);
      assertEquals([status, etag, reads], [200, null, index + 1]);
    }
  }
  site.clock.pass(1_000);
  assertNotEquals(await tagOf(site, "/main.js"), null);
});

Deno.test("StaticContent sends a file without a tag while its hash takes long, and hashes each version once", async () => {
  const { now } = Date;
  Date.now = () => now() + 10_000; // as if nobody had changed the file for that long
  try {
    for (const cacheBytes of [0, 67_108_864]) {
      await using site = await serveSite({ "main.js": OLD }, { cacheBytes });
      const gate = Promise.withResolvers<void>();
      let reads = 0;
      const wait = () => (reads++, gate.promise);
      using _waiting = beforeRead(wait);
      for (let second = 0; second < 3; second++) {
        const range = { "range": "bytes=1-2", "if-range": '"x"' };
        const asking = answer(site, "/main.js", range);
        let isAnswered = false;
        void asking.then(() => isAnswered = true);
        const isWaiting = () => site.clock.waiting === 2; // for the look, and for the hash
        while (!isAnswered && !isWaiting()) await settle();
        await site.clock.tick(500);
        const { status, etag, bytes } = await asking;
        assertEquals([status, etag, bytes], [200, null, OLD]);
        site.clock.pass(1_000);
      }
      gate.resolve();
      const expected = await eTag(OLD);
      assertEquals(await tagOf(site, "/main.js"), expected);
      const readsOnce = Math.ceil(SIZE / (256 * 1024));
      assertEquals(reads, readsOnce);
      site.clock.pass(1_000);
      assertEquals(await tagOf(site, "/main.js"), expected);
      assertEquals(reads, readsOnce);
    }
  } finally {
    Date.now = now;
  }
});

Deno.test("StaticContent sends no Last-Modified, which may be the date of every version", async () => {
  const files = { "a.js": "a", "main.js": OLD, "index.html": "page" };
  await using site = await serveSite(files);
  for (const path of ["/a.js", "/main.js", "/"]) {
    const { headers, body } = await site.get(path);
    await body?.cancel();
    assertEquals(headers.get("last-modified"), null, path);
  }
});
