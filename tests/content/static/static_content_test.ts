import { assertEquals, assertRejects } from "@std/assert";
import { eTag } from "@std/http/etag";
import { dirname, join } from "@std/path";
import { Problem } from "../../../src/http/problem.ts";
import { FakeClock } from "../../../tools/fake_clock.ts";
import type { GetConfigScript } from "../../../src/pages/config_script.ts";
import {
  contextOf,
  type Files,
  MODIFIED,
  NO_SCRIPT,
  openContent,
  respondWith,
  writeFiles,
} from "./_content.ts";

Deno.test.sanitizer({ ops: true, resources: true }); // off by default since Deno 2.8

const HOST = "http://app.example";
const LAST_MODIFIED = "Sun, 06 Nov 1994 08:49:37 GMT";
const IMMUTABLE = "public, max-age=31536000, immutable";

const PAGE = "<!doctype html><title>root</title>";
const SCRIPT = "console.log('hello');";
const LARGE = Uint8Array.from({ length: 1_200_000 }, (_, index) => index % 251);

/** A served directory that is removed after the test. Next to it are a directory `outside` and a file `secret.txt`. */
interface Site extends AsyncDisposable {
  /** The time of the cache, which does not advance by itself. */
  clock: FakeClock;
  /** A path in the served directory, or its own. */
  at(name?: string): string;
  /** Responds from the cache, after making sure that it does so a second time, and without a cache. */
  respond(path: string, headers?: HeadersInit): Promise<Response>;
  /** What becomes of a request, in the same way. */
  get(path: string, headers?: HeadersInit): Promise<Outcome>;
  head(path: string, headers?: HeadersInit): Promise<Outcome>;
}

async function serve(
  content: Files,
  immutable: readonly string[] = [],
): Promise<Site> {
  const parent = await Deno.realPath(await Deno.makeTempDir());
  const directory = join(parent, "site");
  await writeFiles(directory, content);
  await writeFiles(parent, {
    "secret.txt": "secret",
    "outside/secret.txt": "secret",
    "site-old/secret.txt": "secret",
  });
  const clock = new FakeClock(Date.now());
  const cached = await openContent({ directory, clock, immutable });
  const uncached = await openContent({
    directory,
    clock,
    immutable,
    cacheBytes: 0,
  });
  async function respond(request: Request): Promise<Response> {
    const expected = await outcome(respondWith(cached, request));
    for (const content of [cached, uncached]) {
      assertEquals(await outcome(respondWith(content, request)), expected);
    }
    return await respondWith(cached, request);
  }
  return {
    clock,
    at: (name = "") => join(directory, name),
    respond: (path, headers) => respond(get(path, headers)),
    get: (path, headers) => outcome(respond(get(path, headers))),
    head: (path, headers) => outcome(respond(head(path, headers))),
    [Symbol.asyncDispose]: () => Deno.remove(parent, { recursive: true }),
  };
}

function get(path: string, headers: HeadersInit = {}): Request {
  return new Request(HOST + path, { headers });
}

function head(path: string, headers: HeadersInit = {}): Request {
  return new Request(HOST + path, { method: "HEAD", headers });
}

/** A response with its body, or the problem that was thrown instead. */
interface Outcome {
  status: number;
  headers: Record<string, string>;
  body: string;
}

async function outcome(
  responding: Response | Promise<Response>,
): Promise<Outcome> {
  try {
    const response = await responding;
    const body = await response.text();
    return {
      status: response.status,
      headers: Object.fromEntries(response.headers),
      body,
    };
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    return {
      status: error.status,
      headers: Object.fromEntries(error.headers),
      body: error.message,
    };
  }
}

const NOT_FOUND: Outcome = {
  status: 404,
  headers: {},
  body: "Nothing found at this path",
};

async function pageHeaders(content: string): Promise<Record<string, string>> {
  return {
    "cache-control": "no-cache",
    "content-length": `${content.length}`,
    "content-type": "text/html; charset=UTF-8",
    "etag": `W/"rep-r1-${encodeURIComponent(await eTag(content))}"`,
    "vary": "Sec-Fetch-Dest, Sec-Fetch-Mode",
    "x-content-type-options": "nosniff",
  };
}

