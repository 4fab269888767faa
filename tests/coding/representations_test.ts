import { assertEquals } from "@std/assert";
import type { CompressorCoding } from "../../src/coding/compressor.ts";
import { type Representation, Representations } from "../../src/coding/representations.ts";
import { settle } from "../../tools/fake_clock.ts";

function representation(coding: Representation["coding"], length: number): Representation {
  const validators = { etag: `"${coding}"`, lastModified: undefined };
  const bytes = new Uint8Array(length);
  return { coding, bytes, body: bytes, validators, headers: {} };
}

function select(representations: Representations, accepted?: string): string {
  return representations.select(new Headers(accepted === undefined ? {} : { "accept-encoding": accepted })).coding;
}

Deno.test("Representations.select() selects for each Accept-Encoding header, in any order", () => {
  const variants = [representation("br", 3), representation("gzip", 4)];
  const representations = new Representations({ identity: representation("identity", 10), variants });
  const accepted = ["br", "gzip", "gzip", undefined, "br", "br;q=0", "gzip, br"];
  assertEquals(accepted.map((value) => select(representations, value)), [
    ...["br", "gzip", "gzip", "identity", "br", "identity", "br"],
  ]);
  assertEquals(representations.bytes, 17);
});

Deno.test("Representations.bytes counts a text twice: its bytes and its string", () => {
  const identity = { ...representation("identity", 10), body: "0123456789" };
  assertEquals(new Representations({ identity, variants: [representation("br", 3)] }).bytes, 23);
});

Deno.test("Representations compresses once for each coding that is asked for", async () => {
  const asked: CompressorCoding[] = [];
  const grown: number[] = [];
  const representations: Representations = new Representations({
    identity: representation("identity", 10),
    compress: (coding) => Promise.resolve(asked.push(coding)).then(() => representation(coding, 5)),
    onGrow: () => grown.push(representations.bytes),
  });
  assertEquals([select(representations), select(representations, "br"), select(representations, "br")], [
    ...["identity", "identity", "identity"],
  ]);
  assertEquals(asked, ["br"]);
  await settle();
  assertEquals([select(representations, "br"), select(representations, "gzip"), grown], ["br", "identity", [15]]);
  await settle();
  assertEquals([select(representations, "gzip"), asked, grown], ["gzip", ["br", "gzip"], [15, 20]]);
});

for (const outcome of ["is not smaller", "fails"]) {
  Deno.test(`Representations uses another coding if the result of one ${outcome}`, async () => {
    let attempts = 0;
    const representations = new Representations({
      identity: representation("identity", 10),
      compress(coding) {
        attempts++;
        if (coding === "gzip") return Promise.resolve(representation(coding, 5));
        return outcome === "fails" ? Promise.reject(new Error("failed")) : Promise.resolve(undefined);
      },
    });
    for (let i = 0; i < 3; i++) {
      select(representations, "gzip, br");
      await settle();
    }
    assertEquals([select(representations, "gzip, br"), select(representations, "br"), attempts], [
      "gzip",
      "identity",
      2,
    ]);
  });
}

Deno.test("Representations compresses later if the compressor is busy", async () => {
  let isBusy = true;
  const representations = new Representations({
    identity: representation("identity", 10),
    compress: (coding) => Promise.resolve(representation(coding, 5)),
    isBusy: () => isBusy,
  });
  select(representations, "br");
  await settle();
  assertEquals(select(representations, "br"), "identity");
  isBusy = false;
  select(representations, "br");
  await settle();
  assertEquals(select(representations, "br"), "br");
});
