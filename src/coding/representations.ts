import { ifNoneMatchFails, type Validators } from "../http/preconditions.ts";
import type { ByteRange } from "./byte_range.ts";
import type { Compressor } from "./compressor.ts";
import {
  type Coding,
  COMPRESSOR_CODINGS,
  type CompressorCoding,
  preferredCoding,
} from "./content_coding.ts";
import { fastestBody } from "./fastest_body.ts";
import { isCompressible } from "./is_compressible.ts";

/** A resource in one content coding, with everything that a response needs. */
export interface Representation {
  /** Whether it is HTML with the configuration, or a fragment of such a page. */
  readonly isPage: boolean;
  /** @default {200} */
  readonly status?: number;
  readonly statusText?: string;
  /** The headers of a complete response. */
  readonly headers: Headers | Readonly<Record<string, string>>;
  readonly validators: Validators;
  readonly body: Body;
}

/** The body of a complete response. A string has ASCII characters only. */
export type Body = string | Uint8Array<ArrayBuffer> | StreamedBody;

/** A body that is not in memory. One of its functions is called, once for each response. */
export interface StreamedBody {
  /** In bytes; `undefined` if it is not known before it is read. */
  readonly length: number | undefined;
  /** Returns all bytes, or those of a range. */
  read(range?: ByteRange): BodyContent | Promise<BodyContent>;
  /** Frees what the body needs. */
  cancel(): void;
}

/** What is read of a body. */
export type BodyContent =
  | ReadableStream<Uint8Array>
  | Uint8Array<ArrayBuffer>
  | null;

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
  readonly #original: Representation;
  readonly #variants = new Map<
    RepresentationCoding,
    Representation | "pending"
  >();
  #codings: readonly RepresentationCoding[];
  /** The last header, and what was selected for it: most browsers send the same one. */
  #last: {
    readonly accepted: string | null;
    readonly coding: RepresentationCoding | undefined;
  } | undefined;

  /** @param variants Compressed variants that exist already. If there are any, none is made. */
  constructor(
    resource: Resource,
    original: CodedBody,
    variants: readonly CodedBody[] = [],
  ) {
    const isCompressed = variants.length === 0 &&
      isWorthCompressing(resource, original);
    this.#resource = resource;
    this.#codings = isCompressed
      ? COMPRESSOR_CODINGS
      : variants.map(({ coding }) => coding);
    this.#original = this.#represent(original);
    for (const variant of variants) {
      this.#variants.set(variant.coding, this.#represent(variant));
    }
    const made = isCompressed ? COMPRESSOR_CODINGS.length : 0;
    this.maxBytes = variants.reduce(
      (sum, { body }) => sum + bytesOf(body),
      bytesOf(original.body) * (1 + made),
    );
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

  #represent({ coding, body, etag: own }: CodedBody): Representation {
    const { isPage, headers, lastModified } = this.#resource;
    const etag = codedEtag(own, coding);
    const all = {
      ...headers,
      ...(etag ? { etag } : {}),
      ...(this.#codings.length > 0
        ? { vary: ["Accept-Encoding", headers.vary].filter(Boolean).join(", ") }
        : {}),
      ...(coding === "identity" ? {} : { "content-encoding": coding }),
      ...(body.length === undefined
        ? {}
        : { "content-length": `${body.length}` }),
    };
    const fastest = body instanceof Uint8Array ? fastestBody(body) : body;
    return {
      isPage,
      headers: all,
      validators: { etag, lastModified },
      body: fastest,
    };
  }

  #variantFor(accepted: string | null): Representation | undefined {
    if (this.#last?.accepted !== accepted) {
      this.#last = {
        accepted,
        coding: preferredCoding(accepted, this.#codings),
      };
    }
    const { coding } = this.#last;
    if (coding === undefined) return undefined;
    const variant = this.#variants.get(coding);
    if (variant === undefined && this.#resource.compressor?.isBusy === false) {
      void this.#add(coding as CompressorCoding);
    }
    return variant === "pending" ? undefined : variant;
  }

  async #add(coding: CompressorCoding): Promise<void> {
    this.#variants.set(coding, "pending");
    const { body, validators: { etag } } = this.#original;
    const bytes = typeof body === "string"
      ? new TextEncoder().encode(body)
      : body as Uint8Array<ArrayBuffer>;
    const compressing = this.#resource.compressor?.compress(bytes, coding);
    const compressed = await compressing?.catch(() => undefined); // the original can still be sent
    this.#last = undefined;
    if (compressed === undefined) {
      return void (this.#codings = this.#codings.filter((other) =>
        other !== coding
      ));
    }
    const isStrong = etag?.startsWith('"'); // that of a page is weak, and stays
    this.#variants.set(
      coding,
      this.#represent({
        coding,
        ...compressed,
        etag: isStrong ? compressed.etag : etag,
      }),
    );
  }
}

function isWorthCompressing(
  { compressor, headers }: Resource,
  { body }: CodedBody,
): boolean {
  return compressor !== undefined &&
    isCompressible(headers["content-type"] ?? "", bytesOf(body));
}

/** Returns how many bytes of a body are in memory. */
function bytesOf(body: CodedBody["body"]): number {
  return body instanceof Uint8Array ? body.length : 0;
}

/** Returns the entity tag of a representation: a different one for each coding (RFC 9110 §8.8.3.3). */
export function codedEtag(
  etag: string | undefined,
  coding: RepresentationCoding,
): string | undefined {
  return coding === "identity" ? etag : etag?.replace(/"$/, `-${coding}"`);
}
