import type { Body as SentBody } from "../../../src/core/http/send.ts";
import type { SharedBody } from "../../../src/core/http/shared_body.ts";
import { assert, assertEquals } from "@std/assert";
import { brotliDecompressSync, gunzipSync } from "node:zlib";
import { contentCodings, isEncoded } from "../../../src/core/http/headers.ts";
import {
  CODINGS,
  Compressor,
  type CompressorCoding,
  isCompressible,
  preferredCoding,
  type RepresentationCoding,
  Representations,
} from "../../../src/content/coding/representations.ts";
import { settle } from "../../../tools/fake_clock.ts";
import { allCompressed } from "../_compressed.ts";

Deno.test.sanitizer({ ops: true, resources: true }); // off by default since Deno 2.8

for (
  const [header, codings] of [
    ["", []],
    ["identity", []],
    ["GZip", ["gzip"]],
    ["gzip, identity, br", ["gzip", "br"]],
  ] as const
) {
  Deno.test(`contentCodings() and isEncoded() ignore identity and capitals in "${header}"`, () => {
    const headers = new Headers({ "content-encoding": header });
    assertEquals(contentCodings(headers), [...codings]);
    assertEquals(isEncoded(headers), codings.length > 0);
  });
}

const TYPES: Record<string, boolean> = {
  "text/html; charset=UTF-8": true,
  "text/css": true,
  "TEXT/JavaScript; charset=UTF-8": true,
  "application/json; charset=UTF-8": true,
  "application/manifest+json": true,
  "application/wasm": true,
  "image/svg+xml": true,
  "image/x-icon": true,
  "font/ttf": true,
  "font/woff2": false,
  "image/png": false,
  "video/mp4": false,
  "application/pdf": false,
  "application/zip": false,
  "application/octet-stream": false,
  "": false,
};

for (const [type, expected] of Object.entries(TYPES)) {
  Deno.test(`isCompressible() returns ${expected} for "${type}"`, () =>
    assertEquals(isCompressible(type, 1_024), expected));
}

Deno.test("isCompressible() returns false for content that fits into a packet", () => {
  assertEquals(isCompressible("text/css", 1_023), false);
});

const NAMES = CODINGS.map(({ name }) => name);

const ACCEPTED: [accepted: string | null, name: string | undefined][] = [
  ["gzip, deflate, br, zstd", "br"],
  ["gzip, deflate, zstd", "zstd"],
  ["gzip, deflate", "gzip"],
  ["br", "br"],
  ["BR", "br"],
  ["*", "br"],
  ["*, br;q=0", "zstd"],
  ["gzip;q=0.5, br;q=0.5", "br"],
  ["gzip;q=1, br;q=0.5", "gzip"],
  ["gzip;q=1.000, br ; q=0.999", "gzip"],
  ["br;q=0, gzip", "gzip"],
  ["br;q=0, gzip;q=0", undefined],
  ["br;q=0", undefined],
  ["br;q=high, gzip;q=0.001", "gzip"],
  ["br;q=-1", undefined],
  ["*;q=0", undefined],
  ["identity", undefined],
  ["identity;q=1, *;q=0", undefined], // sent by Chromium with a range of a video
  ["identity, br;q=0.1", undefined],
  ["identity;q=0.5, br;q=0.5", "br"],
  ["identity;q=0", undefined],
  ["deflate", undefined],
  ["brx, gzipx", undefined],
  ["", undefined],
  [null, undefined],
];

for (const [accepted, name] of ACCEPTED) {
  Deno.test(`preferredCoding() selects ${name ?? "none"} of ${NAMES} for "${accepted}"`, () => {
    assertEquals(preferredCoding(accepted, NAMES), name);
  });
}

Deno.test("preferredCoding() selects only an available coding", () => {
  assertEquals(preferredCoding("gzip, br", ["gzip"]), "gzip");
  assertEquals(preferredCoding("gzip, br", []), undefined);
});

const TEXT = new TextEncoder().encode(
  Array.from({ length: 20_000 }, (_, i) => `const value${i} = ${i * 7919};\n`)
    .join(""),
);

const DECODERS = { br: brotliDecompressSync, gzip: gunzipSync };

