import { assertEquals } from "@std/assert";
import { eTag } from "@std/http/etag";
import { brotliDecompressSync, gunzipSync } from "node:zlib";
import { Compressor } from "../../../src/content/coding/representations.ts";
import { send } from "../../../src/core/http/send.ts";
import type { ConfigScript } from "../../../src/core/pages/config_script.ts";
import { silentLog } from "../../../src/core/observe/log.ts";
import { HtmlFile } from "../../../src/content/static/html_file.ts";
import { isFragmentRequest } from "../../../src/core/pages/page.ts";
import { injectPage } from "../../../src/core/pages/page.ts";
import { settle } from "../../../tools/fake_clock.ts";
import { answerOf } from "../../_answer.ts";
import { allCompressed } from "../_compressed.ts";

Deno.test.sanitizer({ ops: true, resources: true }); // off by default since Deno 2.8

const HTML = `<!doctype html><head><title>x</title></head><body>${
  "<p>text</p>".repeat(200)
}</body>`;
const SMALL = "<!doctype html><head></head><body>é</body>";
const SCRIPT: ConfigScript = {
  bytes: new TextEncoder().encode("<SCRIPT>"),
  etagPart: "r1",
  isSecret: false,
};
const SECRET: ConfigScript = { ...SCRIPT, isSecret: true };

/** The headers of the file as it is. */
const HEADERS = {
  "cache-control": "no-cache",
  "content-type": "text/html; charset=UTF-8",
  "etag": '"a"',
  "x-content-type-options": "nosniff",
};

/** A served file. */
function setUp(html: string | Uint8Array<ArrayBuffer>) {
  const compressor = new Compressor();
  const bytes = typeof html === "string"
    ? new TextEncoder().encode(html)
    : html;
  const file = new HtmlFile({
    body: bytes,
    headers: new Headers(HEADERS),
    compressor,
    sharesBytes: false,
    log: silentLog,
  });
  return {
    bytes,
    file,
    get(
      headers: HeadersInit = {},
      script: ConfigScript = SCRIPT,
      method = "GET",
    ) {
      const request = new Request("http://app.example/", { method, headers });
      const representations = file.represent(
        isFragmentRequest(request.headers) ? undefined : script,
      );
      return send(request, representations.select(request.headers));
    },
    async compressed() {
      await allCompressed(compressor);
      await settle();
    },
  };
}

const REQUESTS: HeadersInit[] = [
  {},
  { "if-none-match": 'W/"rep-r1-%22a%22"' },
  { "if-none-match": '"x", *' },
  { "if-none-match": "*" },
  { "if-none-match": '"a"' },
  {
    "if-modified-since": "Fri, 01 Jan 2100 00:00:00 GMT",
    "range": "bytes=0-1",
    "if-match": '"x"',
  },
  { "sec-fetch-dest": "document" },
  { "sec-fetch-dest": "empty" },
  { "sec-fetch-dest": "empty", "sec-fetch-mode": "navigate" },
  { "sec-fetch-dest": "empty", "if-none-match": '"a"' },
  { "sec-fetch-dest": "empty", "if-none-match": 'W/"rep-r1-%22a%22"' },
];

for (
  const [name, script] of [["PUBLIC", SCRIPT], ["SENSITIVE", SECRET]] as const
) {
  for (const headers of REQUESTS) {
    Deno.test(`HtmlFile responds with ${name} values to ${JSON.stringify(headers)} as injectPage() does, with a length`, async () => {
      for (const method of ["GET", "HEAD"]) {
        const { bytes: file, get } = setUp(SMALL);
        const original = new Response(file, { headers: HEADERS });
        const expected = await answerOf(
          await injectPage(
            original,
            { method, headers: new Headers(headers) },
            () => Promise.resolve(script),
          ),
        );
        const { headers: { "content-length": length, ...others }, ...rest } =
          await answerOf(
            await get(headers, script, method),
          );
        const { "content-length": _, ...expectedOthers } = expected.headers;
        assertEquals({ ...rest, headers: others }, {
          ...expected,
          headers: expectedOthers,
        });
        const isFragment = isFragmentRequest(new Headers(headers));
        const bytes = file.length + (isFragment ? 0 : script.bytes.length);
        assertEquals(length, rest.status === 304 ? undefined : `${bytes}`);
      }
    });
  }
}

