import { toUtf8 } from "../../../src/core/values/utf8.ts";
import { assertEquals, assertStrictEquals } from "@std/assert";
import { createGateway } from "../../../src/gateway.ts";
import {
  type ByteRange,
  headResponse,
  ifNoneMatchFails,
  isRangeCurrent,
  parseByteRange,
  send,
} from "../../../src/core/http/send.ts";
import { TempDirectory } from "../../_temp.ts";
import { CLIENT_JS } from "../../../src/client/bundle.ts";

const AT = "Sun, 06 Nov 1994 08:49:37 GMT";
const BEFORE = "Sun, 06 Nov 1994 08:49:36 GMT";
const AFTER = "Sun, 06 Nov 1994 08:49:38 GMT";

const ETAG = '"now"';

type Case = [headers: Record<string, string>, status: 200 | 304];

const CASES: Case[] = [
  [{}, 200],
  [{ "if-none-match": '"now"' }, 304],
  [{ "if-none-match": '"old"' }, 200],
  [{ "if-none-match": "" }, 200],
  [{ "if-modified-since": AT }, 200], // the same date may be that of another version
  [{ "if-modified-since": AFTER }, 200],
  [{ "if-modified-since": BEFORE }, 200],
  [{ "if-modified-since": "undefined" }, 200],
  [{ "if-none-match": '"old"', "if-modified-since": AT }, 200], // §13.1.3: If-Modified-Since is ignored
  [{ "if-none-match": '"now"', "if-modified-since": BEFORE }, 304],
  [{ "if-match": '"old"' }, 200],
  [{ "if-unmodified-since": BEFORE }, 200],
  [{ "if-match": '"old"', "if-none-match": '"now"' }, 304],
];

async function statusFor(
  headers: Record<string, string>,
  etag: string | undefined,
): Promise<number> {
  const response = await send(
    { method: "GET", headers: new Headers(headers) },
    { isHtml: false, headers: {}, etag, body: toUtf8("0123456789") },
  );
  await response.body?.cancel();
  return response.status;
}

for (const [headers, status] of CASES) {
  Deno.test(`send() responds with ${status} to ${JSON.stringify(headers)}`, async () => {
    assertEquals(await statusFor(headers, ETAG), status);
  });
}

Deno.test("send() never responds with 304 for what has no entity tag", async () => {
  for (const value of ['"now"', "undefined", "*"]) {
    assertEquals(await statusFor({ "if-none-match": value }, undefined), 200);
  }
  for (const value of [AT, "undefined"]) {
    assertEquals(
      await statusFor({ "if-modified-since": value }, undefined),
      200,
    );
  }
});

Deno.test("send() sends no part for a precondition that it does not evaluate, lest parts of two versions are combined", async () => {
  const range = { "range": "bytes=2-4" };
  assertEquals(await statusFor(range, ETAG), 206);
  for (const name of ["if-match", "if-unmodified-since"]) {
    const headers = { ...range, [name]: "x" };
    assertEquals(await statusFor(headers, ETAG), 200, name);
  }
});

Deno.test("ifNoneMatchFails() parses a list with 240 KB of spaces in linear time", () => {
  const before = performance.now();
  const headers = new Headers({ "if-none-match": `a${" ".repeat(240_000)}b` });
  assertEquals(ifNoneMatchFails(headers, '"now"'), false);
  assertEquals(performance.now() - before < 15_000, true); // a quadratic parser takes 50 s, and the machine may be busy
});

const IF_NONE_MATCH: [
  header: string | undefined,
  etag: string,
  fails: boolean,
][] = [
  [undefined, '"now"', false],
  ['"now"', '"now"', true],
  ['W/"now"', '"now"', true],
  ['"now"', 'W/"now"', true],
  ['W/"now"', 'W/"now"', true],
  ['"old", W/"now"', 'W/"now"', true],
  ['"old"', 'W/"now"', false],
  ["*", 'W/"now"', true],
  [" * ", 'W/"now"', true],
  ['"old" ,W/"older",  "now"', '"now"', true],
  ['"NOW"', '"now"', false],
  ["now", '"now"', false],
  ["", '"now"', false],
];

for (const [header, etag, fails] of IF_NONE_MATCH) {
  Deno.test(`ifNoneMatchFails() returns ${fails} for ${header} when the entity tag is ${etag}`, () => {
    const headers = new Headers(
      header === undefined ? {} : { "if-none-match": header },
    );
    assertEquals(ifNoneMatchFails(headers, etag), fails);
  });
}

const IF_RANGE: [value: string, holds: boolean][] = [
  ['"now"', true],
  ['"old"', false],
  ['W/"now"', false], // §13.1.5: strong comparison
  ['"old", "now"', false],
  ["*", false],
  [AT, false], // a date is no strong validator
  [BEFORE, false],
  [AFTER, false],
  ["undefined", false],
];

for (const [value, holds] of IF_RANGE) {
  Deno.test(`isRangeCurrent() returns ${holds} for ${value}`, () => {
    assertEquals(
      isRangeCurrent(new Headers({ "if-range": value }), ETAG),
      holds,
    );
  });
}

Deno.test("isRangeCurrent() holds without a condition, and no condition holds without an entity tag", () => {
  const condition = new Headers({ "if-range": '"now"' });
  assertEquals([
    isRangeCurrent(new Headers(), ETAG),
    isRangeCurrent(new Headers(), undefined),
    isRangeCurrent(condition, undefined),
  ], [true, true, false]);
});