async function scriptHeaders(content: string): Promise<Record<string, string>> {
  return {
    "accept-ranges": "bytes",
    "cache-control": "no-cache",
    "content-length": `${content.length}`,
    "content-type": "text/javascript; charset=UTF-8",
    "etag": await eTag(content),
    "last-modified": LAST_MODIFIED,
    "x-content-type-options": "nosniff",
  };
}

Deno.test("StaticContent responds to GET with the file", async () => {
  await using site = await serve({ "app.js": SCRIPT });
  assertEquals(await site.get("/app.js"), {
    status: 200,
    headers: await scriptHeaders(SCRIPT),
    body: SCRIPT,
  });
});

Deno.test("StaticContent responds to HEAD as to GET, without the body", async () => {
  const files = {
    "index.html": PAGE,
    "docs/index.html": PAGE,
    "app.js": SCRIPT,
    "app.js.br": "BR",
    "large.bin": LARGE,
  };
  await using site = await serve(files);
  for (
    const path of [
      "/",
      "/docs",
      "/docs/",
      "/users/42",
      "/app.js",
      "/large.bin",
      "/missing.js",
      "/.env",
    ]
  ) {
    for (
      const headers of [{}, { "accept-encoding": "br" }, {
        "if-modified-since": LAST_MODIFIED,
      }]
    ) {
      const complete = await site.get(path, headers);
      const withoutBody = {
        ...complete,
        body: complete.status < 400 ? "" : complete.body,
      };
      assertEquals(
        await site.head(path, headers),
        withoutBody,
      );
    }
  }
});

const TYPES: [name: string, type: string][] = [
  ["a.js", "text/javascript; charset=UTF-8"],
  ["a.mjs", "text/javascript; charset=UTF-8"],
  ["a.css", "text/css; charset=UTF-8"],
  ["a.json", "application/json; charset=UTF-8"],
  ["a.js.map", "application/json; charset=UTF-8"],
  ["a.HTML", "text/html; charset=UTF-8"],
  ["a.txt", "text/plain; charset=UTF-8"],
  ["a.svg", "image/svg+xml"],
  ["a.woff2", "font/woff2"],
  ["a.wasm", "application/wasm"],
  ["a.webmanifest", "application/manifest+json; charset=UTF-8"],
  ["a.constructor", "application/octet-stream"],
  ["a.unheard-of", "application/octet-stream"],
  ["LICENSE", "application/octet-stream"],
];

Deno.test("StaticContent derives the content type from the name", async () => {
  await using site = await serve(
    Object.fromEntries(TYPES.map(([name]) => [name, "content"])),
  );
  for (const [name, type] of TYPES) {
    const { status, headers } = await site.get(`/${name}`);
    assertEquals({ name, status, type: headers["content-type"] }, {
      name,
      status: 200,
      type,
    });
  }
});

const APP: Files = {
  "index.html": PAGE,
  "app.js": SCRIPT,
  "empty.txt": "",
  "a b/ü.txt": "umlaut",
  "docs/index.html": "docs",
  "docs/v1.0/index.html": "v1",
  "assets/logo.svg": "<svg/>",
  "a:b/index.html": "colon",
  ".env": "secret",
  ".git/config": "secret",
  "assets/.htpasswd": "secret",
  ".well-known/security.txt": "Contact: mailto:security@app.example",
};

const FOUND: [path: string, body: string][] = [
  ["/", PAGE],
  ["/index.html", PAGE],
  ["/?q=1", PAGE],
  ["/docs/", "docs"],
  ["/docs/v1.0/", "v1"],
  ["/docs/../app.js", SCRIPT],
  ["/a%20b/%C3%BC.txt", "umlaut"],
  ["/empty.txt", ""],
  ["/.well-known/security.txt", "Contact: mailto:security@app.example"],
  // The fallback of a single-page app:
  ["/users", PAGE],
  ["/users/", PAGE],
  ["/users/42?tab=1", PAGE],
  ["/v1.2/users", PAGE],
  ["/docs/missing", PAGE],
  ["/app.js/users", PAGE],
  ["/assets", PAGE], // a directory without an index is not listed, and may be a route of the app
  ["/assets/", PAGE],
];

Deno.test("StaticContent finds files, indexes and, for routes of the app, the root's index", async () => {
  await using site = await serve(APP);
  for (const [path, body] of FOUND) {
    const found = await site.get(path);
    assertEquals({ path, status: found.status, body: found.body }, {
      path,
      status: 200,
      body,
    });
  }
});