for (const coding of ["br", "gzip"] as const) {
  Deno.test(`Compressor compresses with ${coding}`, async () => {
    const compressed = await new Compressor().compress(TEXT, coding);
    const bytes = compressed ?? new Uint8Array();
    assert(bytes.length > 0 && bytes.length < TEXT.length / 2);
    assertEquals(new Uint8Array(DECODERS[coding](bytes)), TEXT);
  });
}

Deno.test("Compressor returns nothing if the result is not smaller", async () => {
  const random = crypto.getRandomValues(new Uint8Array(40_000));
  const compressor = new Compressor();
  assertEquals(await compressor.compress(random, "br"), undefined);
  assertEquals(await compressor.compress(new Uint8Array(), "gzip"), undefined);
});

Deno.test("Compressor lets other work run while it compresses", async () => {
  let turns = 0;
  const timer = setInterval(() => turns++, 0);
  await new Compressor().compress(TEXT, "br");
  clearInterval(timer);
  assert(turns >= 10, `expected at least 10 other turns, got ${turns}`);
});

Deno.test("Compressor compresses one after the other", async () => {
  const compressor = new Compressor();
  const order: string[] = [];
  const long = compressor.compress(TEXT, "br");
  const short = compressor.compress(TEXT.subarray(0, 2_000), "br");
  void long.then(() => order.push("first"));
  void short.then(() => order.push("second"));
  await allCompressed(compressor);
  assertEquals(order, ["first", "second"]);
});

Deno.test("Compressor ends when it is closed", async () => {
  const compressor = new Compressor();
  const results = [
    compressor.compress(TEXT, "br"),
    compressor.compress(TEXT, "gzip"),
  ];
  compressor.close();
  assertEquals(await Promise.all(results), [undefined, undefined]);
});

/** Lets a compressor have as much to do as it may. */
function makeBusy(compressor: Compressor) {
  for (let i = 0; i < 32; i++) {
    assertEquals(compressor.isBusy, false);
    void compressor.compress(TEXT.subarray(0, 100), "gzip");
  }
}

Deno.test("Compressor is busy if 32 results are waited for", async () => {
  const compressor = new Compressor();
  makeBusy(compressor);
  assertEquals(compressor.isBusy, true);
  await allCompressed(compressor);
  assertEquals(compressor.isBusy, false);
});

/** A compressor that remembers what it was asked for. */
class AskedCompressor extends Compressor {
  readonly asked: CompressorCoding[] = [];

  override compress(...args: Parameters<Compressor["compress"]>) {
    this.asked.push(args[1]);
    return super.compress(...args);
  }
}

function resourceOf(
  compressor?: Compressor,
  type = "text/plain",
  sharesBytes = false,
) {
  const headers = { "content-type": type };
  return { isHtml: false, headers, sharesBytes, compressor };
}

function contentOf(coding: RepresentationCoding, length: number) {
  const body = new Uint8Array(length).fill(0xff);
  return { coding, body, etag: `"${coding}"` };
}

const ORIGINAL = contentOf("identity", 2_000);
const VARIANTS = [contentOf("br", 3), contentOf("gzip", 4)];

/** Returns the coding of what is selected, once everything that was asked for is compressed. */
async function select(
  representations: Representations,
  accepted: string,
  compressor?: Compressor,
) {
  const headers = new Headers({ "accept-encoding": accepted });
  const selected = representations.select(headers);
  if (compressor !== undefined) await allCompressed(compressor);
  await settle();
  return new Headers(selected.headers).get("content-encoding") ?? "identity";
}

Deno.test("Representations.select() selects for each Accept-Encoding header, in any order", async () => {
  const representations = new Representations(
    resourceOf(),
    ORIGINAL,
    VARIANTS,
  );
  const cases = [
    ["br", "br"],
    ["gzip", "gzip"],
    ["", "identity"],
    ["br;q=0", "identity"],
    ["gzip, br", "br"],
  ] as const;
  for (const [accepted, coding] of [...cases, ...cases.toReversed()]) {
    assertEquals(await select(representations, accepted), coding);
  }
});