/** Ranges of 100 bytes. */
const RANGES: Record<string, ByteRange | "unsatisfiable"> = {
  "bytes=0-0": { start: 0, end: 1 },
  "bytes=0-99": { start: 0, end: 100 },
  "bytes=10-19": { start: 10, end: 20 },
  "bytes=90-": { start: 90, end: 100 },
  "bytes=90-1000": { start: 90, end: 100 },
  "bytes=90-99999999999999999999999999": { start: 90, end: 100 },
  "bytes=-10": { start: 90, end: 100 },
  "bytes=-1000": { start: 0, end: 100 },
  "BYTES=007-8": { start: 7, end: 9 },
  "bytes=100-": "unsatisfiable",
  "bytes=100-200": "unsatisfiable",
  "bytes=-0": "unsatisfiable",
  "bytes=99999999999999999999999999-": "unsatisfiable",
};

for (const [header, range] of Object.entries(RANGES)) {
  Deno.test(`parseByteRange() parses ${header}`, () => {
    assertEquals(parseByteRange(header, 100), range);
  });
}

Deno.test("parseByteRange() finds no range of an empty file that can be satisfied", () => {
  for (const header of ["bytes=0-", "bytes=-1"]) {
    assertEquals(parseByteRange(header, 0), "unsatisfiable");
  }
});

const IGNORED =
  "bytes bytes= bytes=- bytes=a-b bytes=5-4 bytes=0-1,3-4 bytes=0-1, bytes=--1 bytes=1.5-2 bytes=0x1-2 bytes=+1-2 items=0-1 0-1 bytes=0-1-2 bytes=٣-٤";

for (const header of ["", "bytes= 0-1", ...IGNORED.split(" ")]) {
  Deno.test(`parseByteRange() ignores "${header}"`, () => {
    assertEquals(parseByteRange(header, 100), undefined);
  });
}

Deno.test("headResponse() replaces a missing body, and keeps status and headers", async () => {
  const original = new Response(null, {
    status: 404,
    statusText: "Gone fishing",
    headers: { "x-own": "1" },
  });
  const { status, statusText, headers, body } = headResponse(original);
  assertEquals([status, statusText, [...headers]], [404, "Gone fishing", [[
    "x-own",
    "1",
  ]]]);
  assertEquals(await new Response(body).text(), "");
  assertEquals(body instanceof ReadableStream, true);
});

Deno.test("headResponse() returns other responses unchanged", async () => {
  const withLength = new Response(null, {
    headers: { "content-length": "39" },
  });
  const notModified = new Response(null, { status: 304 });
  const withBody = new Response("x");
  for (const response of [withLength, notModified, withBody]) {
    assertStrictEquals(headResponse(response), response);
  }
  await withBody.body?.cancel();
});

/** Returns the header lines of a response; `fetch()` does not show the length of one to HEAD. */
async function headersOf(
  port: number,
  method: string,
  path: string,
): Promise<string[]> {
  using connection = await Deno.connect({ hostname: "127.0.0.1", port });
  const request =
    `${method} ${path} HTTP/1.1\r\nHost: gateway.test\r\nConnection: close\r\n\r\n`;
  await connection.write(new TextEncoder().encode(request));
  const chunks = await Array.fromAsync(
    connection.readable.values({ preventCancel: true }),
  );
  const [head = ""] = (await new Blob(chunks).text()).split("\r\n\r\n");
  return head.split("\r\n");
}

/** A server behind the gateway that sends pages and data in chunks, so that their length is unknown. */
function startUpstream() {
  const handler = ({ method, url }: Request) => {
    const body = method === "HEAD"
      ? ReadableStream.from([])
      : ReadableStream.from([new Uint8Array(3)]);
    return new Response(body, {
      headers: {
        "content-type": url.endsWith("/data") ? "text/plain" : "text/html",
      },
    });
  };
  return Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, handler);
}

async function lengthsOf(
  port: number,
  paths: readonly string[],
): Promise<(string | undefined)[]> {
  const heads = await Promise.all(
    paths.map((path) => headersOf(port, "HEAD", path)),
  );
  return heads.map((lines) =>
    lines.find((line) => /^content-length:/i.test(line))
  );
}

Deno.test("the response to HEAD has the length of the response to GET, or none", async () => {
  await using directory = await TempDirectory.make({
    "index.html": "<head></head>",
    "app.js": "12345",
  });
  await using upstream = startUpstream();
  const variables = { REP_PUBLIC_A: "1" };
  await using files = await createGateway({
    variables,
    staticDir: directory.path,
  });
  await using proxy = await createGateway({
    variables,
    upstream: `http://127.0.0.1:${upstream.addr.port}`,
  });
  const options = { hostname: "127.0.0.1", port: 0, onListen() {} };
  await using fileServer = Deno.serve(options, files.fetch);
  await using proxyServer = Deno.serve(options, proxy.fetch);
  const paths = [
    "/",
    "/index.html",
    "/app.js",
    "/rep/health",
    "/rep/client.js",
  ];
  const ofFiles = await lengthsOf(fileServer.addr.port, paths);
  const page = await files.fetch(new Request("http://gateway.test/"));
  const ofPage = `content-length: ${(await page.bytes()).length}`;
  assertEquals(ofFiles, [
    ofPage,
    ofPage,
    "content-length: 5",
    undefined,
    `content-length: ${CLIENT_JS.length}`,
  ]);
  assertEquals(await lengthsOf(proxyServer.addr.port, ["/", "/data"]), [
    undefined,
    undefined,
  ]);
});

Deno.test("isRangeCurrent() holds for no weak entity tag, not even the same", () => {
  const headers = new Headers({ "if-range": 'W/"now"' });
  assertEquals(isRangeCurrent(headers, 'W/"now"'), false);
});