/** Which names are rejected is tested with `parseFilePath()`. */
const NOT_SERVED = [
  "/missing.js",
  "/app.js/",
  "/app.js/x.js",
  "/assets/missing.png",
  "/users/john.doe",
  "/.well-known/",
  "/.well-known/change-password",
  "/.env",
  "/.git",
  "/assets/.htpasswd",
  "//docs",
  "/..%2fsecret.txt",
  "/%252e%252e/secret.txt",
  "/app.js%00",
  `/${"a".repeat(300)}.js`,
  `/${"b/".repeat(2000)}x.js`,
];

Deno.test("StaticContent responds with 404 for missing files and for files that must not be served", async () => {
  await using site = await serve(APP);
  for (const path of NOT_SERVED) {
    assertEquals({ path, ...await site.get(path) }, {
      path,
      ...NOT_FOUND,
    });
  }
});

Deno.test("StaticContent responds with 400 for a path that cannot be decoded", async () => {
  await using site = await serve(APP);
  for (const path of ["/%", "/%zz.js", "/%c0%ae%c0%ae/secret.txt", "/a/%ff"]) {
    const { status } = await site.get(path);
    assertEquals({ path, status }, { path, status: 400 });
  }
});

Deno.test("StaticContent responds with 404 at the root if there is no index", async () => {
  await using site = await serve({
    "app.js": SCRIPT,
    "index.html/app.js": SCRIPT,
  });
  for (const path of ["/", "/users", "/index.html/"]) {
    assertEquals({ path, ...await site.get(path) }, {
      path,
      ...NOT_FOUND,
    });
  }
});

const REDIRECTS: [path: string, target: string][] = [
  ["/docs", "/docs/"],
  ["/docs?next=//evil.example", "/docs/?next=//evil.example"],
  ["/docs/v1.0", "/docs/v1.0/"],
  ["/a:b", "/a%3Ab/"],
  ["/users/../docs", "/docs/"],
];

Deno.test("StaticContent redirects a directory's path to the one with a slash, on the same host", async () => {
  await using site = await serve(APP);
  for (const [path, target] of REDIRECTS) {
    const { status, headers } = await site.get(path);
    const url = new URL(headers.location ?? "", HOST + path).href;
    assertEquals({ path, status, url }, {
      path,
      status: 308,
      url: HOST + target,
    });
  }
});

Deno.test("StaticContent redirects to a relative location, so that a proxy may strip a prefix", async () => {
  await using site = await serve(APP);
  assertEquals(await site.get("/docs/v1.0?q=1"), {
    status: 308,
    headers: { "cache-control": "no-cache", "location": "./v1.0/?q=1" },
    body: "",
  });
});

const PAGE_REQUESTS: Record<string, string>[] = [
  {},
  { "if-none-match": '"other"' },
  { "if-modified-since": "Fri, 01 Jan 2100 00:00:00 GMT" },
  { "if-match": '"other"' },
  { "range": "bytes=0-1" },
  { "range": "bytes=1000000-" },
  { "accept-encoding": "br, gzip" },
];

for (const headers of PAGE_REQUESTS) {
  Deno.test(`StaticContent sends a complete page for ${JSON.stringify(headers)}`, async () => {
    await using site = await serve({
      "index.html": PAGE,
      "index.html.br": "BR",
      "index.html.gz": "GZ",
    });
    const complete = {
      status: 200,
      headers: await pageHeaders(PAGE),
      body: PAGE,
    };
    assertEquals(await site.get("/", headers), complete);
    assertEquals(await site.get("/users", headers), complete);
  });
}

/** What is immutable with which globs. */
const IMMUTABLE_FILES: [globs: string[], names: string[]][] = [
  [[], []],
  [["assets/*"], ["assets/a.js", "assets/b.css"]],
  [["assets/**"], ["assets/a.js", "assets/b.css", "assets/fonts/c.woff2"]],
  [["assets/*.{js,css}", "logo.svg"], [
    "assets/a.js",
    "assets/b.css",
    "logo.svg",
  ]],
  [["*"], ["app-BxY12_9a.js", "logo.svg"]],
];

