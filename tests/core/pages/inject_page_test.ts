import {
  assertEquals,
  assertInstanceOf,
  assertStrictEquals,
} from "@std/assert";
import { gzipSync } from "node:zlib";
import {
  headersToOmit,
  injectPage,
  type ResponseContent,
} from "../../../src/core/pages/page.ts";
import type { ConfigScript } from "../../../src/core/pages/config_script.ts";
import { decodeContent } from "../../../src/content/coding/content_encoding.ts";
import type { Log } from "../../../src/core/observe/log.ts";
import { captureLog } from "../../_gateway.ts";

const SCRIPT: ConfigScript = {
  bytes: new TextEncoder().encode("<SCRIPT>"),
  etagPart: "r1",
  isSecret: false,
};
const HTML = "<html><head></head><body></body></html>";
const INJECTED = "<html><head><SCRIPT></head><body></body></html>";

/** Who asks, and what is to be inserted. */
interface Asked {
  method?: string;
  requestHeaders?: Record<string, string>;
  script?: ConfigScript;
  log?: Log;
}

function pageOf(
  response: ResponseContent,
  { method = "GET", requestHeaders = {}, script = SCRIPT, log }: Asked = {},
) {
  const request = { method, headers: new Headers(requestHeaders) };
  const getScript = () => Promise.resolve(script);
  return injectPage(response, request, getScript, {
    ...(log && { log }),
    decode: decodeContent,
  });
}

interface Case extends Asked {
  body?: BodyInit | null;
  status?: number;
  headers?: Record<string, string>;
}

async function inject(
  { body = HTML, status = 200, headers = {}, ...asked }: Case,
) {
  const type = { "content-type": "text/html; charset=utf-8" };
  const response = new Response(body, {
    status,
    headers: { ...type, ...headers },
  });
  const result = await pageOf(response, asked);
  return {
    status: result.status,
    headers: Object.fromEntries(result.headers),
    body: await result.text(),
  };
}

Deno.test("injectPage() inserts the script into a page in memory", async () => {
  const headers = new Headers({ "content-type": "text/html" });
  const response = {
    status: 200,
    headers,
    body: new TextEncoder().encode(HTML),
  };
  assertEquals(await (await pageOf(response)).text(), INJECTED);
});

Deno.test("injectPage() inserts the script into a page, and removes the headers of the original body", async () => {
  const original = {
    "content-length": "39",
    "last-modified": "x",
    "accept-ranges": "bytes",
    "content-md5": "x",
    "digest": "x",
    "content-digest": "x",
    "repr-digest": "x",
    "x-own": "kept",
  };
  assertEquals(await inject({ headers: original }), {
    status: 200,
    headers: {
      "cache-control": "no-cache",
      "content-type": "text/html; charset=utf-8",
      "etag": 'W/"rep-r1-x"',
      "vary": "Sec-Fetch-Dest, Sec-Fetch-Mode",
      "x-own": "kept",
    },
    body: INJECTED,
  });
});

const FRAGMENT_REQUEST = {
  "sec-fetch-dest": "empty",
  "sec-fetch-mode": "cors",
};
/** The entity tag of a page whose original has `"a"`. */
const PAGE_ETAG = 'W/"rep-r1-%22a%22"';

const PAGES: [kind: string, response: Case, isPage: boolean][] = [
  ["text/html", { headers: { "content-type": "text/html" } }, true],
  ["TEXT/HTML with a charset", {
    headers: { "content-type": "TEXT/HTML ; charset=ISO-8859-1" },
  }, true],
  ["text/html that was sent twice", {
    headers: { "content-type": "text/html, text/html" },
  }, true],
  ["text/html that was sent last", {
    headers: { "content-type": "text/plain; charset=utf-8, text/html" },
  }, true],
  ["text/html before another type", {
    headers: { "content-type": "text/html; charset=utf-8, text/plain" },
  }, false],
  ["an error page", { status: 404 }, true],
  ["a server's error page", { status: 503 }, true],
  ["a page with an unknown charset", {
    headers: { "content-type": "text/html; charset=utf-32" },
  }, true],
  ["a page whose charset is empty", {
    headers: { "content-type": "text/html; charset=" },
  }, true],
  ["XHTML", { headers: { "content-type": "application/xhtml+xml" } }, false],
  ["JSON", { headers: { "content-type": "application/json" } }, false],
  ["text/html-sandboxed", {
    headers: { "content-type": "text/html-sandboxed" },
  }, false],
  ["a part of a page", {
    status: 206,
    headers: { "content-range": "bytes 0-38/39" },
  }, false],
  [
    "several content codings",
    { headers: { "content-encoding": "gzip, gzip" } },
    false,
  ],
  ["an unsupported content coding", {
    headers: { "content-encoding": "rot13" },
  }, false],
];

