import { ifNoneMatchFails, type Validators } from "../http/preconditions.ts";
import type { ByteRange } from "./byte_range.ts";
import type { Compressor } from "./compressor.ts";
import { type Coding, COMPRESSOR_CODINGS, type CompressorCoding, preferredCoding } from "./content_coding.ts";
import { fastestBody } from "./fastest_body.ts";
import { isCompressible } from "./is_compressible.ts";

/** What all representations of a resource have in common. */
export interface Resource {
  /** Whether it is HTML with the configuration, or a fragment of such a page. */
  readonly isPage: boolean;
  readonly headers: Readonly<Record<string, string>>;
  readonly lastModified: Date | undefined;
}

/** A resource in one content coding, with everything that a response needs. */
export interface Representation<B extends Body = Body> extends Pick<Resource, "isPage"> {
  /** @default {200} */
  readonly status?: number;
  readonly statusText?: string;
  /** The headers of a complete response. */
  readonly headers: Headers | Readonly<Record<string, string>>;
  readonly validators: Validators;
  readonly body: B;
}

/** A body in memory: a string has ASCII characters only. */
type MemoryBody = string | Uint8Array<ArrayBuffer>;

/** The body of a complete response. */
export type Body = MemoryBody | StreamedBody;

/** A body of which nothing has been read. One of its functions is called, once. */
export interface StreamedBody {
  /** In bytes. Only the size of a body of which ranges may be sent is used. */
  readonly size: number;
  /** Returns all bytes, or those of a range. */
  read(range?: ByteRange): ReadableStream<Uint8Array> | Uint8Array<ArrayBuffer> | null;
  /** Frees what the body needs. */
  cancel(): void;
}

/** The content coding of a representation; `identity` means none. */
export type RepresentationCoding = Coding["name"] | "identity";

/** A resource in memory, in one content coding. */
interface CodedBytes {
  readonly coding: RepresentationCoding;
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** If it is strong, it is one of the bytes. */
  readonly etag: string | undefined;
}

/** Options of {@linkcode Representations}. */
interface RepresentationsOptions {
  /** Compressed variants that exist already. If there are any, none is made. @default {[]} */
  readonly variants?: readonly CodedBytes[];
  /** Compresses a resource that is worth it. @default {it is not compressed} */
  readonly compressor?: Pick<Compressor, "compress" | "isBusy"> | undefined;
}

/**
 * The representations of one version of a resource, in memory. A coding that a client prefers is made when it is first
 * asked for, in the background; until then the client gets the resource without it.
 */
export class Representations {
  /** What all representations take in memory at most, in bytes: what is compressed is smaller. */
  readonly maxBytes: number;
  readonly #resource: Resource;
  readonly #original: Representation<MemoryBody>;
  readonly #compressor: RepresentationsOptions["compressor"];
  readonly #variants = new Map<RepresentationCoding, Representation | "pending">();
  #codings: readonly Coding["name"][];
  /** The last header, and what was selected for it: most browsers send the same one. */
  #last: { readonly accepted: string | null; readonly coding: Coding["name"] | undefined } | undefined;

  constructor(resource: Resource, original: CodedBytes, { variants = [], compressor }: RepresentationsOptions) {
    const { length } = original.bytes;
    const isWorthIt = compressor !== undefined && isCompressible(resource.headers["content-type"] ?? "", length);
    this.#resource = resource;
    this.#compressor = compressor;
    this.#codings = variants.length === 0 && isWorthIt ? COMPRESSOR_CODINGS : codingsOf(variants);
    this.#original = this.#represent(original);
    for (const variant of variants) this.#variants.set(variant.coding, this.#represent(variant));
    const made = this.#codings.length - variants.length;
    this.maxBytes = variants.reduce((sum, { bytes }) => sum + bytes.length, length * (1 + made));
  }

  /**
   * Selects the representation for a request. A client that has the resource without a coding keeps it, although it is
   * available in a coding by now.
   */
  select(headers: Headers): Representation {
    if (this.#codings.length === 0) return this.#original;
    const variant = this.#variantFor(headers.get("accept-encoding"));
    if (variant === undefined) return this.#original;
    const hasOriginal = !ifNoneMatchFails(headers, variant.validators.etag) &&
      ifNoneMatchFails(headers, this.#original.validators.etag);
    return hasOriginal ? this.#original : variant;
  }

  #represent({ bytes, ...others }: CodedBytes): Representation<MemoryBody> {
    const varies = this.#codings.length > 0;
    return represent(this.#resource, { ...others, body: fastestBody(bytes), size: bytes.length, varies });
  }

  #variantFor(accepted: string | null): Representation | undefined {
    if (this.#last?.accepted !== accepted) this.#last = { accepted, coding: preferredCoding(accepted, this.#codings) };
    const { coding } = this.#last;
    if (coding === undefined) return undefined;
    const variant = this.#variants.get(coding);
    if (variant === undefined && this.#compressor?.isBusy === false) {
      void this.#compress(coding as CompressorCoding, this.#compressor);
    }
    return variant === "pending" ? undefined : variant;
  }

  async #compress(coding: CompressorCoding, compressor: Pick<Compressor, "compress">): Promise<void> {
    const { body, validators: { etag } } = this.#original;
    this.#variants.set(coding, "pending");
    const original = typeof body === "string" ? new TextEncoder().encode(body) : body;
    const compressed = await compressor.compress(original, coding).catch(() => undefined); // the original can be sent
    this.#last = undefined;
    if (compressed === undefined) return void (this.#codings = this.#codings.filter((other) => other !== coding));
    const isStrong = etag?.startsWith('"'); // that of a page is weak, and stays
    this.#variants.set(coding, this.#represent({ coding, ...compressed, etag: isStrong ? compressed.etag : etag }));
  }
}

function codingsOf(variants: readonly CodedBytes[]): Coding["name"][] {
  return variants.map(({ coding }) => coding).filter((coding) => coding !== "identity");
}

/** What distinguishes the representations of a resource. */
interface RepresentOptions<B extends Body> {
  readonly coding: RepresentationCoding;
  readonly etag: string | undefined;
  readonly body: B;
  readonly size: number;
  /** Whether there are, or will be, other codings. */
  readonly varies: boolean;
}

/** Returns a representation of a resource. */
export function represent<B extends Body>(
  { isPage, headers, lastModified }: Resource,
  { coding, etag: own, body, size, varies }: RepresentOptions<B>,
): Representation<B> {
  const etag = codedEtag(own, coding);
  const vary = ["Accept-Encoding", headers.vary].filter((names) => names !== undefined).join(", ");
  return {
    isPage,
    headers: {
      ...headers,
      ...(etag ? { etag } : {}),
      ...(varies ? { vary } : {}),
      ...(coding === "identity" ? {} : { "content-encoding": coding }),
      "content-length": `${size}`,
    },
    validators: { etag, lastModified },
    body,
  };
}

/** Returns the entity tag of a representation: a different one for each coding (RFC 9110 §8.8.3.3). */
export function codedEtag(etag: string | undefined, coding: RepresentationCoding): string | undefined {
  return coding === "identity" ? etag : etag?.replace(/"$/, `-${coding}"`);
}
