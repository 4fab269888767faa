import { assertEquals, assertRejects } from "@std/assert";
import { eTag } from "@std/http/etag";
import { dirname } from "@std/path";
import type { GetConfigScript } from "../../../src/core/pages/config_script.ts";
import { type Answer, answerOf } from "../../_answer.ts";
import {
  answerWith,
  contextOf,
  type Files,
  NO_SCRIPT,
  openContent,
  serveSite,
  writeFiles,
} from "./_content.ts";

Deno.test.sanitizer({ ops: true, resources: true }); // off by default since Deno 2.8

const HOST = "http://app.example";
const LAST_MODIFIED = "Sun, 06 Nov 1994 08:49:37 GMT";
const IMMUTABLE = "public, max-age=31536000, immutable";

const PAGE = "<!doctype html><title>root</title>";
const SCRIPT = "console.log('hello');";
const LARGE = Uint8Array.from({ length: 1_200_000 }, (_, index) => index % 251);

/** Serves files. Beside their directory are others, which must not be served. */
async function serve(files: Files, immutable: readonly string[] = []) {
  const site = await serveSite(files, { immutable });
  const { clock, content } = site;
  await writeFiles(site.at(".."), {
    "outside/secret.txt": "secret",
    "site-old/secret.txt": "secret",
  });
  const options = { directory: site.at(), clock, immutable };
  const uncached = await openContent({ ...options, cacheBytes: 0 });
  return {
    ...site,
    /** The answer to a request: the same for the first time, from the cache, and without a cache. */
    async ask(path: string, headers: HeadersInit = {}, method = "GET") {
      const request = new Request(HOST + path, { method, headers });
      const first = await answerOf(await answerWith(content, request));
      for (const again of [content, uncached]) {
        const answer = await answerOf(await answerWith(again, request));
        assertEquals(answer, first, path);
      }
      return first;
    },
  };
}

/** What decides whether a path without a file is a route. */
const ROUTE_HEADERS = "Sec-Fetch-Dest, Sec-Fetch-Mode, Accept";

const NOT_FOUND: Answer = {
  status: 404,
  headers: {
    "cache-control": "no-store",
    "content-type": "application/problem+json",
    "vary": ROUTE_HEADERS,
  },
  body: {
    title: "Not Found",
    status: 404,
    detail: "Nothing found at this path",
  },
};

/** The headers of a script as it is. */
async function scriptHeaders(content: string): Promise<Record<string, string>> {
  return {
    "accept-ranges": "bytes",
    "cache-control": "no-cache",
    "content-length": `${content.length}`,
    "content-type": "text/javascript; charset=UTF-8",
    "etag": await eTag(content),
    "x-content-type-options": "nosniff",
  };
}

Deno.test("StaticContent responds to GET with the file", async () => {
  await using site = await serve({ "app.js": SCRIPT });
  assertEquals(await site.ask("/app.js"), {
    status: 200,
    headers: await scriptHeaders(SCRIPT),
    body: SCRIPT,
  });
});

Deno.test("StaticContent responds to HEAD as to GET, without the body", async () => {
  await using site = await serve({
    "index.html": PAGE,
    "docs/index.html": PAGE,
    "app.js": SCRIPT,
    "app.js.br": "BR",
    "large.bin": LARGE,
  });
  const found = ["/", "/docs", "/docs/", "/users/42", "/app.js", "/large.bin"];
  const conditions: Record<string, string>[] = [
    {},
    { "accept-encoding": "br" },
    { "if-modified-since": LAST_MODIFIED },
  ];
  for (const path of [...found, "/missing.js", "/.env"]) {
    for (const headers of conditions) {
      const { body, ...complete } = await site.ask(path, headers);
      assertEquals(await site.ask(path, headers, "HEAD"), {
        ...complete,
        body: complete.status < 400 ? undefined : body,
      });
    }
  }
});

const TYPES = [
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
  ["v1.0/LICENSE", "application/octet-stream"],
  [".well-known/text.txt/LICENSE", "application/octet-stream"],
  [".well-known/apple-app-site-association", "application/json"],
  ["apple-app-site-association", "application/json"],
  ["my-apple-app-site-association", "application/octet-stream"],
] as const;