for (const [kind, response, isPage] of PAGES) {
  Deno.test(`injectPage() ${isPage ? "changes" : "does not change"} ${kind}`, async () => {
    const { status, body, headers } = await inject(response);
    assertEquals(
      [status, body, headers["cache-control"]],
      [
        response.status ?? 200,
        ...(isPage ? [INJECTED, "no-cache"] : [HTML, undefined]),
      ],
    );
  });
}

/** Injects into a page, and returns whether it has changed, and the log. */
async function injectWithLog(
  response: ResponseContent,
  requestHeaders: Record<string, string> = {},
) {
  const { log, lines } = captureLog();
  const page = await pageOf(response, { requestHeaders, log });
  const text = new TextDecoder("latin1").decode(await page.bytes());
  const isChanged = text.includes("<SCRIPT>");
  return [isChanged, lines.map(({ time: _, ...line }) => line)];
}

Deno.test("injectPage() warns of a page whose content codings it cannot decode", async () => {
  const coding = "gzip, gzip";
  const headers = { "content-type": "text/html", "content-encoding": coding };
  assertEquals(await injectWithLog(new Response(HTML, { headers })), [false, [{
    level: "WARN",
    msg: "rep.page.not_injected",
    coding,
    detail: "expected a single content coding: gzip or br",
  }]]);
});

Deno.test("injectPage() warns of an encoded page if no decoder is handed in, and does not change it", async () => {
  const { log, lines } = captureLog();
  const bytes = new Uint8Array(gzipSync(HTML));
  const headers = { "content-type": "text/html", "content-encoding": "gzip" };
  const page = await injectPage(
    new Response(bytes, { headers }),
    new Request("http://app.example/"),
    () => Promise.resolve(SCRIPT),
    { log },
  );
  assertEquals(await page.bytes(), bytes);
  assertEquals(lines.map(({ msg }) => msg), ["rep.page.not_injected"]);
});

Deno.test("injectPage() inserts the script into a page with the coding identity, or none", async () => {
  for (const coding of ["identity", "Identity", ""]) {
    const { body } = await inject({ headers: { "content-encoding": coding } });
    assertEquals(body, INJECTED);
  }
});

Deno.test("injectPage() returns the same object for a response that is not a page, and needs no script", async () => {
  const response = Response.json({});
  const request = new Request("http://app.example/");
  const page = await injectPage(response, request, () => Promise.reject());
  assertStrictEquals(page, response);
});

Deno.test("injectPage() adds no body to a 304 or a 204", async () => {
  const headers = { etag: '"x"' };
  for (const status of [204, 304]) {
    const page = await inject({ status, body: null, headers });
    assertEquals([page.body, page.headers.etag], ["", '"x"']);
  }
});

Deno.test("injectPage() decodes gzip before it looks for the head", async () => {
  const { headers, body } = await inject({
    body: new Uint8Array(gzipSync(HTML)),
    headers: { "content-encoding": "gzip", etag: '"a"' },
  });
  assertEquals(
    [body, headers["content-encoding"], headers.etag],
    [INJECTED, undefined, PAGE_ETAG],
  );
});

Deno.test("injectPage() inserts the script into an empty page", async () => {
  assertEquals((await inject({ body: null })).body, "<SCRIPT>");
});

Deno.test("injectPage() responds to HEAD with the page's headers, and a body that is empty and not null, for which Deno.serve would add a length", async () => {
  const headers = {
    "content-type": "text/html",
    "content-length": "39",
    "etag": '"a"',
  };
  const response = new Response(null, { headers });
  const page = await pageOf(response, { method: "HEAD" });
  assertEquals(
    [page.headers.get("content-length"), page.headers.get("etag")],
    [null, PAGE_ETAG],
  );
  assertInstanceOf(page.body, ReadableStream);
  assertEquals(await page.text(), "");
});

const WITHOUT_BODY = [
  ["HEAD", "HEAD", {}],
  ["304", "GET", { "if-none-match": '"rep-r1-%22a%22"' }],
] as const;

for (const [kind, method, requestHeaders] of WITHOUT_BODY) {
  Deno.test(`injectPage() cancels the body that a ${kind} response does not need`, async () => {
    let isCancelled = false;
    const body = new ReadableStream({
      cancel: () => void (isCancelled = true),
    });
    const response = new Response(body, {
      headers: { "content-type": "text/html", "etag": '"a"' },
    });
    const result = await pageOf(response, { method, requestHeaders });
    assertEquals([await result.text(), isCancelled], ["", true]);
  });
}

