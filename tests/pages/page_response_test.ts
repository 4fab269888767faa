import { assertEquals } from "@std/assert";
import { headersToOmit, injectPage } from "../../src/pages/page_response.ts";
import type { ConfigScript } from "../../src/pages/config_script.ts";

const TAG: ConfigScript = { bytes: new TextEncoder().encode("<TAG>"), revision: "r1", isSecret: false };
const HTML = "<html><head></head><body></body></html>";
const INJECTED = "<html><head><TAG></head><body></body></html>";

interface Case {
  body?: BodyInit | null;
  status?: number;
  headers?: Record<string, string>;
  method?: string;
  asked?: Record<string, string>;
  tag?: ConfigScript;
}

async function inject({ body = HTML, status = 200, headers = {}, method = "GET", asked = {}, tag = TAG }: Case) {
  const type = { "content-type": "text/html; charset=utf-8" };
  const response = new Response(body, { status, headers: { ...type, ...headers } });
  const result = await injectPage(response, { method, headers: new Headers(asked) }, () => Promise.resolve(tag));
  return { status: result.status, headers: Object.fromEntries(result.headers), body: await result.text() };
}

Deno.test("injectPage() puts the tag into a page and drops what was true of the old body only", async () => {
  const old = {
    "content-length": "39",
    "last-modified": "x",
    "accept-ranges": "bytes",
    "content-digest": "x",
    "x-own": "stays",
  };
  assertEquals(await inject({ headers: old }), {
    status: 200,
    headers: {
      "cache-control": "no-cache",
      "content-type": "text/html; charset=utf-8",
      "etag": 'W/"rep-r1-x"',
      "x-own": "stays",
    },
    body: INJECTED,
  });
});

const PAGES: [what: string, response: Case, isPage: boolean][] = [
  ["text/html", { headers: { "content-type": "text/html" } }, true],
  ["TEXT/HTML with a charset", { headers: { "content-type": "TEXT/HTML ; charset=ISO-8859-1" } }, true],
  ["an error page", { status: 404 }, true],
  ["a server's error page", { status: 503 }, true],
  ["UTF-16", { headers: { "content-type": "text/html; charset=utf-16le" } }, false],
  ["XHTML", { headers: { "content-type": "application/xhtml+xml" } }, false],
  ["JSON", { headers: { "content-type": "application/json" } }, false],
  ["text/html-sandboxed", { headers: { "content-type": "text/html-sandboxed" } }, false],
  ["a part of a page", { status: 206, headers: { "content-range": "bytes 0-38/39" } }, false],
  ["a coding that cannot be undone", { headers: { "content-encoding": "rot13" } }, false],
];

for (const [what, response, isPage] of PAGES) {
  Deno.test(`injectPage() ${isPage ? "changes" : "leaves alone"} ${what}`, async () => {
    const { status, body, headers } = await inject(response);
    assertEquals([status, body], [response.status ?? 200, isPage ? INJECTED : HTML]);
    assertEquals(headers["cache-control"], isPage ? "no-cache" : undefined);
  });
}

Deno.test("injectPage() gives back a response that is no page as the very same object", async () => {
  const response = Response.json({});
  assertEquals(await injectPage(response, { method: "GET", headers: new Headers() }, () => Promise.reject()), response);
  await response.body?.cancel();
});

Deno.test("injectPage() leaves a 304 and a 204 without a body", async () => {
  for (const status of [204, 304]) {
    const { body, headers } = await inject({ status, body: null, headers: { etag: '"x"' } });
    assertEquals([body, headers.etag], ["", '"x"']);
  }
});

Deno.test("injectPage() undoes gzip before it looks for the head", async () => {
  const body = new Blob([HTML]).stream().pipeThrough(new CompressionStream("gzip"));
  const { headers, body: text } = await inject({ body, headers: { "content-encoding": "gzip", etag: '"a"' } });
  assertEquals([text, headers["content-encoding"], headers.etag], [INJECTED, undefined, 'W/"rep-r1-%22a%22"']);
});

Deno.test("injectPage() puts the tag first into a page that is empty", async () => {
  assertEquals((await inject({ body: null })).body, "<TAG>");
});

Deno.test("injectPage() answers a HEAD with the page's headers and no body", async () => {
  const { body, headers } = await inject({
    body: null,
    method: "HEAD",
    headers: { "content-length": "39", etag: '"a"' },
  });
  assertEquals([body, headers["content-length"], headers.etag], ["", undefined, 'W/"rep-r1-%22a%22"']);
});

const SECRET = { ...TAG, isSecret: true };
const CACHING: [own: string | undefined, tag: ConfigScript, expected: string][] = [
  [undefined, TAG, "no-cache"],
  ["public, max-age=3600", TAG, "no-cache"],
  ["private, max-age=60", TAG, "private, no-cache"],
  ["no-store", TAG, "no-store"],
  ["no-store-please", TAG, "no-store"],
  [undefined, SECRET, "no-store"],
  ["public, max-age=3600", SECRET, "no-store"],
];

for (const [own, tag, expected] of CACHING) {
  Deno.test(`injectPage() turns ${own ?? "no cache-control"} of a page ${tag.isSecret ? "with" : "without"} secrets into ${expected}`, async () => {
    const { headers } = await inject({ tag, headers: own === undefined ? {} : { "cache-control": own } });
    assertEquals(headers["cache-control"], expected);
  });
}

Deno.test("injectPage() gives no ETag to a page with SENSITIVE values, nor to one that had no validator", async () => {
  assertEquals((await inject({ tag: SECRET, headers: { etag: '"a"' } })).headers.etag, undefined);
  assertEquals((await inject({})).headers.etag, undefined);
});

const CONDITIONS: [asked: string, expected: 200 | 304][] = [
  ['W/"rep-r1-%22a%22"', 304],
  ['"x", W/"rep-r1-%22a%22"', 304],
  ['"rep-r1-%22a%22"', 304],
  ["*", 304],
  ['W/"rep-r0-%22a%22"', 200],
  ['W/"rep-r1-%22b%22"', 200],
  ['"a"', 200],
];

for (const [asked, expected] of CONDITIONS) {
  Deno.test(`injectPage() answers If-None-Match: ${asked} with ${expected}`, async () => {
    const page = { headers: { etag: '"a"', "content-length": "39" }, asked: { "if-none-match": asked } };
    const { status, headers, body } = await inject(page);
    assertEquals([status, body, headers.etag], [expected, expected === 304 ? "" : INJECTED, 'W/"rep-r1-%22a%22"']);
    assertEquals((await inject({ ...page, method: "POST" })).status, 200);
    assertEquals((await inject({ ...page, status: 404 })).status, 404);
  });
}

const HIDDEN = ["if-none-match", "if-modified-since", "range"];
const ASKED: [what: string, method: string, headers: Record<string, string>, hidden: string[]][] = [
  ["a navigation", "GET", { accept: "text/html,application/xhtml+xml,*/*;q=0.8" }, HIDDEN],
  ["a page that is kept", "GET", { accept: "*/*", "if-none-match": 'W/"rep-r1-x"' }, HIDDEN],
  ["a script", "GET", { accept: "*/*", "if-none-match": '"x"' }, []],
  ["an upload", "POST", { accept: "text/html" }, []],
];

for (const [what, method, headers, hidden] of ASKED) {
  Deno.test(`headersToOmit() of ${what} are ${hidden.length === 0 ? "none" : "its conditions"}`, () => {
    assertEquals([...headersToOmit({ method, headers: new Headers(headers) })], hidden);
  });
}