for (const [globs, expected] of IMMUTABLE_FILES) {
  Deno.test(`StaticContent makes ${expected.join(", ") || "nothing"} immutable with the globs ${globs}`, async () => {
    const names = [
      "app-BxY12_9a.js",
      "assets/a.js",
      "assets/b.css",
      "assets/fonts/c.woff2",
      "assets/page.html",
      "index.html",
      "logo.svg",
    ];
    const files = Object.fromEntries(names.map((name) => [name, SCRIPT]));
    await using site = await serve(files, globs);
    const found: string[] = [];
    for (const name of names) {
      const { headers } = await site.get(`/${name}`);
      const caching = headers["cache-control"];
      if (caching === IMMUTABLE) found.push(name);
      else assertEquals(caching, "no-cache");
    }
    assertEquals(found, expected);
  });
}

/** Which conditions hold is tested with `failedPrecondition()`. */
const CONDITIONS: [
  headers: (etag: string) => Record<string, string>,
  status: number,
][] = [
  [(etag) => ({ "if-none-match": etag }), 304],
  [() => ({ "if-none-match": '"x"' }), 200],
  [() => ({ "if-modified-since": LAST_MODIFIED }), 304],
  [(etag) => ({ "if-none-match": etag, "range": "bytes=0-1" }), 304],
  [(etag) => ({ "if-match": etag }), 200],
  [() => ({ "if-match": '"x"' }), 412],
];

Deno.test("StaticContent evaluates conditional requests for small and large files", async () => {
  await using site = await serve({
    "small.bin": "small",
    "large.bin": LARGE,
    "empty.bin": "",
  });
  for (const path of ["/small.bin", "/large.bin", "/empty.bin"]) {
    const { headers: { etag = "" } } = await site.head(path);
    for (const [headers, expected] of CONDITIONS) {
      const sent = headers(etag);
      const { status } = await site.get(path, sent);
      assertEquals({
        path,
        sent,
        status,
      }, {
        path,
        sent,
        status: expected,
      });
    }
  }
});

Deno.test("StaticContent sends the headers for caches with a 304", async () => {
  const files = { "assets/app.js": SCRIPT, "assets/app.js.gz": "GZ" };
  await using site = await serve(files, ["assets/*"]);
  const { etag, "last-modified": lastModified } = await scriptHeaders(SCRIPT);
  assertEquals(
    await site.get("/assets/app.js", { "if-none-match": etag ?? "" }),
    {
      status: 304,
      headers: {
        "cache-control": IMMUTABLE,
        "etag": etag ?? "",
        "last-modified": lastModified ?? "",
        "vary": "Accept-Encoding",
        "x-content-type-options": "nosniff",
      },
      body: "",
    },
  );
});

Deno.test("StaticContent never sends a Last-Modified date in the future", async () => {
  await using site = await serve({ "app.js": SCRIPT });
  const clock = new FakeClock(MODIFIED.getTime() - 60_000);
  const files = await openContent({ directory: site.at(), clock });
  const { headers } = await outcome(respondWith(files, get("/app.js")));
  assertEquals(headers["last-modified"], "Sun, 06 Nov 1994 08:48:37 GMT");
});

/** Which ranges there are is tested with `parseByteRange()` and `ifRangeHolds()`. */
const RANGES: [
  headers: Record<string, string>,
  status: number,
  range: string | undefined,
  body: string,
][] = [
  [{ range: "bytes=2-4" }, 206, "bytes 2-4/10", "234"],
  [{ range: "bytes=-3" }, 206, "bytes 7-9/10", "789"],
  [{ range: "bytes=0-1,4-5" }, 200, undefined, "0123456789"],
  [
    { range: "bytes=2-4", "if-range": LAST_MODIFIED },
    206,
    "bytes 2-4/10",
    "234",
  ],
  [{ range: "bytes=2-4", "if-range": '"x"' }, 200, undefined, "0123456789"],
];

for (const [headers, expected, range, body] of RANGES) {
  Deno.test(`StaticContent responds with ${expected} to ${JSON.stringify(headers)}`, async () => {
    await using site = await serve({ "a.txt": "0123456789" });
    const actual = await site.get("/a.txt", headers);
    const { "content-range": contentRange, "content-length": length } =
      actual.headers;
    assertEquals({
      status: actual.status,
      contentRange,
      length,
      body: actual.body,
    }, {
      status: expected,
      contentRange: range,
      length: `${body.length}`,
      body,
    });
  });
}

