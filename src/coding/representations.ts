import { ifNoneMatchFails } from "../http/preconditions.ts";
import type { Representation, StreamedBody } from "../http/send.ts";
import type { Compressor } from "./compressor.ts";
import {
  type Coding,
  COMPRESSOR_CODINGS,
  type CompressorCoding,
  preferredCoding,
} from "./content_coding.ts";
import { isCompressible } from "./is_compressible.ts";

/** The content coding of a representation; `identity` means none. */
export type RepresentationCoding = Coding["name"] | "identity";

/** A resource in one content coding. */
export interface CodedBody {
  readonly coding: RepresentationCoding;
  readonly body: Uint8Array<ArrayBuffer> | StreamedBody;
  /** If it is strong, it is one of these bytes. */
  readonly etag: string | undefined;
}

/** What all representations of a resource have in common. */
interface Resource extends Pick<Representation, "isPage"> {
  readonly headers: Readonly<Record<string, string>>;
  readonly lastModified?: Date | undefined;
  /** Compresses the resource, if it is in memory and worth it. */
  readonly compressor: Pick<Compressor, "compress" | "isBusy"> | undefined;
}

/**
 * The representations of one version of a resource. A coding that a client prefers is made when it is first asked for,
 * in the background; until then the client gets the resource without it.
 */
export class Representations {
  /** What all representations take in memory at most, in bytes: what is compressed is smaller. */
  readonly maxBytes: number;
  readonly #resource: Resource;
  readonly #body: CodedBody["body"];
  readonly #original: Representation;
  readonly #variants = new Map<
    RepresentationCoding,
    Representation | "pending"
  >();
  /** The codings that a client may get, or that may be made for it. */
  #codings: readonly RepresentationCoding[];

  /** @param variants Compressed variants that exist already. If there are any, none is made. */
  constructor(
    resource: Resource,
    original: CodedBody,
    variants: readonly CodedBody[] = [],
  ) {
    const bytes = bytesOf(original);
    const type = resource.headers["content-type"] ?? "";
    const isCompressed = variants.length === 0 &&
      resource.compressor !== undefined && isCompressible(type, bytes);
    this.#resource = resource;
    this.#body = original.body;
    this.#codings = isCompressed
      ? COMPRESSOR_CODINGS
      : variants.map(({ coding }) => coding);
    this.#original = this.#represent(original);
    this.maxBytes = isCompressed
      ? bytes * (1 + COMPRESSOR_CODINGS.length)
      : bytes;
    for (const variant of variants) {
      this.#variants.set(variant.coding, this.#represent(variant));
      this.maxBytes += bytesOf(variant);
    }
  }

  /**
   * Selects the representation for a request. A client that has the resource without a coding keeps it, although it is
   * available in a coding by now.
   */
  select(headers: Headers): Representation {
    const accepted = headers.get("accept-encoding");
    const coding = preferredCoding(accepted, this.#codings);
    if (coding === undefined) return this.#original;
    const variant = this.#variants.get(coding);
    if (variant === undefined) this.#compress(coding as CompressorCoding);
    if (variant === undefined || variant === "pending") return this.#original;
    const hasOriginal = !ifNoneMatchFails(headers, variant.validators.etag) &&
      ifNoneMatchFails(headers, this.#original.validators.etag);
    return hasOriginal ? this.#original : variant;
  }

  #represent({ coding, body, etag: own }: CodedBody): Representation {
    const { isPage, headers: common, lastModified } = this.#resource;
    const headers: Record<string, string> = { ...common };
    const etag = codedEtag(own, coding);
    if (etag !== undefined) headers["etag"] = etag;
    if (this.#codings.length > 0) {
      headers["vary"] = common["vary"] === undefined
        ? "Accept-Encoding"
        : `Accept-Encoding, ${common["vary"]}`;
    }
    if (coding !== "identity") headers["content-encoding"] = coding;
    if (body.length !== undefined) headers["content-length"] = `${body.length}`;
    return { isPage, headers, validators: { etag, lastModified }, body };
  }

  /** Later, if much is waiting already. */
  #compress(coding: CompressorCoding): void {
    const { compressor } = this.#resource;
    if (compressor === undefined || compressor.isBusy) return;
    if (!(this.#body instanceof Uint8Array)) return;
    this.#variants.set(coding, "pending");
    void compressor.compress(this.#body, coding)
      .catch(() => undefined) // the original can still be sent
      .then((compressed) => this.#add(coding, compressed));
  }

  #add(
    coding: CompressorCoding,
    compressed: Omit<CodedBody, "coding"> | undefined,
  ): void {
    if (compressed === undefined) {
      this.#codings = this.#codings.filter((other) => other !== coding);
      return;
    }
    const { etag: original } = this.#original.validators;
    const isWeak = original?.startsWith("W/"); // that of a page, which stays, or none
    const etag = original === undefined || isWeak ? original : compressed.etag;
    const { body } = compressed;
    this.#variants.set(coding, this.#represent({ coding, body, etag }));
  }
}

/** Returns how many bytes of a body are in memory. */
function bytesOf({ body }: CodedBody): number {
  return body instanceof Uint8Array ? body.length : 0;
}

/** Returns the entity tag of a representation: a different one for each coding (RFC 9110 §8.8.3.3). */
export function codedEtag(
  etag: string | undefined,
  coding: RepresentationCoding,
): string | undefined {
  return coding === "identity" ? etag : etag?.replace(/"$/, `-${coding}"`);
}
