import { assert, assertEquals } from "@std/assert";
import { brotliCompressSync, gzipSync } from "node:zlib";
import { setUp, type TestGateway } from "./_gateway.ts";
import { serveLocally } from "./_serve.ts";
import { TempDirectory } from "./_temp.ts";

const HTML = "<!doctype html><html><head></head><body>é</body></html>";
const VARIABLES = { REP_PUBLIC_A: "1", REP_SENSITIVE_B: "2" };

type Bytes = Uint8Array<ArrayBuffer>;

/** What is sent: the content and its headers. */
type Sent = [bytes: Bytes, headers: Record<string, string>];

/** Returns a text in UTF-16 or UTF-32. */
function encode(text: string, bits: 16 | 32, isLittle: boolean): Bytes {
  const size = bits / 8;
  const view = new DataView(new ArrayBuffer(text.length * size));
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (bits === 16) view.setUint16(i * size, code, isLittle);
    else view.setUint32(i * size, code, isLittle);
  }
  return new Uint8Array(view.buffer);
}

/** A page in each form of UTF-16 and UTF-32. */
function encodings(text: string): Bytes[] {
  return ([16, 32] as const).flatMap((bits) =>
    [true, false].map((isLittle) => encode(text, bits, isLittle))
  );
}

const MARKED = encodings(`\uFEFF${HTML}`);
const [LITTLE, BIG] = encodings(HTML) as [Bytes, Bytes];

/** Values of `Content-Type` that say that a page is in UTF-16 or UTF-32. */
const TYPES = [
  "text/html; charset=utf-16",
  "text/html;charset=UTF-16LE",
  'text/html; charset="utf-16"',
  "Text/HTML; Charset = 'utf-16le'; a=b",
  "text/html; charset=unicode",
  "text/html; charset=unicodeFEFF",
  "text/html; charset=csunicode",
  "text/html; charset=ucs-2",
  "text/html; charset=ISO-10646-UCS-2",
  "text/plain, text/html; charset=utf-16",
];

/** Values of `Content-Disposition` with which browsers save what they get. */
const DOWNLOADS = [
  "attachment",
  "ATTACHMENT",
  " attachment ",
  'attachment; filename="report.html"',
  "Attachment;filename*=UTF-8''report.html",
  "attachment , inline",
  "attachment filename=report.html",
  "unknown; filename=a.html",
];

/** What is shown as a page. */
const SHOWN: Record<string, string>[] = [
  { "content-disposition": "inline" },
  { "content-disposition": 'Inline; filename="attachment"' },
  { "content-disposition": "" },
  { "content-disposition": 'filename="attachment.html"' },
  { "content-type": "text/html; charset=unicode-1-1-utf-8" },
  { "content-type": "text/html; charset=unicode11utf8" },
  { "content-type": "text/html; charset=utf-16, text/html; charset=utf-8" },
  { "content-type": "text/html; name=utf-16" },
  { "content-type": "text/html; charset=utf-32" }, // browsers do not know it
];

const PAGE = { "content-type": "text/html", "etag": '"1"' };

/** Starts a gateway in front of an upstream that sends what a test says, in parts of a size. */
async function inFrontOf(
  sent: () => Sent,
  use: (gate: TestGateway) => Promise<void>,
  partSize = Infinity,
): Promise<void> {
  await using upstream = serveLocally(() => {
    const [bytes, headers] = sent();
    return new Response(
      partSize < bytes.length ? inParts(bytes, partSize) : bytes,
      {
        headers,
      },
    );
  });
  await using gate = await setUp(VARIABLES, { upstream: upstream.url });
  await use(gate);
}

function inParts(bytes: Bytes, size: number): ReadableStream<Bytes> {
  async function* parts() {
    for (let start = 0; start < bytes.length; start += size) {
      await new Promise(setImmediate);
      yield bytes.subarray(start, start + size);
    }
  }
  return ReadableStream.from(parts());
}

Deno.test("a download is delivered as it is, from an upstream and by inject()", async () => {
  let disposition = "";
  const headers = () => ({ ...PAGE, "content-disposition": disposition });
  const text = new TextEncoder().encode(HTML);
  await inFrontOf(() => [text, headers()], async (gate) => {
    for (disposition of DOWNLOADS) {
      const responses = [
        await gate.ask("/a"),
        await gate.gateway.inject(new Response(text, { headers: headers() })),
      ];
      for (const response of responses) {
        assertEquals(await response.text(), HTML, disposition);
        assertEquals(response.headers.get("etag"), '"1"');
        assertEquals(response.headers.get("cache-control"), null);
      }
    }
    assertEquals(gate.logged("rep.page.not_injected"), []);
  });
});