const SECRET = { ...SCRIPT, isSecret: true };
const CACHING = [
  [undefined, SCRIPT, "no-cache"],
  ["public, max-age=3600", SCRIPT, "no-cache"],
  ["private, max-age=60", SCRIPT, "private, no-cache"],
  ["no-store", SCRIPT, "no-store"],
  ["no-store-please", SCRIPT, "no-store"],
  [undefined, SECRET, "no-store"],
  ["public, max-age=3600", SECRET, "no-store"],
] as const;

for (const [original, script, expected] of CACHING) {
  Deno.test(`injectPage() replaces ${original ?? "no cache-control"} of a page ${script.isSecret ? "with" : "without"} secrets by ${expected}`, async () => {
    const caching = original && { "cache-control": original };
    const { headers } = await inject({ script, headers: { ...caching } });
    assertEquals(headers["cache-control"], expected);
  });
}

/** Headers with which an upstream lets caches store a page, whatever its `Cache-Control` says. */
const CACHING_HEADERS = {
  "age": "30",
  "cdn-cache-control": "public, max-age=3600",
  "cloudflare-cdn-cache-control": "max-age=3600",
  "vercel-cdn-cache-control": "max-age=3600",
  "edge-control": "max-age=3600",
  "expires": "Fri, 01 Jan 2100 00:00:00 GMT",
  "pragma": "cache",
  "surrogate-control": "max-age=3600",
  "warning": '110 - "Response is Stale"',
  "x-accel-expires": "3600",
};

Deno.test("injectPage() removes all other caching headers of a page, with SENSITIVE values or without", async () => {
  for (const script of [SCRIPT, SECRET]) {
    const original = { ...CACHING_HEADERS, "x-own": "kept" };
    const { headers } = await inject({ script, headers: original });
    assertEquals(headers, {
      "cache-control": script.isSecret ? "no-store" : "no-cache",
      "content-type": "text/html; charset=utf-8",
      "vary": "Sec-Fetch-Dest, Sec-Fetch-Mode",
      "x-own": "kept",
    });
  }
});

Deno.test("injectPage() removes all other caching headers of a 304 and of a fragment", async () => {
  const headers = {
    ...CACHING_HEADERS,
    "cache-control": "public, max-age=60",
    "etag": '"a"',
  };
  const caching = {
    "cache-control": "no-cache",
    "vary": "Sec-Fetch-Dest, Sec-Fetch-Mode",
  };
  const requestHeaders = { "if-none-match": PAGE_ETAG };
  assertEquals(await inject({ headers, requestHeaders }), {
    status: 304,
    headers: { ...caching, "etag": PAGE_ETAG },
    body: "",
  });
  assertEquals(await inject({ headers, requestHeaders: FRAGMENT_REQUEST }), {
    status: 200,
    headers: {
      ...caching,
      "content-type": "text/html; charset=utf-8",
      "etag": '"a"',
    },
    body: HTML,
  });
});

const VARY = [
  [undefined, "Sec-Fetch-Dest, Sec-Fetch-Mode"],
  ["Accept-Encoding", "Accept-Encoding, Sec-Fetch-Dest, Sec-Fetch-Mode"],
  ["accept, SEC-FETCH-DEST", "accept, SEC-FETCH-DEST, Sec-Fetch-Mode"],
  ["sec-fetch-mode,Sec-Fetch-Dest", "sec-fetch-mode,Sec-Fetch-Dest"],
  ["*", "*"],
] as const;

for (const [original, expected] of VARY) {
  Deno.test(`injectPage() varies a page and a fragment by ${expected} if the upstream varies them by ${original}`, async () => {
    for (const requestHeaders of [{}, FRAGMENT_REQUEST]) {
      const vary = original && { vary: original };
      const { headers } = await inject({
        headers: { ...vary },
        requestHeaders,
      });
      assertEquals(headers.vary, expected);
    }
  });
}

/** The last one is a navigation that a service worker passes on. */
const PAGE_REQUESTS: Record<string, string>[] = [
  {},
  { "sec-fetch-dest": "document" },
  { "sec-fetch-dest": "iframe" },
  { "sec-fetch-dest": "object" },
  { "sec-fetch-dest": "serviceworker" },
  { "sec-fetch-dest": "empty", "sec-fetch-mode": "navigate" },
];

for (const requestHeaders of PAGE_REQUESTS) {
  Deno.test(`injectPage() changes HTML for ${JSON.stringify(requestHeaders)}`, async () => {
    assertEquals((await inject({ requestHeaders })).body, INJECTED);
  });
}