Deno.test("StaticContent responds with 416 and the size to a range outside the file", async () => {
  await using site = await serve({ "a.txt": "0123456789", "large.bin": LARGE });
  for (const [path, size] of [["/a.txt", 10], ["/large.bin", LARGE.length]]) {
    assertEquals(
      await site.get(`${path}`, { range: "bytes=2000000-" }),
      {
        status: 416,
        headers: { "content-range": `bytes */${size}` },
        body:
          `Cannot send the range "bytes=2000000-": expected one within ${size} bytes`,
      },
    );
  }
});

Deno.test("StaticContent ignores the range of a HEAD request", async () => {
  await using site = await serve({ "app.js": SCRIPT });
  const actual = await site.head("/app.js", { range: "bytes=0-1" });
  assertEquals(actual, {
    status: 200,
    headers: await scriptHeaders(SCRIPT),
    body: "",
  });
});

const COMPRESSED: [
  suffixes: string[],
  accepted: string | undefined,
  coding: string | undefined,
  body: string,
][] = [
  [[".br", ".gz"], "gzip, deflate, br", "br", "AS BR"],
  [[".br", ".gz"], "gzip", "gzip", "AS GZ"],
  [[".gz"], "gzip, br", "gzip", "AS GZ"],
  [[".br"], "gzip", undefined, SCRIPT],
  [[".br", ".gz"], "br;q=0, gzip;q=0", undefined, SCRIPT],
  [[".br", ".gz"], undefined, undefined, SCRIPT],
];

for (const [suffixes, accepted, coding, body] of COMPRESSED) {
  const name = `StaticContent sends ${
    coding ?? "identity"
  } of ${suffixes} for Accept-Encoding: ${accepted ?? "(none)"}`;
  Deno.test(name, async () => {
    const compressed = suffixes.map((
      suffix,
    ) => [`app.js${suffix}`, `AS ${suffix.slice(1).toUpperCase()}`]);
    await using site = await serve({
      "app.js": SCRIPT,
      ...Object.fromEntries(compressed),
    });
    const headers = { ...await scriptHeaders(body), "vary": "Accept-Encoding" };
    const etag = coding
      ? `${(await eTag(body)).slice(0, -1)}-${coding}"`
      : await eTag(body);
    const sent = accepted === undefined ? {} : { "accept-encoding": accepted };
    assertEquals(await site.get("/app.js", sent), {
      status: 200,
      headers: {
        ...headers,
        etag,
        ...(coding ? { "content-encoding": coding } : {}),
      },
      body,
    });
  });
}

Deno.test("StaticContent sends no compressed variant without the file itself", async () => {
  await using site = await serve({ "app.js.br": "BR" });
  assertEquals(
    await site.get("/app.js", { "accept-encoding": "br" }),
    NOT_FOUND,
  );
});

const LINKS: [
  link: string,
  to: string,
  path: string,
  body: string | undefined,
][] = [
  ["link.js", "app.js", "/link.js", SCRIPT],
  ["link", "docs", "/link/", "docs"],
  ["docs/up.js", "../app.js", "/docs/up.js", SCRIPT],
  ["link.txt", "../secret.txt", "/link.txt", undefined],
  ["link", "../secret.txt", "/link", undefined], // rejected, and so not a route of the app either
  ["link", "../outside", "/link/secret.txt", undefined],
  ["link", "../outside", "/link/", undefined],
  // What is missing outside is rejected like what is there, and not a route of the app.
  ["link", "../outside", "/link/missing", undefined],
  ["link", "../outside", "/link/missing/page", undefined],
  ["link", "../outside", "/link/secret.txt/page", undefined],
  ["docs/link", "../../outside", "/docs/link/missing", undefined],
  ["link", "../site-old", "/link/secret.txt", undefined], // begins with the path of the directory
  ["link", "..", "/link/secret.txt", undefined],
  ["link", "..", "/link/site/app.js", SCRIPT], // leads out and in again: only the end counts
  ["link.js", "/dev/null", "/link.js", undefined],
  ["link.js", "link.js", "/link.js", undefined],
  ["loop", "loop", "/loop", undefined],
  ["link.js", "missing.js", "/link.js", undefined],
  // As on a file system that ignores case, where any spelling leads to the file:
  ["APP.js", "app.js", "/APP.js", undefined],
  ["Docs", "docs", "/Docs/index.html", undefined],
];

