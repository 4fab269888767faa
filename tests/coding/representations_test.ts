import { assertEquals } from "@std/assert";
import {
  CODINGS,
  type CompressorCoding,
  preferredCoding,
  type RepresentationCoding,
  Representations,
} from "../../src/coding/representations.ts";
import { settle } from "../../tools/fake_clock.ts";

const RESOURCE = {
  isPage: false,
  headers: { "content-type": "text/plain" },
  compressor: undefined,
};

function contentOf(
  coding: RepresentationCoding,
  length: number,
  etag = `"${coding}"`,
) {
  return { coding, body: new Uint8Array(length).fill(0xff), etag };
}

const ORIGINAL = contentOf("identity", 2_000);
const STREAMED = {
  length: 2_000_000,
  read: () => Promise.resolve(null),
  cancel() {},
};

/** A compressor with a result of 500 bytes, or another one. */
function compressorWith(
  compress = (
    _: CompressorCoding,
  ): Promise<Uint8Array<ArrayBuffer> | undefined> =>
    Promise.resolve(new Uint8Array(500)),
) {
  const asked: CompressorCoding[] = [];
  return {
    asked,
    isBusy: false,
    compress(
      _bytes: Uint8Array<ArrayBuffer>,
      coding: CompressorCoding,
    ): Promise<Uint8Array<ArrayBuffer> | undefined> {
      asked.push(coding);
      return compress(coding);
    },
  };
}

function select(representations: Representations, accepted?: string): string {
  const headers = new Headers(
    accepted === undefined ? {} : { "accept-encoding": accepted },
  );
  return new Headers(representations.select(headers).headers).get(
    "content-encoding",
  ) ?? "identity";
}

Deno.test("Representations.select() selects for each Accept-Encoding header, in any order", () => {
  const variants = [contentOf("br", 3), contentOf("gzip", 4)];
  const representations = new Representations(RESOURCE, ORIGINAL, variants);
  const accepted = [
    "br",
    "gzip",
    "gzip",
    undefined,
    "br",
    "br;q=0",
    "gzip, br",
  ];
  assertEquals(accepted.map((value) => select(representations, value)), [
    ...["br", "gzip", "gzip", "identity", "br", "identity", "br"],
  ]);
});

Deno.test("Representations.maxBytes counts what is there, and what may be made of it", () => {
  const variants = [contentOf("br", 3), contentOf("gzip", 4)];
  const compressor = compressorWith();
  const image = { ...RESOURCE, headers: { "content-type": "image/png" } };
  assertEquals([
    new Representations(RESOURCE, ORIGINAL).maxBytes,
    new Representations({ ...RESOURCE, compressor }, ORIGINAL, variants)
      .maxBytes,
    new Representations({ ...RESOURCE, compressor }, ORIGINAL).maxBytes,
    new Representations({ ...image, compressor }, ORIGINAL).maxBytes,
    new Representations({ ...RESOURCE, compressor }, {
      ...ORIGINAL,
      body: STREAMED,
    }, variants).maxBytes,
  ], [2_000, 2_007, 6_000, 2_000, 7]);
});

Deno.test("Representations compresses once for each coding that is asked for", async () => {
  const compressor = compressorWith();
  const representations = new Representations(
    { ...RESOURCE, compressor },
    ORIGINAL,
  );
  assertEquals([
    select(representations),
    select(representations, "br"),
    select(representations, "br"),
  ], [
    ...["identity", "identity", "identity"],
  ]);
  assertEquals(compressor.asked, ["br"]);
  await settle();
  assertEquals(
    [select(representations, "br"), select(representations, "gzip")],
    ["br", "identity"],
  );
  await settle();
  assertEquals([select(representations, "gzip"), compressor.asked], ["gzip", [
    "br",
    "gzip",
  ]]);
});

for (const outcome of ["is not smaller", "fails"]) {
  Deno.test(`Representations uses another coding if the result of one ${outcome}`, async () => {
    const compressor = compressorWith((coding) => {
      if (coding === "gzip") return Promise.resolve(new Uint8Array(500));
      return outcome === "fails"
        ? Promise.reject(new Error("failed"))
        : Promise.resolve(undefined);
    });
    const representations = new Representations(
      { ...RESOURCE, compressor },
      ORIGINAL,
    );
    for (let i = 0; i < 3; i++) {
      select(representations, "gzip, br");
      await settle();
    }
    assertEquals([
      select(representations, "gzip, br"),
      select(representations, "br"),
      compressor.asked,
    ], [
      "gzip",
      "identity",
      ["br", "gzip"],
    ]);
  });
}

Deno.test("Representations compresses later if the compressor is busy", async () => {
  const compressor = compressorWith();
  const representations = new Representations(
    { ...RESOURCE, compressor },
    ORIGINAL,
  );
  compressor.isBusy = true;
  select(representations, "br");
  await settle();
  assertEquals(select(representations, "br"), "identity");
  compressor.isBusy = false;
  select(representations, "br");
  await settle();
  assertEquals(select(representations, "br"), "br");
});

const NAMES = CODINGS.map(({ name }) => name);

const ALL: [accepted: string, name: string | undefined][] = [
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
];

for (const [accepted, name] of ALL) {
  Deno.test(`preferredCoding() selects ${name ?? "none"} of ${NAMES} for "${accepted}"`, () => {
    assertEquals(preferredCoding(accepted, NAMES), name);
  });
}

Deno.test("preferredCoding() selects none without an Accept-Encoding header", () => {
  assertEquals(preferredCoding(null, NAMES), undefined);
});

Deno.test("preferredCoding() selects only an available coding", () => {
  assertEquals(preferredCoding("gzip, br", ["gzip"]), "gzip");
  assertEquals(preferredCoding("gzip, br", []), undefined);
});

Deno.test("Representations sends bytes as a string if all are ASCII, which takes Deno less time, and compresses the same", async () => {
  const ascii = new Uint8Array(2_000).fill(0x61);
  const other = ascii.with(1_999, 0x80);
  const compressed: Uint8Array[] = [];
  const compressor = {
    isBusy: false,
    compress: (bytes: Uint8Array<ArrayBuffer>) => {
      compressed.push(bytes);
      return Promise.resolve(undefined);
    },
  };
  const sent = [ascii, other].map((body) => {
    const resource = { ...RESOURCE, compressor };
    const original = { coding: "identity" as const, body, etag: '"1"' };
    const representations = new Representations(resource, original);
    return representations.select(new Headers({ "accept-encoding": "br" }));
  });
  await settle();
  assertEquals(sent.map(({ body }) => body), ["a".repeat(2_000), other]);
  assertEquals(compressed, [ascii, other]);
});
