import { eTag } from "@std/http/etag";
import type { Compressor, CompressorCoding } from "../../coding/compressor.ts";
import { fastestBody } from "../../coding/fastest_body.ts";
import { isCompressible } from "../../coding/is_compressible.ts";
import { type Representation, Representations } from "../../coding/representations.ts";
import type { FileContent, FileContents } from "./file_contents.ts";
import { assetHeaders, assetValidators } from "./file_response.ts";
import type { FoundFile } from "./found_file.ts";

/** What the representations of an asset depend on, besides the file. */
interface AssetContext {
  readonly compressor: Compressor;
  /** The time, in milliseconds since the Unix epoch. */
  readonly now: number;
  /** Called when the representations have grown. */
  readonly onGrow: () => void;
}

/**
 * Returns the representations of a file that is not a page. Variants next to the file take precedence: if there are
 * any, it is not compressed here.
 */
export function assetRepresentations(
  found: FoundFile,
  { file, variants }: FileContents,
  { compressor, now, onGrow }: AssetContext,
): Representations {
  const isCompressed = variants.length === 0 && isCompressible(found.type, file.bytes.length);
  const varies = isCompressed || variants.length > 0;
  const represent = (
    { coding, bytes, etag, mtime }: Pick<FileContent, "coding" | "bytes" | "etag" | "mtime">,
  ): Representation => {
    const validators = assetValidators({ etag, mtime }, coding, now);
    return {
      coding,
      bytes,
      body: fastestBody(bytes),
      validators,
      headers: assetHeaders(found, { coding, validators, size: bytes.length, varies }),
    };
  };
  const compress = async (coding: CompressorCoding) => {
    const bytes = await compressor.compress(file.bytes, coding);
    return bytes && represent({ coding, bytes, etag: await eTag(bytes), mtime: file.mtime });
  };
  return new Representations({
    identity: represent(file),
    variants: variants.map(represent),
    compress: isCompressed ? compress : undefined,
    isBusy: () => compressor.isBusy,
    onGrow,
  });
}