Deno.test("a page is a page with any other header", async () => {
  for (const headers of SHOWN) {
    await inFrontOf(
      () => [new TextEncoder().encode(HTML), { ...PAGE, ...headers }],
      async (gate) => {
        const text = await (await gate.ask("/")).text();
        assert(text.includes("__rep__"), JSON.stringify(headers));
      },
    );
  }
});

Deno.test("a page in UTF-16 by its type is delivered as it is, also compressed, with one warning", async () => {
  let sent: Sent = [LITTLE, {}];
  await inFrontOf(() => sent, async (gate) => {
    for (const type of TYPES) {
      for (const bytes of [LITTLE, BIG]) {
        const headers = { ...PAGE, "content-type": type };
        sent = [bytes, headers];
        const page = await gate.ask("/");
        assertEquals(await page.bytes(), bytes, type);
        assertEquals(page.headers.get("content-type"), type);
        assertEquals(page.headers.get("etag"), '"1"');
        const coded = new Uint8Array(gzipSync(bytes));
        sent = [coded, { ...headers, "content-encoding": "gzip" }];
        const accept = { headers: { "accept-encoding": "gzip" } };
        assertEquals(await (await gate.ask("/", accept)).bytes(), coded, type);
      }
    }
    assertEquals(gate.logged("rep.page.not_injected").length, 1);
  });
});

Deno.test("a page with a byte order mark of UTF-16 is delivered as it is, also in parts, with one warning", async () => {
  for (const size of [1, 2, 3, Infinity]) {
    let sent: Sent = [LITTLE, {}];
    await inFrontOf(() => sent, async (gate) => {
      for (const bytes of MARKED) {
        for (const type of ["text/html", "text/html; charset=utf-8"]) {
          sent = [bytes, { "content-type": type }];
          const page = await gate.ask("/");
          assertEquals(await page.bytes(), bytes);
          assertEquals(page.headers.get("content-type"), type);
        }
      }
      assertEquals(gate.logged("rep.page.not_injected").length, 1);
    }, size);
  }
});

Deno.test("a compressed page with a byte order mark of UTF-16 has the same content", async () => {
  let sent: Sent = [LITTLE, {}];
  await inFrontOf(() => sent, async (gate) => {
    for (const bytes of MARKED) {
      for (
        const [coding, coded] of [
          ["gzip", gzipSync(bytes)],
          ["br", brotliCompressSync(bytes)],
        ] as const
      ) {
        const headers = { ...PAGE, "content-encoding": coding };
        sent = [new Uint8Array(coded), headers];
        const page = await gate.ask("/", {
          headers: { "accept-encoding": coding },
        });
        assertEquals(page.headers.get("content-encoding"), coding);
        const decoded = coding === "gzip" ? "gunzip" : "brotli";
        assertEquals(await decode(await page.bytes(), decoded), bytes);
      }
    }
    assertEquals(gate.logged("rep.page.not_injected").length, 1);
  });
});

async function decode(
  bytes: Bytes,
  how: "gunzip" | "brotli",
): Promise<Uint8Array> {
  const { brotliDecompressSync, gunzipSync } = await import("node:zlib");
  const decoder = how === "gunzip" ? gunzipSync : brotliDecompressSync;
  return new Uint8Array(decoder(bytes));
}

Deno.test("inject() leaves a page in UTF-16 as it is, with one warning", async () => {
  await using gate = await setUp(VARIABLES);
  const inject = async (bytes: Bytes, type: string) => {
    const response = new Response(bytes, { headers: { "content-type": type } });
    return await (await gate.gateway.inject(response)).bytes();
  };
  for (const type of TYPES) assertEquals(await inject(LITTLE, type), LITTLE);
  for (const bytes of MARKED) {
    assertEquals(await inject(bytes, "text/html"), bytes);
  }
  assertEquals(gate.logged("rep.page.not_injected").length, 1);
});

Deno.test("a file in UTF-16 is served as it is, of any size, with one warning", async () => {
  const large = encodings(`\uFEFF${HTML}${" ".repeat(700_000)}`);
  const files = [...MARKED, large[0]!];
  await using directory = await TempDirectory.make({ "index.html": HTML });
  for (const [i, bytes] of files.entries()) {
    await Deno.writeFile(directory.at(`${i}.html`), bytes);
  }
  await using gate = await setUp(VARIABLES, { staticDir: directory.path });
  for (const value of ["1", "2"]) {
    await gate.set({ REP_PUBLIC_A: value });
    for (const [i, bytes] of files.entries()) {
      const page = await gate.ask(`/${i}.html`);
      assertEquals(await page.bytes(), bytes, `${i}`);
    }
  }
  assert((await (await gate.ask("/")).text()).includes("__rep__"));
  assertEquals(gate.logged("rep.page.not_injected").length, 1);
});