for (const [link, to, path, body] of LINKS) {
  Deno.test(`StaticContent ${body ? "follows" : "rejects"} ${path} if ${link} links to ${to}`, async () => {
    await using site = await serve({
      "index.html": PAGE,
      "app.js": SCRIPT,
      "docs/index.html": "docs",
    });
    await Deno.symlink(to, site.at(link));
    site.clock.pass(1_000);
    const found = await site.get(path);
    assertEquals(
      [found.status, found.body],
      body ? [200, body] : [404, NOT_FOUND.body],
    );
  });
}

Deno.test("StaticContent sends no compressed variant from outside the directory", async () => {
  await using site = await serve({ "app.js": SCRIPT });
  await Deno.symlink("../secret.txt", site.at("app.js.br"));
  site.clock.pass(1_000);
  const actual = await site.get("/app.js", { "accept-encoding": "br" });
  assertEquals(actual, {
    status: 200,
    headers: await scriptHeaders(SCRIPT),
    body: SCRIPT,
  });
});

Deno.test("StaticContent serves a mounted ConfigMap, and its new version after a swap", async () => {
  await using site = await serve({
    "..1/index.html": "one",
    "..2/index.html": "two",
  });
  await Deno.symlink("..1", site.at("..data"));
  await Deno.symlink("..data/index.html", site.at("index.html"));
  site.clock.pass(1_000);
  assertEquals((await site.get("/")).body, "one");
  await Deno.symlink("..2", site.at("..data_tmp"));
  await Deno.rename(
    site.at("..data_tmp"),
    site.at("..data"),
  );
  site.clock.pass(1_000);
  assertEquals((await site.get("/")).body, "two");
  assertEquals(
    await site.get("/..data%2findex.html"),
    NOT_FOUND,
  );
});

Deno.test("StaticContent finds every file while a ConfigMap is swapped", async () => {
  await using site = await serve({
    "..0/index.html": PAGE,
    "..0/app.js": SCRIPT,
    "..0/app.js.br": "BR",
  });
  const path = (name: string) => site.at(name);
  await Deno.symlink("..0", path("..data"));
  for (const name of ["index.html", "app.js", "app.js.br"]) {
    await Deno.symlink(`..data/${name}`, path(name));
  }
  const files = await openContent({
    directory: site.at(),
    clock: site.clock,
  });
  for (const name of ["/", "/app.js"]) { // known before, as they are once somebody has asked for them
    assertEquals((await outcome(respondWith(files, get(name)))).status, 200);
  }
  for (let next = 1; next <= 100; next++) {
    site.clock.pass(1_000);
    await writeFiles(path(`..${next}`), {
      "index.html": PAGE,
      "app.js": SCRIPT,
      "app.js.br": "BR",
    });
    await Deno.symlink(`..${next}`, path("..data_tmp"));
    const requests = [
      get("/"),
      get("/app.js"),
      get("/app.js", { "accept-encoding": "br" }),
    ];
    const responses = requests.map((request) =>
      outcome(respondWith(files, request))
    );
    await Deno.rename(path("..data_tmp"), path("..data"));
    await Deno.remove(path(`..${next - 1}`), { recursive: true });
    const statuses = (await Promise.all(responses)).map(({ status }) => status);
    assertEquals(statuses, [200, 200, 200]);
  }
});

Deno.test({
  name: "StaticContent never opens a FIFO, which would block",
  ignore: Deno.build.os === "windows",
  async fn() {
    await using site = await serve({ "index.html": PAGE, "app.js": SCRIPT });
    for (const name of ["pipe.js", "pipe", "app.js.br", "docs/index.html"]) {
      await Deno.mkdir(dirname(site.at(name)), {
        recursive: true,
      });
      await new Deno.Command("mkfifo", { args: [site.at(name)] })
        .output();
    }
    site.clock.pass(1_000);
    assertEquals(await site.get("/pipe.js"), NOT_FOUND);
    assertEquals(await site.get("/pipe"), NOT_FOUND);
    assertEquals(
      (await site.get("/app.js", { "accept-encoding": "br" }))
        .body,
      SCRIPT,
    );
    assertEquals((await site.get("/docs/")).body, PAGE);
  },
});