Deno.test("HtmlFile makes a page for each config script", async () => {
  const { get } = setUp(SMALL);
  for (let i = 0; i < 3; i++) {
    assertEquals(
      await (await get()).text(),
      SMALL.replace("</head>", "<SCRIPT></head>"),
    );
  }
  const other = {
    ...SCRIPT,
    bytes: new TextEncoder().encode("<OTHER SCRIPT>"),
    etagPart: "r2",
  };
  const response = await get({}, other);
  assertEquals(response.headers.get("etag"), 'W/"rep-r2-%22a%22"');
  assertEquals(
    await response.text(),
    SMALL.replace("</head>", "<OTHER SCRIPT></head>"),
  );
});

Deno.test("HtmlFile.maxBytes counts the file, the fragment and the page, each of them compressed, and the script once it is known", () => {
  const { bytes, file } = setUp(HTML);
  assertEquals(file.maxBytes, 7 * bytes.length);
  file.represent(SCRIPT);
  assertEquals(file.maxBytes, 7 * bytes.length + 3 * SCRIPT.bytes.length);
});

for (
  const [coding, decompress] of [["br", brotliDecompressSync], [
    "gzip",
    gunzipSync,
  ]] as const
) {
  Deno.test(`HtmlFile compresses a page with ${coding} once for each config script`, async () => {
    const { get, compressed } = setUp(HTML);
    const accept = { "accept-encoding": coding };
    const read = async (script: ConfigScript) => {
      const { headers, body } = await get(accept, script);
      const bytes = await new Response(body).bytes();
      const isPlain = headers.get("content-encoding") === null;
      const text = new TextDecoder().decode(
        isPlain ? bytes : decompress(bytes),
      );
      return [
        headers.get("content-encoding"),
        headers.get("etag"),
        headers.get("vary"),
        text,
      ] as const;
    };
    const page = HTML.replace("</head>", "<SCRIPT></head>");
    const vary = "Accept-Encoding, Sec-Fetch-Dest, Sec-Fetch-Mode";
    const etag = 'W/"rep-r1-%22a%22"';
    assertEquals(await read(SCRIPT), [null, etag, vary, page]);
    await compressed();
    assertEquals(await read(SCRIPT), [
      coding,
      `W/"rep-r1-%22a%22-${coding}"`,
      vary,
      page,
    ]);
    assertEquals(
      (await get({
        ...accept,
        "if-none-match": `W/"rep-r1-%22a%22-${coding}"`,
      })).status,
      304,
    );
    assertEquals(
      (await get({ "if-none-match": `W/"rep-r1-%22a%22-${coding}"` })).status,
      200,
    );
    const next = { ...SCRIPT, etagPart: "r2" };
    assertEquals(await read(next), [null, 'W/"rep-r2-%22a%22"', vary, page]);
    await compressed();
    assertEquals((await read(next))[0], coding);
  });
}

Deno.test("HtmlFile compresses a page with SENSITIVE values, which still has no ETag and must not be stored", async () => {
  const { get, compressed } = setUp(HTML);
  await (await get({ "accept-encoding": "br" }, SECRET)).body?.cancel();
  await compressed();
  const { headers, body } = await get({ "accept-encoding": "br" }, SECRET);
  await body?.cancel();
  const { "content-encoding": coding, etag, "cache-control": caching } = Object
    .fromEntries(headers);
  assertEquals([coding, etag, caching], ["br", undefined, "no-store"]);
});

Deno.test("HtmlFile compresses a fragment, with the strong entity tag of the compressed bytes", async () => {
  const { get, compressed } = setUp(HTML);
  const request = { "accept-encoding": "br", "sec-fetch-dest": "empty" };
  assertEquals(await (await get(request)).text(), HTML);
  await compressed();
  const response = await get(request);
  const { headers } = response;
  const bytes = await response.bytes();
  assertEquals(new TextDecoder().decode(brotliDecompressSync(bytes)), HTML);
  assertEquals(headers.get("etag"), `${(await eTag(bytes))?.slice(0, -1)}-br"`);
  assertEquals(
    (await get({ ...request, "if-none-match": headers.get("etag") ?? "" }))
      .status,
    304,
  );
});