Deno.test("injectPage() does not change the body and the validators of a fragment that a script requests", async () => {
  const headers = {
    "etag": '"a"',
    "last-modified": "Sun, 06 Nov 1994 08:49:37 GMT",
    "content-length": "39",
  };
  assertEquals(await inject({ headers, requestHeaders: FRAGMENT_REQUEST }), {
    status: 200,
    headers: {
      ...headers,
      "cache-control": "no-cache",
      "content-type": "text/html; charset=utf-8",
      "vary": "Sec-Fetch-Dest, Sec-Fetch-Mode",
    },
    body: HTML,
  });
});

Deno.test("injectPage() does not decode a fragment", async () => {
  const { headers, body } = await inject({
    headers: { "content-encoding": "gzip" },
    body: "encoded",
    requestHeaders: FRAGMENT_REQUEST,
  });
  assertEquals([body, headers["content-encoding"]], ["encoded", "gzip"]);
});

Deno.test("injectPage() never confirms a stored fragment as a page, nor a stored page as a fragment", async () => {
  const statusFor = async (stored: string, destination: string) => {
    const requestHeaders = {
      "if-none-match": stored,
      "sec-fetch-dest": destination,
    };
    return (await inject({ headers: { etag: '"a"' }, requestHeaders })).status;
  };
  assertEquals(await statusFor('"a"', "document"), 200);
  assertEquals(await statusFor(PAGE_ETAG, "empty"), 200);
  assertEquals(await statusFor(PAGE_ETAG, "document"), 304);
  assertEquals(await statusFor('"a"', "empty"), 304);
});

Deno.test("injectPage() sends Content-Location with a 304, and the Content Security Policy, which replaces that of the stored page", async () => {
  const kept = {
    "content-location": "/index.en.html",
    "content-security-policy": "script-src 'self'",
    "content-security-policy-report-only": "img-src a",
  };
  const { status, headers } = await inject({
    headers: { ...kept, "content-language": "en", etag: '"a"' },
    requestHeaders: { "if-none-match": PAGE_ETAG },
  });
  assertEquals([status, headers], [304, {
    ...kept,
    "cache-control": "no-cache",
    "etag": PAGE_ETAG,
    "vary": "Sec-Fetch-Dest, Sec-Fetch-Mode",
  }]);
});

Deno.test("injectPage() sets no ETag for a page with SENSITIVE values, or for one without a validator", async () => {
  const secret = await inject({ script: SECRET, headers: { etag: '"a"' } });
  const { headers } = await inject({});
  assertEquals([secret.headers.etag, headers.etag], [undefined, undefined]);
});

const CONDITIONS = [
  ['W/"rep-r1-%22a%22"', 304],
  ['"x", W/"rep-r1-%22a%22"', 304],
  ['"rep-r1-%22a%22"', 304],
  ["*", 304],
  ['W/"rep-r0-%22a%22"', 200],
  ['W/"rep-r1-%22b%22"', 200],
  ['"a"', 200],
] as const;

for (const [ifNoneMatch, expected] of CONDITIONS) {
  Deno.test(`injectPage() responds to If-None-Match: ${ifNoneMatch} with ${expected}`, async () => {
    const page = {
      headers: { etag: '"a"', "content-length": "39" },
      requestHeaders: { "if-none-match": ifNoneMatch },
    };
    const { status, headers, body } = await inject(page);
    const expectedBody = expected === 304 ? "" : INJECTED;
    assertEquals(
      [status, body, headers.etag],
      [expected, expectedBody, PAGE_ETAG],
    );
    assertEquals((await inject({ ...page, method: "POST" })).status, 200);
    assertEquals((await inject({ ...page, status: 404 })).status, 404);
  });
}

const PRECONDITIONS_AND_RANGE = ["if-none-match", "if-modified-since", "range"];
const REQUESTS = [
  ["a navigation", "GET", {
    accept: "text/html,application/xhtml+xml,*/*;q=0.8",
  }, PRECONDITIONS_AND_RANGE],
  ["a page from a cache", "GET", {
    accept: "*/*",
    "if-none-match": 'W/"rep-r1-x"',
  }, PRECONDITIONS_AND_RANGE],
  ["a fragment", "GET", {
    "accept": "text/html",
    "sec-fetch-dest": "empty",
    "if-none-match": '"x"',
  }, []],
  ["a script", "GET", { accept: "*/*", "if-none-match": '"x"' }, []],
  ["an upload", "POST", { accept: "text/html" }, []],
] as const;

for (const [kind, method, headers, omitted] of REQUESTS) {
  Deno.test(`headersToOmit() returns ${omitted.length === 0 ? "nothing" : "preconditions and the range"} for ${kind}`, () => {
    assertEquals(
      [...headersToOmit({ method, headers: new Headers(headers) })],
      omitted,
    );
  });
}