async function bytes(responding: Promise<Response>): Promise<Uint8Array> {
  return await (await responding).bytes();
}

Deno.test("StaticContent sends a large file and its ranges byte for byte", async () => {
  await using site = await serve({ "large.bin": LARGE, "large.html": LARGE });
  assertEquals(await bytes(site.respond("/large.bin")), LARGE);
  assertEquals(await bytes(site.respond("/large.html")), LARGE);
  const range = await bytes(
    site.respond("/large.bin", { range: "bytes=100000-499999" }),
  );
  assertEquals(range, LARGE.slice(100_000, 500_000));
  assertEquals(
    await bytes(site.respond("/large.bin", { range: "bytes=-1" })),
    LARGE.slice(-1),
  );
});

Deno.test("StaticContent closes a file whose body is cancelled", async () => {
  await using site = await serve({ "large.bin": LARGE });
  const unread = await site.respond("/large.bin");
  await unread.body?.cancel();
  const begun = (await site.respond("/large.bin", { range: "bytes=5-" }))
    .body!.getReader();
  assertEquals((await begun.read()).value?.at(0), 5);
  await begun.cancel();
  const reading = (await site.respond("/large.bin")).body!.getReader();
  const chunk = reading.read();
  await reading.cancel(); // while a read is pending
  assertEquals((await chunk).done, true);
});

Deno.test("StaticContent sends the file that it opened, even if the file is replaced", async () => {
  await using site = await serve({ "large.bin": LARGE, "new.bin": "new" });
  const response = await site.respond("/large.bin");
  await Deno.rename(
    site.at("new.bin"),
    site.at("large.bin"),
  );
  site.clock.pass(1_000);
  assertEquals(await response.bytes(), LARGE);
  assertEquals((await site.get("/large.bin")).body, "new");
});

Deno.test("StaticContent ends the body in an error if the file is truncated, and closes the file", async () => {
  await using site = await serve({ "large.bin": LARGE });
  const path = site.at("large.bin");
  const response = await site.respond("/large.bin");
  await Deno.truncate(path, 100_000);
  await assertRejects(
    () => response.bytes(),
    Error,
    `Cannot send all of "${path}": the file was truncated`,
  );
});

for (
  const [directory, reason] of [["missing", "NotFound"], [
    "app.js",
    "NotADirectory",
  ], ["", "NotFound"]] as const
) {
  Deno.test(`openStaticContent() rejects the directory "${directory}"`, async () => {
    await using site = await serve({ "app.js": SCRIPT });
    const path = directory && site.at(directory);
    const message =
      `Cannot serve the directory "${path}": expected a readable directory, got ${reason}: `;
    await assertRejects(() => openContent({ directory: path }), Error, message);
  });
}

Deno.test({
  name:
    "openStaticContent() names the directory that it has no permission to read",
  permissions: { read: false },
  async fn() {
    const message =
      `Cannot serve the directory "site": expected a readable directory, got NotCapable: `;
    await assertRejects(
      () => openContent({ directory: "site" }),
      Error,
      message,
    );
  },
});

Deno.test("StaticContent waits for the config script of a page, and asks for none for a fragment or another file", async () => {
  await using site = await serve({ "index.html": "<p></p>", "app.js": SCRIPT });
  const content = await openContent({
    directory: site.at(),
    clock: site.clock,
  });
  const script = { ...NO_SCRIPT, bytes: new TextEncoder().encode("<SCRIPT>") };
  const respond = (request: Request, getConfigScript: GetConfigScript) =>
    content.respond(request, contextOf(request), getConfigScript);
  assertEquals(
    await (await respond(get("/"), () => Promise.resolve(script))).text(),
    "<SCRIPT><p></p>",
  );
  const never = () =>
    Promise.reject(new Error("expected no request for the script"));
  const fragment = get("/", {
    "sec-fetch-dest": "empty",
    "sec-fetch-mode": "cors",
  });
  assertEquals(await (await respond(fragment, never)).text(), "<p></p>");
  assertEquals(await (await respond(get("/app.js"), never)).text(), SCRIPT);
});