Deno.test("Representations.maxBytes counts what is there, and what may be made of it", () => {
  const text = resourceOf(new Compressor());
  const image = resourceOf(new Compressor(), "image/png");
  const body = {
    length: 2_000_000,
    read: () => Promise.resolve(null),
    cancel() {},
  };
  const streamed = { ...ORIGINAL, body };
  assertEquals(new Representations(resourceOf(), ORIGINAL).maxBytes, 2_000);
  assertEquals(new Representations(text, ORIGINAL, VARIANTS).maxBytes, 2_007);
  assertEquals(new Representations(text, ORIGINAL).maxBytes, 6_000);
  assertEquals(new Representations(image, ORIGINAL).maxBytes, 2_000);
  assertEquals(new Representations(text, streamed, VARIANTS).maxBytes, 7);
});

Deno.test("Representations compresses once for each coding that is asked for", async () => {
  const compressor = new AskedCompressor();
  const representations = new Representations(
    resourceOf(compressor),
    ORIGINAL,
  );
  const ask = (accepted: string) =>
    select(representations, accepted, compressor);
  assertEquals(await ask(""), "identity");
  const first = await Promise.all([ask("br"), ask("br")]);
  assertEquals(first, ["identity", "identity"]);
  assertEquals(await ask("br"), "br");
  assertEquals(await ask("gzip"), "identity");
  assertEquals(await ask("gzip"), "gzip");
  assertEquals(compressor.asked, ["br", "gzip"]);
});

for (const outcome of ["is not smaller", "fails"]) {
  Deno.test(`Representations uses another coding if the result of one ${outcome}`, async () => {
    const asked: CompressorCoding[] = [];
    const compressor = new class extends Compressor {
      override async compress(...args: Parameters<Compressor["compress"]>) {
        asked.push(args[1]);
        if (args[1] === "gzip") return await super.compress(...args);
        if (outcome === "fails") throw new Error("failed");
      }
    }();
    const representations = new Representations(
      resourceOf(compressor),
      ORIGINAL,
    );
    const ask = (accepted: string) =>
      select(representations, accepted, compressor);
    for (let i = 0; i < 3; i++) await ask("gzip, br");
    assertEquals(await ask("gzip, br"), "gzip");
    assertEquals(await ask("br"), "identity");
    assertEquals(asked, ["br", "gzip"]);
  });
}

Deno.test("Representations compresses later if the compressor is busy", async () => {
  const compressor = new Compressor();
  const representations = new Representations(
    resourceOf(compressor),
    ORIGINAL,
  );
  const ask = () => select(representations, "br", compressor);
  makeBusy(compressor);
  assertEquals(await ask(), "identity");
  assertEquals(await ask(), "identity");
  assertEquals(await ask(), "br");
});

/** Returns the body of what is selected for a coding, once everything that was asked for is compressed. */
async function bodyOf(
  representations: Representations,
  accepted: string,
  compressor: Compressor,
): Promise<SentBody> {
  await select(representations, accepted, compressor);
  const headers = new Headers({ "accept-encoding": accepted });
  return representations.select(headers).body;
}

for (const coding of ["identity", "br"]) {
  for (
    const [bytes, isShared] of [[131_072, true], [131_073, false]] as const
  ) {
    Deno.test(`Representations ${isShared ? "shares" : "does not share"} ${bytes} bytes as ${coding}, if it may`, () => {
      const { body } = contentOf("identity", bytes);
      crypto.getRandomValues(body.subarray(0, 65_536));
      crypto.getRandomValues(body.subarray(65_536, 131_072));
      const existing = { coding: "br", body, etag: '"2"' } as const;
      for (const sharesBytes of [true, false]) {
        const representations = new Representations(
          resourceOf(undefined, "text/plain", sharesBytes),
          { coding: "identity", body, etag: '"1"' },
          [existing],
        );
        const accept = new Headers({ "accept-encoding": coding });
        const selected = representations.select(accept).body;
        assertEquals("respond" in selected, sharesBytes && isShared);
      }
    });
  }
}

Deno.test("Representations compresses what it shares, and shares the result", async () => {
  const compressor = new Compressor();
  const representations = new Representations(
    resourceOf(compressor, "text/plain", true),
    ORIGINAL,
  );
  const body = await bodyOf(representations, "br", compressor) as SharedBody;
  const compressed = await body.bytes();
  assertEquals(body.length, compressed.length);
  assertEquals(
    new Uint8Array(brotliDecompressSync(compressed)),
    ORIGINAL.body,
  );
});
