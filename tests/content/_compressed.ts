import { Compressor } from "../../src/content/coding/representations.ts";

/** Resolves once everything that a compressor has been asked for is compressed: it compresses one after the other. */
export async function allCompressed(compressor: Compressor) {
  // Not a method of the compressor, which may be one that counts its calls.
  const { compress } = Compressor.prototype;
  await compress.call(compressor, new Uint8Array(), "gzip");
}