Deno.test("StaticContent derives the content type from the name", async () => {
  const files = Object.fromEntries(TYPES.map(([name]) => [name, "1"]));
  await using site = await serve(files);
  for (const [name, type] of TYPES) {
    const { status, headers } = await site.ask(`/${name}`);
    assertEquals([status, headers["content-type"]], [200, type], name);
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

const FOUND = [
  ["/", PAGE],
  ["/index.html", PAGE],
  ["/?q=1", PAGE],
  ["/docs/", "docs"],
  ["/docs/v1.0/", "v1"],
  ["/docs/../app.js", SCRIPT],
  ["/a%20b/%C3%BC.txt", "umlaut"],
  ["/empty.txt", undefined],
  ["/.well-known/security.txt", "Contact: mailto:security@app.example"],
  // The fallback of a single-page app:
  ["/users", PAGE],
  ["/users/", PAGE],
  ["/users/42?tab=1", PAGE],
  ["/v1.2/users", PAGE],
  [`/invitation/${"a".repeat(300)}`, PAGE], // longer than the name of any file
  [`/${"b/".repeat(2100)}c`, PAGE],
  ["/docs/missing", PAGE],
  ["/app.js/users", PAGE],
  ["/assets", PAGE], // a directory without an index is not listed, and may be a route of the app
  ["/assets/", PAGE],
] as const;

Deno.test("StaticContent finds files, indexes and, for routes of the app, the root's index", async () => {
  await using site = await serve(APP);
  for (const [path, expected] of FOUND) {
    const { status, body } = await site.ask(path);
    assertEquals([status, body], [200, expected], path);
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
  "/.well-known/missing.txt",
  "//docs",
  "/a%2fb.c",
  "/app.js%00",
  `/${"a".repeat(300)}.js`,
  `/${"b/".repeat(2000)}x.js`,
];

Deno.test("StaticContent responds with 404 for missing files and for files that must not be served", async () => {
  await using site = await serve(APP);
  for (const path of NOT_SERVED) {
    assertEquals(await site.ask(path), NOT_FOUND, path);
  }
});

/** The headers of a tab's navigation, and the `Accept` of one to an insecure origin. */
const BROWSER =
  "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8";
const DOCUMENT = {
  "accept": BROWSER,
  "sec-fetch-dest": "document",
  "sec-fetch-mode": "navigate",
};
/** Of a service worker that forwards a navigation. */
const FORWARDED = { ...DOCUMENT, "sec-fetch-dest": "empty" };

/** What nobody gets anything for, in whatever way it is requested. */
const HIDDEN = [
  "/.env",
  "/.git",
  "/.git/refs.old/a.b",
  "/assets/.htpasswd",
  "/..%2fsecret.txt",
  "/%252e%252e/secret.txt",
  "/a%2f..%2fsecret.txt",
  "/a%5c.env",
  "/a%252f%252e%252e/b",
  "/.env%zz",
  "/%2egit%ff",
];

Deno.test("StaticContent responds with 404 for names that begin with a dot, to everyone", async () => {
  await using site = await serve(APP);
  const { vary: _, ...headers } = NOT_FOUND.headers;
  for (const path of HIDDEN) {
    for (const sent of [{}, DOCUMENT, { accept: BROWSER }]) {
      assertEquals(await site.ask(path, sent), { ...NOT_FOUND, headers }, path);
    }
  }
  for (
    const path of ["/.well-known/a.b", "/.well-known/a", "/a/.well-known/b.c"]
  ) {
    assertEquals(await site.ask(path, DOCUMENT), NOT_FOUND, path);
  }
});

/** What a browser sends for links of an app. */
const DOCUMENTS = [
  "/users/jane.doe",
  "/users/jane.doe/",
  "/jane.doe",
  "/jane.doe?tab=1",
  "/v1.2",
  "/search/50%25.off",
  "/search/50%",
  "/search/%zz.b",
  "/search/%E4.%FC",
  "/a,b;c@d:e+f(1)!'*~.x",
  "/a|b[c]^d.e$f&g=h",
  "/na%C3%AFve.caf%C3%A9",
  "/a%20b.c",
  "/a%2Fb.c",
  "/group%2Fproject",
  "/a%5Cb",
  "/a%252Fb",
  "/a%0Ab",
  "/users//42",
  "//users/jane.doe",
  "/users/jane..doe.",
  "/file.php",
  "/logo.png",
  "/favicon.ico",
  "/robots.txt",
  "/app.js/",
  "/app.js/x.js",
  `/invitation/${"a".repeat(300)}.b`,
];

/** The page for a document where others expect a file. */
const PAGE_FOR_DOCUMENTS = [200, "no-store", ROUTE_HEADERS, PAGE];

/** Status, caching and page of an answer. */
function essence({ status, headers, body }: Answer) {
  return [status, headers["cache-control"], headers["vary"], body];
}

Deno.test("StaticContent sends a document the page at what is no file, whatever characters its path has", async () => {
  await using site = await serve(APP);
  const navigations = [DOCUMENT, FORWARDED, { accept: BROWSER }];
  for (const path of DOCUMENTS) {
    for (const headers of navigations) {
      const answer = await site.ask(path, headers);
      assertEquals(essence(answer), PAGE_FOR_DOCUMENTS, path);
      const { body: _, ...complete } = answer;
      const head = await site.ask(path, headers, "HEAD");
      assertEquals(head, { ...complete, body: undefined }, path);
    }
  }
  const search = essence(await site.ask("/search?q=a.b", DOCUMENT));
  assertEquals(search, [200, "no-cache", ROUTE_HEADERS, PAGE]);
});

Deno.test("StaticContent sends a file at the path of a document, and prefers the page of the path itself", async () => {
  const files = { ...APP, "v1.2.html": "v1.2", "logo.png": "PNG" };
  await using site = await serve(files);
  for (const headers of [{}, DOCUMENT, { accept: "application/json" }]) {
    const logo = await site.ask("/logo.png", headers);
    assertEquals(essence(logo), [200, "no-cache", undefined, logo.body]);
    const page = await site.ask("/v1.2", headers);
    const vary = "Sec-Fetch-Dest, Sec-Fetch-Mode";
    assertEquals(essence(page), [200, "no-cache", vary, "v1.2"]);
  }
});

/** Requests at a path that looks like a file's, and whether they are those of documents. */
const SENDERS: [headers: Record<string, string>, isDocument: boolean][] = [
  [{}, false],
  [{ accept: "*/*" }, false],
  [{ accept: "text/html" }, true],
  [{ accept: "TEXT/HTML" }, true],
  [{ accept: "text/html, application/xhtml+xml, image/jxr, */*" }, true], // Edge 18
  [{ accept: "text/html;q=0.9, application/json;q=0.8" }, true],
  [{ accept: "text/html;q=0.9, application/json" }, false],
  [{ accept: "application/json, text/html;q=0.9" }, false],
  [{ accept: "text/html;q=0, */*" }, false],
  [{ accept: "application/xhtml+xml" }, false],
  [{ accept: "application/json, text/plain, */*" }, false],
  [{ accept: "image/avif,image/webp,*/*" }, false],
  [{ accept: "text/css,*/*;q=0.1" }, false],
  [{ accept: "nonsense, ;;, text" }, false],
  [{ accept: `text/html${", a/b".repeat(200)}` }, false], // no browser's, and long ones take long to read
  [{ ...DOCUMENT, "accept": "*/*" }, true],
  ...["iframe", "frame", "embed", "object", "image", "script", "style"].map(
    (destination) =>
      [{ ...DOCUMENT, "sec-fetch-dest": destination }, false] as [
        Record<string, string>,
        boolean,
      ],
  ),
  [{ ...FORWARDED, "sec-fetch-mode": "cors" }, false],
  [{ "sec-fetch-dest": "empty", "sec-fetch-mode": "navigate" }, false], // Chromium, for a link with `download`
];

for (const [headers, isDocument] of SENDERS) {
  Deno.test(`StaticContent sends ${isDocument ? "the page" : "no page"} at a path with a dot for ${JSON.stringify(headers)}`, async () => {
    await using site = await serve(APP);
    const answer = await site.ask("/users/jane.doe", headers);
    if (isDocument) assertEquals(essence(answer), PAGE_FOR_DOCUMENTS);
    else assertEquals(answer, NOT_FOUND);
    const plain = await site.ask("/users/jane", headers);
    const isForJson = headers["accept"]?.includes("json") && !isDocument;
    assertEquals(plain.status, isForJson ? 404 : 200);
  });
}

/** The `Accept` of scripts at a path without a dot, and whether they get the page. */
const SCRIPTS: [accept: string, isPage: boolean][] = [
  ["*/*", true],
  ["text/html", true],
  [BROWSER, true],
  ["image/avif,*/*", true],
  ["text/plain", true],
  ["text/event-stream", true],
  ["application/json", false],
  ["application/json;charset=utf-8", false],
  ["Application/JSON", false],
  ["application/json, text/plain, */*", false], // axios
  ["application/json, text/javascript, */*; q=0.01", false], // jQuery
  ["application/vnd.api+json", false],
  ["text/html;q=0.9, application/json", false],
  ["text/html, application/json", true],
  ["text/html, application/json;q=0.9", true],
];

for (const [accept, isPage] of SCRIPTS) {
  Deno.test(`StaticContent sends a script ${isPage ? "the page" : "404"} at a path without a dot for Accept: ${accept}`, async () => {
    await using site = await serve({ ...APP, "about.html": "about" });
    const empty = { "sec-fetch-dest": "empty", "sec-fetch-mode": "cors" };
    for (const headers of [{ accept }, { accept, ...empty }]) {
      const answer = await site.ask("/api/users", headers);
      const page = [200, "no-cache", ROUTE_HEADERS, PAGE];
      if (isPage) assertEquals(essence(answer), page);
      else assertEquals(answer, NOT_FOUND);
      assertEquals((await site.ask("/", headers)).body, PAGE);
      assertEquals((await site.ask("/about", headers)).body, "about");
      assertEquals((await site.ask("/app.js", headers)).body, SCRIPT);
    }
  });
}

Deno.test("StaticContent sends no page for a document where a file would never change", async () => {
  await using site = await serve(APP, ["assets/**", "*.{js,css}"]);
  const paths = ["/assets/old.js", "/assets/a/b.c", "/old.js", "/old.css/"];
  for (const path of paths) {
    assertEquals(await site.ask(path, DOCUMENT), NOT_FOUND, path);
  }
  assertEquals((await site.ask("/assets/old", DOCUMENT)).body, PAGE);
  assertEquals((await site.ask("/users/old.js", DOCUMENT)).body, PAGE);
});

Deno.test("StaticContent sends a document the page for unknown paths with its status", async () => {
  await using site = await serve({ "index.html": PAGE, "404.html": "lost" });
  const answer = essence(await site.ask("/jane.doe", DOCUMENT));
  assertEquals(answer, [404, "no-store", ROUTE_HEADERS, "lost"]);
});

Deno.test("StaticContent says of a page that it compresses what else it depends on", async () => {
  const html = "<p>text</p>".repeat(500);
  await using site = await serve({ "index.html": html });
  const sent = { ...DOCUMENT, "accept-encoding": "br" };
  const { headers, body } = await site.get("/jane.doe", sent);
  await body?.cancel();
  assertEquals(headers.get("vary"), `Accept-Encoding, ${ROUTE_HEADERS}`);
});

/** What frameworks write, and the pages with which paths are answered. */
const FALLBACKS: readonly [
  what: string,
  files: Files,
  fallback: string | undefined,
  pages: Readonly<Record<string, readonly [status: number, page: string]>>,
][] = [
  [
    "the page of a route itself",
    {
      "index.html": "home",
      "about.html": "about",
      "about/team.html": "team",
      "docs.html": "not the index",
      "docs/index.html": "docs",
    },
    undefined,
    {
      "/about": [200, "about"],
      "/about/team": [200, "team"],
      "/docs/": [200, "docs"],
      "/other": [200, "home"],
      "/": [200, "home"],
    },
  ],
  [
    "200.html of Nuxt and SvelteKit",
    { "index.html": "home", "200.html": "app", "404.html": "lost" },
    undefined,
    { "/spa": [200, "app"], "/": [200, "home"], "/200": [200, "app"] },
  ],
  [
    "__spa-fallback.html of React Router",
    { "index.html": "home", "__spa-fallback.html": "app", "404.html": "lost" },
    undefined,
    { "/other": [200, "app"], "/": [200, "home"] },
  ],
  [
    "index.csr.html of Angular",
    { "index.html": "home", "index.csr.html": "app", "404.html": "lost" },
    undefined,
    { "/other": [200, "app"], "/": [200, "home"] },
  ],
  [
    "200.html rather than index.csr.html",
    { "200.html": "app", "index.csr.html": "other" },
    undefined,
    { "/other": [200, "app"], "/": [200, "app"] },
  ],
  [
    "index.csr.html where the home page is not prerendered",
    { "index.csr.html": "app", "about/index.html": "about" },
    undefined,
    { "/other": [200, "app"], "/": [200, "app"], "/about/": [200, "about"] },
  ],
  [
    "404.html",
    { "index.html": "home", "404.html": "lost" },
    undefined,
    { "/other": [404, "lost"], "/404.html": [200, "lost"], "/": [200, "home"] },
  ],
  [
    "404.html that is the page of the app, for other hosts",
    { "index.html": "home", "404.html": "home" },
    undefined,
    { "/other": [200, "home"] },
  ],
  [
    "--fallback",
    { "index.html": "home", "200.html": "app", "shell/app.html": "shell" },
    "shell/app.html",
    { "/other": [200, "shell"], "/": [200, "home"] },
  ],
];

for (const [what, files, fallback, pages] of FALLBACKS) {
  Deno.test(`StaticContent answers a path without a file with ${what}`, async () => {
    const options = fallback === undefined ? {} : { fallback };
    await using site = await serveSite(files, options);
    for (const [path, [status, page]] of Object.entries(pages)) {
      const response = await site.get(path);
      const actual = [response.status, await response.text()];
      assertEquals([path, ...actual], [path, status, page]);
    }
    assertEquals((await site.get("/missing.js")).status, 404);
  });
}

Deno.test("StaticContent sends a page for unknown paths with 404 again and again, never as unchanged", async () => {
  await using site = await serveSite({
    "index.html": PAGE,
    "404.html": "<!doctype html><title>lost</title>",
  });
  const first = await site.get("/other");
  const etag = first.headers.get("etag") ?? "";
  await first.body?.cancel();
  const again = await site.get("/other", { "if-none-match": etag });
  assertEquals([first.status, again.status], [404, 404]);
  await again.body?.cancel();
});

Deno.test("StaticContent warns at the start if the page of --fallback is missing", async () => {
  await using site = await serveSite({ "index.html": PAGE }, {
    fallback: "app.html",
  });
  const details = site.lines.map(({ detail }) => `${detail}`);
  assertEquals(details.filter((it) => it.includes('"app.html"')).length, 1);
});

Deno.test("StaticContent responds with 400 for a path that cannot be decoded", async () => {
  await using site = await serve(APP);
  for (const path of ["/%", "/%zz.js", "/%c0%ae%c0%ae/secret.txt", "/a/%ff"]) {
    assertEquals((await site.ask(path)).status, 400, path);
  }
});

Deno.test("StaticContent responds with 404 at the root if there is no index", async () => {
  const files = { "app.js": SCRIPT, "index.html/app.js": SCRIPT };
  await using site = await serve(files);
  for (const path of ["/", "/users", "/index.html/"]) {
    assertEquals((await site.ask(path)).status, 404, path);
  }
});

const REDIRECTS = [
  ["/docs", "/docs/"],
  ["/docs?next=//evil.example", "/docs/?next=//evil.example"],
  ["/docs/v1.0", "/docs/v1.0/"],
  ["/a:b", "/a%3Ab/"],
  ["/users/../docs", "/docs/"],
  // A page whose URL had a slash at its end would not find its scripts.
  ["/about/", "/about"],
  ["/about/?next=//evil.example", "/about?next=//evil.example"],
  ["/about/team/", "/about/team"],
  ["/a%20b/%C3%BC/", "/a%20b/%C3%BC"],
  ["/a%20b/a%3Ab/", "/a%20b/a%3Ab"],
  ["/v1.0/", "/v1.0"],
] as const;

Deno.test("StaticContent redirects a directory's path to the one with a slash, and a page's to the one without, on the same host", async () => {
  await using site = await serve({
    ...APP,
    "docs.html": "not the index",
    "about.html": "about",
    "about/team.html": "team",
    "a b/ü.html": "umlaut",
    "a b/a:b.html": "colon",
    "v1.0.html": "v1",
  });
  for (const [path, target] of REDIRECTS) {
    const { status, headers } = await site.ask(path);
    const url = new URL(headers.location ?? "", HOST + path).href;
    assertEquals([status, url], [308, HOST + target], path);
  }
});

Deno.test("StaticContent redirects to a relative location, so that a proxy may strip a prefix", async () => {
  await using site = await serve(APP);
  assertEquals(await site.ask("/docs/v1.0?q=1"), {
    status: 308,
    headers: { "cache-control": "no-cache", "location": "./v1.0/?q=1" },
    body: undefined,
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
      headers: {
        "cache-control": "no-cache",
        "content-length": `${PAGE.length}`,
        "content-type": "text/html; charset=UTF-8",
        "etag": `W/"rep-r1-${encodeURIComponent(await eTag(PAGE))}"`,
        "vary": "Sec-Fetch-Dest, Sec-Fetch-Mode",
        "x-content-type-options": "nosniff",
      },
      body: PAGE,
    };
    assertEquals(await site.ask("/", headers), complete);
    assertEquals(await site.ask("/users", headers), {
      ...complete,
      headers: { ...complete.headers, "vary": ROUTE_HEADERS },
    });
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

const NAMES = [
  "app-BxY12_9a.js",
  "assets/a.js",
  "assets/b.css",
  "assets/fonts/c.woff2",
  "assets/page.html",
  "index.html",
  "logo.svg",
];

for (const [globs, expected] of IMMUTABLE_FILES) {
  Deno.test(`StaticContent makes ${expected.join(", ") || "nothing"} immutable with the globs ${globs}`, async () => {
    const files = Object.fromEntries(NAMES.map((name) => [name, SCRIPT]));
    await using site = await serve(files, globs);
    for (const name of NAMES) {
      const { headers } = await site.ask(`/${name}`);
      const caching = expected.includes(name) ? IMMUTABLE : "no-cache";
      assertEquals(headers["cache-control"], caching, name);
    }
  });
}

/** Which conditions hold is tested with `send()`. */
const CONDITIONS: [
  headers: (etag: string) => Record<string, string>,
  status: number,
][] = [
  [(etag) => ({ "if-none-match": etag }), 304],
  [() => ({ "if-none-match": '"x"' }), 200],
  [() => ({ "if-modified-since": LAST_MODIFIED }), 200],
  [(etag) => ({ "if-none-match": etag, "range": "bytes=0-1" }), 304],
  [() => ({ "if-match": '"x"' }), 200],
];

Deno.test("StaticContent evaluates conditional requests for small and large files", async () => {
  const files = { "small.bin": "small", "large.bin": LARGE, "empty.bin": "" };
  await using site = await serve(files);
  for (const name of Object.keys(files)) {
    const { headers: { etag = "" } } = await site.ask(`/${name}`);
    for (const [headers, expected] of CONDITIONS) {
      const sent = headers(etag);
      const { status } = await site.ask(`/${name}`, sent);
      assertEquals([sent, status], [sent, expected], name);
    }
  }
});

Deno.test("StaticContent sends the headers for caches with a 304", async () => {
  const files = { "assets/app.js": SCRIPT, "assets/app.js.gz": "GZ" };
  await using site = await serve(files, ["assets/*"]);
  const etag = await eTag(SCRIPT);
  assertEquals(await site.ask("/assets/app.js", { "if-none-match": etag }), {
    status: 304,
    headers: {
      "cache-control": IMMUTABLE,
      "etag": etag,
      "vary": "Accept-Encoding",
      "x-content-type-options": "nosniff",
    },
    body: undefined,
  });
});

/** Which ranges there are is tested with `parseByteRange()` and `isRangeCurrent()`. */
const RANGES = [
  [{ range: "bytes=2-4" }, 206, "bytes 2-4/10", "234"],
  [{ range: "bytes=-3" }, 206, "bytes 7-9/10", "789"],
  [{ range: "bytes=0-1,4-5" }, 200, undefined, "0123456789"],
  [
    { range: "bytes=2-4", "if-range": LAST_MODIFIED },
    200,
    undefined,
    "0123456789",
  ],
  [{ range: "bytes=2-4", "if-range": '"x"' }, 200, undefined, "0123456789"],
] as const;

for (const [headers, expected, range, text] of RANGES) {
  Deno.test(`StaticContent responds with ${expected} to ${JSON.stringify(headers)}`, async () => {
    await using site = await serve({ "a.txt": "0123456789" });
    const { status, headers: got, body } = await site.ask("/a.txt", headers);
    assertEquals(
      [status, got["content-range"], got["content-length"], body],
      [expected, range, `${text.length}`, text],
    );
  });
}

Deno.test("StaticContent responds with 416 and the size to a range outside the file", async () => {
  await using site = await serve({ "a.txt": "0123456789", "large.bin": LARGE });
  for (const [path, size] of [["/a.txt", 10], ["/large.bin", LARGE.length]]) {
    const range = "bytes=2000000-";
    const { status, headers, body } = await site.ask(`${path}`, { range });
    assertEquals([status, headers["content-range"]], [416, `bytes */${size}`]);
    assertEquals(body, {
      title: "Range Not Satisfiable",
      status,
      detail:
        `Cannot send the range "${range}": expected one within ${size} bytes`,
    });
  }
});

Deno.test("StaticContent ignores the range of a HEAD request", async () => {
  await using site = await serve({ "app.js": SCRIPT });
  assertEquals(await site.ask("/app.js", { range: "bytes=0-1" }, "HEAD"), {
    status: 200,
    headers: await scriptHeaders(SCRIPT),
    body: undefined,
  });
});

const COMPRESSED = [
  [[".br", ".gz"], "gzip, deflate, br", "br", "AS BR"],
  [[".br", ".gz"], "gzip", "gzip", "AS GZ"],
  [[".gz"], "gzip, br", "gzip", "AS GZ"],
  [[".br"], "gzip", undefined, SCRIPT],
  [[".br", ".gz"], "br;q=0, gzip;q=0", undefined, SCRIPT],
  [[".br", ".gz"], undefined, undefined, SCRIPT],
] as const;

for (const [suffixes, accepted, coding, body] of COMPRESSED) {
  const name = `StaticContent sends ${
    coding ?? "identity"
  } of ${suffixes} for Accept-Encoding: ${accepted ?? "(none)"}`;
  Deno.test(name, async () => {
    await using site = await serve({ "app.js": SCRIPT });
    for (const suffix of suffixes) {
      const compressed = `AS ${suffix.slice(1).toUpperCase()}`;
      await writeFiles(site.at(), { [`app.js${suffix}`]: compressed });
    }
    const etag = await eTag(body);
    const own = {
      "etag": `${etag.slice(0, -1)}-${coding}"`,
      "content-encoding": coding!,
    };
    const sent = accepted === undefined ? {} : { "accept-encoding": accepted };
    assertEquals(await site.ask("/app.js", sent), {
      status: 200,
      headers: {
        ...await scriptHeaders(body),
        "vary": "Accept-Encoding",
        ...(coding && own),
      },
      body,
    });
  });
}

Deno.test("StaticContent sends no compressed variant without the file itself", async () => {
  await using site = await serve({ "app.js.br": "BR" });
  const br = { "accept-encoding": "br" };
  assertEquals(await site.ask("/app.js", br), NOT_FOUND);
});

const LINKS = [
  ["link.js", "app.js", "/link.js", SCRIPT],
  ["link", "docs", "/link/", "docs"],
  ["docs/up.js", "../app.js", "/docs/up.js", SCRIPT],
  ["link.txt", "../secret.txt", "/link.txt", undefined],
  ["link", "../secret.txt", "/link", PAGE], // as if nothing were there
  ["link", "../outside", "/link/secret.txt", undefined],
  ["link", "../outside", "/link/", PAGE],
  // What is there outside is answered like what is missing, so that nobody finds out which names exist.
  ["link", "../outside", "/link/missing.txt", undefined],
  ["link", "../outside", "/link/missing", PAGE],
  ["link", "../outside", "/link/secret.txt/page", PAGE],
  ["docs/link", "../../outside", "/docs/link/missing", PAGE],
  ["link", "../site-old", "/link/secret.txt", undefined], // begins with the path of the directory
  ["link", "..", "/link/secret.txt", undefined],
  ["link", "..", "/link/site/app.js", SCRIPT], // leads out and in again: only the end counts
  ["link.js", "/dev/null", "/link.js", undefined],
  ["link.js", "link.js", "/link.js", undefined],
  ["loop", "loop", "/loop", PAGE],
  ["link.js", "missing.js", "/link.js", undefined],
] as const;

for (const [link, to, path, body] of LINKS) {
  const isFollowed = body !== undefined && body !== PAGE;
  Deno.test(`StaticContent ${isFollowed ? "follows" : "rejects"} ${path} if ${link} links to ${to}`, async () => {
    await using site = await serve({
      "index.html": PAGE,
      "app.js": SCRIPT,
      "docs/index.html": "docs",
    });
    await Deno.symlink(to, site.at(link));
    site.clock.pass(1_000);
    const found = await site.ask(path);
    if (body === undefined) assertEquals(found, NOT_FOUND);
    else assertEquals([found.status, found.body], [200, body]);
  });
}

Deno.test("StaticContent sends no compressed variant from outside the directory", async () => {
  await using site = await serve({ "app.js": SCRIPT });
  await Deno.symlink("../secret.txt", site.at("app.js.br"));
  site.clock.pass(1_000);
  assertEquals(await site.ask("/app.js", { "accept-encoding": "br" }), {
    status: 200,
    headers: await scriptHeaders(SCRIPT),
    body: SCRIPT,
  });
});

Deno.test("StaticContent serves a mounted ConfigMap, and its new version after a swap", async () => {
  const files = { "..1/index.html": "one", "..2/index.html": "two" };
  await using site = await serve(files);
  await Deno.symlink("..1", site.at("..data"));
  await Deno.symlink("..data/index.html", site.at("index.html"));
  site.clock.pass(1_000);
  assertEquals((await site.ask("/")).body, "one");
  await Deno.symlink("..2", site.at("..data_tmp"));
  await Deno.rename(site.at("..data_tmp"), site.at("..data"));
  site.clock.pass(1_000);
  assertEquals((await site.ask("/")).body, "two");
  assertEquals((await site.ask("/..data%2findex.html")).status, 404);
});

Deno.test("StaticContent finds a file that was there, although the system misses it once while a link is exchanged", async () => {
  await using site = await serve({ "index.html": PAGE, "app.js": SCRIPT });
  assertEquals((await site.ask("/app.js")).status, 200);
  site.clock.pass(1_000);
  const { stat } = Deno;
  let misses = 1;
  Deno.stat = (path) => {
    const isMissed = String(path).endsWith("/app.js") && misses-- > 0;
    return isMissed
      ? Promise.reject(new Deno.errors.NotFound("a link is exchanged"))
      : stat(path);
  };
  try {
    assertEquals((await site.ask("/app.js")).status, 200);
    await Deno.remove(site.at("app.js"));
    site.clock.pass(1_000);
    assertEquals(await site.ask("/app.js"), NOT_FOUND);
  } finally {
    Deno.stat = stat;
  }
});

Deno.test("StaticContent finds every file while a ConfigMap is swapped", async () => {
  await using site = await serve({});
  const names = ["index.html", "app.js", "app.js.br"];
  const version = Object.fromEntries(names.map((name) => [name, PAGE]));
  const swap = async (next: number) => {
    await Deno.symlink(`..${next}`, site.at("..data_tmp"));
    await Deno.rename(site.at("..data_tmp"), site.at("..data"));
  };
  await writeFiles(site.at("..0"), version);
  await swap(0);
  for (const name of names) {
    await Deno.symlink(`..data/${name}`, site.at(name));
  }
  site.clock.pass(1_000);
  const paths = ["/", "/app.js"];
  const pages = [PAGE, PAGE];
  assertEquals(await site.readAll(paths), pages); // known before, as they are once somebody has asked for them
  for (let next = 1; next <= 100; next++) {
    site.clock.pass(1_000);
    await writeFiles(site.at(`..${next}`), version);
    const compressed = site.read("/app.js", { "accept-encoding": "br" });
    const reading = Promise.all([site.readAll(paths), compressed]);
    await swap(next);
    await Deno.remove(site.at(`..${next - 1}`), { recursive: true });
    assertEquals(await reading, [pages, PAGE]);
  }
});

Deno.test({
  name: "StaticContent never opens a FIFO, which would block",
  ignore: Deno.build.os === "windows",
  async fn() {
    await using site = await serve({ "index.html": PAGE, "app.js": SCRIPT });
    for (const name of ["pipe.js", "pipe", "app.js.br", "docs/index.html"]) {
      const path = site.at(name);
      await Deno.mkdir(dirname(path), { recursive: true });
      await new Deno.Command("mkfifo", { args: [path] }).output();
    }
    site.clock.pass(1_000);
    assertEquals(await site.ask("/pipe.js"), NOT_FOUND);
    assertEquals((await site.ask("/pipe")).body, PAGE);
    const compressed = await site.ask("/app.js", { "accept-encoding": "br" });
    assertEquals(compressed.body, SCRIPT);
    assertEquals((await site.ask("/docs/")).body, PAGE);
  },
});

Deno.test("StaticContent sends a large file and its ranges byte for byte", async () => {
  await using site = await serve({ "large.bin": LARGE, "large.html": LARGE });
  const bytesOf = async (path: string, headers: HeadersInit = {}) =>
    await (await site.get(path, headers)).bytes();
  assertEquals(await bytesOf("/large.bin"), LARGE);
  assertEquals(await bytesOf("/large.html"), LARGE);
  const range = await bytesOf("/large.bin", { range: "bytes=100000-499999" });
  assertEquals(range, LARGE.slice(100_000, 500_000));
  const last = await bytesOf("/large.bin", { range: "bytes=-1" });
  assertEquals(last, LARGE.slice(-1));
});

Deno.test("StaticContent closes a file whose body is cancelled", async () => {
  await using site = await serve({ "large.bin": LARGE });
  const open = async (headers: HeadersInit = {}) =>
    (await site.get("/large.bin", headers)).body!;
  await (await open()).cancel();
  const begun = (await open({ range: "bytes=5-" })).getReader();
  assertEquals((await begun.read()).value?.at(0), 5);
  await begun.cancel();
  const reading = (await open()).getReader();
  const chunk = reading.read();
  await reading.cancel(); // while a read is pending
  assertEquals((await chunk).done, true);
});

Deno.test("StaticContent sends the file that it opened, even if the file is replaced", async () => {
  await using site = await serve({ "large.bin": LARGE, "new.bin": "new" });
  const response = await site.get("/large.bin");
  await Deno.rename(site.at("new.bin"), site.at("large.bin"));
  site.clock.pass(1_000);
  assertEquals(await response.bytes(), LARGE);
  assertEquals((await site.ask("/large.bin")).body, "new");
});

Deno.test("StaticContent ends the body in an error if the file is truncated, and closes the file", async () => {
  await using site = await serve({ "large.bin": LARGE });
  const path = site.at("large.bin");
  const response = await site.get("/large.bin");
  await Deno.truncate(path, 100_000);
  await assertRejects(
    () => response.bytes(),
    Error,
    `Cannot send all of "${path}": the file was truncated`,
  );
});

const MISSING = [
  ["missing", "NotFound"],
  ["app.js", "NotADirectory"],
  ["", "NotFound"],
] as const;

for (const [directory, reason] of MISSING) {
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
  const read = async (
    path: string,
    getConfigScript: GetConfigScript,
    headers: HeadersInit = {},
  ) => {
    const request = new Request(HOST + path, { headers });
    const context = contextOf(request);
    const { content } = site;
    const response = await content.respond(request, context, getConfigScript);
    return await response.text();
  };
  const bytes = new TextEncoder().encode("<SCRIPT>");
  const script = () => Promise.resolve({ ...NO_SCRIPT, bytes });
  assertEquals(await read("/", script), "<SCRIPT><p></p>");
  const never = () =>
    Promise.reject(new Error("expected no request for the script"));
  const fragment = { "sec-fetch-dest": "empty", "sec-fetch-mode": "cors" };
  assertEquals(await read("/", never, fragment), "<p></p>");
  assertEquals(await read("/app.js", never), SCRIPT);
});

Deno.test("StaticContent warns at the start if there is no page of an app", async () => {
  await using empty = await serveSite({ "a.txt": "a" });
  assertEquals(
    empty.lines.map(({ level, msg, detail }) => [level, msg, detail]),
    [[
      "WARN",
      "rep.start.warning",
      `expected "index.html" in "${empty.at()}": paths of the app need it`,
    ]],
  );
  for (const name of ["index.html", "200.html", "index.csr.html"]) {
    await using site = await serveSite({ [name]: PAGE });
    assertEquals(site.lines, [], name);
  }
  await using lost = await serveSite({ "404.html": PAGE });
  assertEquals(lost.lines.length, 1);
});

Deno.test("StaticContent warns at the start if the build was made for a base path, and the gateway has none", async () => {
  const files = {
    "index.html": '<script type="module" src="/app/assets/a.js"></script>',
    "assets/a.js": "",
  };
  await using without = await serveSite(files);
  assertEquals(without.lines.map(({ msg, detail }) => [msg, detail]), [[
    "rep.start.warning",
    `"index.html" expects its files under "/app": expected --base-path /app, unless a proxy removes it`,
  ]]);
  await using site = await serveSite(files, { basePath: "/app" });
  assertEquals(site.lines, []);
});
