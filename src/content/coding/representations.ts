import { eTag } from "@std/http/etag";
import {
  isLarge,
  isShared,
  isStreamed,
  type Representation,
  type StreamedBody,
} from "../../core/http/send.ts";
import { sharedBody } from "../../core/http/shared_body.ts";
import { SerialQueue } from "../../core/values/serial_queue.ts";

/** The content codings of precompressed files beside a file (RFC 9110 §8.4.1), the preferred one first. */
export const CODINGS = [
  { name: "br", suffix: ".br" },
  { name: "zstd", suffix: ".zst" },
  { name: "gzip", suffix: ".gz" },
] as const;

/** The content coding of a representation; `identity` means none. */
export type RepresentationCoding = typeof CODINGS[number]["name"] | "identity";

/** The codings in which the gateway compresses content, the preferred one first. */
export const COMPRESSOR_CODINGS = ["br", "gzip"] as const;

/** One of {@linkcode COMPRESSOR_CODINGS}. */
export type CompressorCoding = typeof COMPRESSOR_CODINGS[number];

/** A smaller file needs no fewer packets when it is compressed. */
const MIN_BYTES = 1_024;

const TEXT_TYPE = /^(?:text\/.+|.+\+(?:json|xml))$/;

/** Text types that {@linkcode TEXT_TYPE} does not match, and the few binary formats that are not compressed themselves. */
const OTHER_TYPES: ReadonlySet<string> = new Set([
  "application/javascript",
  "application/json",
  "application/rtf",
  "application/vnd.ms-fontobject",
  "application/wasm",
  "application/xml",
  "font/collection",
  "font/otf",
  "font/ttf",
  "image/bmp",
  "image/vnd.microsoft.icon",
  "image/x-icon",
]);

/** Returns whether compression makes content of this type, such as `text/css; charset=UTF-8`, smaller. */
export function isCompressibleType(type: string): boolean {
  const [essence = ""] = type.toLowerCase().split(";", 1);
  return TEXT_TYPE.test(essence.trim()) || OTHER_TYPES.has(essence.trim());
}

/** Returns whether to compress content of this type and this size, in bytes. */
export function isCompressible(type: string, size: number): boolean {
  return size >= MIN_BYTES && isCompressibleType(type);
}

/**
 * Selects the available coding that a client prefers (RFC 9110 §12.5.3), and the first one among those with the same
 * weight.
 *
 * @param accepted The `Accept-Encoding` header; `null` if it is absent.
 * @param available Names of codings, in lower case, the preferred one first.
 * @returns `undefined` if the content has to be sent without a coding: the client has no `Accept-Encoding` header,
 * accepts none of the available codings, or gives `identity` a higher weight.
 */
export function preferredCoding<T extends string>(
  accepted: string | null,
  available: readonly T[],
): T | undefined {
  if (!accepted || available.length === 0) return undefined;
  const weights = parseWeights(accepted);
  let preferred: T | undefined;
  let highest = 0;
  for (const coding of available) {
    const weight = weights.get(coding) ?? weights.get("*") ?? 0;
    if (weight <= highest) continue;
    preferred = coding;
    highest = weight;
  }
  return highest < (weights.get("identity") ?? 0) ? undefined : preferred;
}

/** A weight, such as `q=0.5`. */
const WEIGHT = /^\s*q=([01](?:\.\d{0,3})?)\s*$/;

/** Returns the weight of every coding that a header lists. One with an invalid weight is not used: its weight is 0. */
function parseWeights(accepted: string): Map<string, number> {
  const weights = new Map<string, number>();
  for (const item of accepted.toLowerCase().split(",")) {
    const [coding = "", parameter = "q=1"] = item.split(";");
    const [, weight = 0] = WEIGHT.exec(parameter) ?? [];
    weights.set(coding.trim(), Math.min(1, Number(weight)));
  }
  return weights;
}

/** How many files may wait for compression. Each has at most 1 MiB, so together they take at most 32 MiB. */
const MAX_WAITING = 32;

/** Compresses content that is in memory, one piece after the other, between requests. */
export class Compressor {
  readonly #queue = new SerialQueue();
  #waiting = 0;
  #isClosed = false;

  /** Whether so much content is waiting that callers should try later, as when a full cache replaces files all the time. */
  get isBusy(): boolean {
    return this.#waiting >= MAX_WAITING;
  }

  /**
   * Compresses bytes.
   *
   * @returns `undefined` if the result is not smaller than the content, or the compressor was closed.
   */
  async compress(
    bytes: Uint8Array<ArrayBuffer>,
    coding: CompressorCoding,
  ): Promise<Uint8Array<ArrayBuffer> | undefined> {
    this.#waiting++;
    try {
      return await this.#queue.run(() => this.#compress(bytes, coding));
    } finally {
      this.#waiting--;
    }
  }

  /** Drops what has not been compressed yet. */
  close(): void {
    this.#isClosed = true;
  }

  async #compress(
    bytes: Uint8Array<ArrayBuffer>,
    coding: CompressorCoding,
  ): Promise<Uint8Array<ArrayBuffer> | undefined> {
    if (this.#isClosed) return undefined;
    const { encodeThoroughly } = await import("./zlib.ts"); // not at startup, since `node:zlib` takes long to load
    const compressed = await encodeThoroughly(bytes, coding);
    return compressed.length < bytes.length ? compressed : undefined;
  }
}

/** A resource in one content coding. */
export interface CodedBody {
  readonly coding: RepresentationCoding;
  readonly body: Uint8Array<ArrayBuffer> | StreamedBody;
  /** A strong one belongs to exactly these bytes. */
  readonly etag: string | undefined;
}

/** What all representations of a resource have in common. */
interface Resource extends Pick<Representation, "isHtml"> {
  readonly headers: Readonly<Record<string, string>>;
  /** Whether all responses leave through `Deno.serve`, so that they may share their bytes. */
  readonly sharesBytes: boolean;
  /** Compresses the resource if it is in memory, and if its type and size make that worthwhile. */
  readonly compressor: Compressor | undefined;
}

/**
 * The representations of one version of a resource. The first request of a client that prefers a coding starts the
 * compression in the background. Until it has finished, clients get the resource uncompressed.
 */
export class Representations {
  /** How many bytes of memory all representations take at most: a compressed one counts as much as the original. */
  readonly maxBytes: number;
  readonly #resource: Resource;
  readonly #original: Representation;
  /** The original stands for a variant that is being compressed. */
  readonly #variants = new Map<RepresentationCoding, Representation>();
  /** The codings that exist or that the compressor can add. */
  #codings: readonly RepresentationCoding[];
  /** The last `Accept-Encoding`, which most browsers have in common, and the coding for it. */
  #last: { accepted: string | null; coding: RepresentationCoding | undefined } =
    { accepted: null, coding: undefined };

  /** @param variants Compressed variants that already exist. If there are any, the compressor adds no others. */
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
    this.#codings = isCompressed
      ? COMPRESSOR_CODINGS
      : variants.map(({ coding }) => coding);
    this.#original = this.#represent(original);
    let maxBytes = bytes;
    if (isCompressed) maxBytes += bytes * COMPRESSOR_CODINGS.length;
    for (const variant of variants) {
      this.#variants.set(variant.coding, this.#represent(variant));
      maxBytes += bytesOf(variant);
    }
    this.maxBytes = maxBytes;
  }

  /** Selects the representation for a request. */
  select(headers: Headers): Representation {
    const accepted = headers.get("accept-encoding");
    if (accepted !== this.#last.accepted) {
      const coding = preferredCoding(accepted, this.#codings);
      this.#last = { accepted, coding };
    }
    const { coding } = this.#last;
    if (coding === undefined) return this.#original;
    const variant = this.#variants.get(coding);
    if (variant !== undefined) return variant;
    void this.#compress(coding as CompressorCoding);
    return this.#original;
  }

  #represent({ coding, body, etag: own }: CodedBody): Representation {
    const { isHtml, headers: common, sharesBytes } = this.#resource;
    const headers: Record<string, string> = { ...common };
    const isCoded = coding !== "identity";
    // It differs for each coding (RFC 9110 §8.8.3.3).
    const etag = isCoded ? own?.replace(/"$/, `-${coding}"`) : own;
    if (etag !== undefined) headers["etag"] = etag;
    if (this.#codings.length > 0) {
      const vary = common["vary"];
      headers["vary"] = vary === undefined
        ? "Accept-Encoding"
        : `Accept-Encoding, ${vary}`;
    }
    if (isCoded) headers["content-encoding"] = coding;
    if (body.length !== undefined) headers["content-length"] = `${body.length}`;
    const isShared = sharesBytes && !isStreamed(body) && !isLarge(body);
    return {
      isHtml,
      headers,
      etag,
      body: isShared ? sharedBody(body, headers) : body,
    };
  }

  /**
   * Adds the variant of a coding. If the result is not smaller, or the compression fails, it does not try that coding
   * again. It never rejects, since the original can still be sent.
   */
  async #compress(coding: CompressorCoding): Promise<void> {
    const { compressor } = this.#resource;
    const { body: content } = this.#original;
    if (compressor === undefined || compressor.isBusy) return;
    if (isStreamed(content)) return;
    this.#variants.set(coding, this.#original);
    const bytes = isShared(content) ? await content.bytes() : content;
    const body = await compressor.compress(bytes, coding)
      .catch(() => undefined);
    if (body === undefined) {
      this.#codings = this.#codings.filter((other) => other !== coding);
      this.#last = { accepted: null, coding: undefined };
      return;
    }
    const { etag: original } = this.#original;
    const isStrong = original?.startsWith('"'); // that of a page is weak, and so applies to all variants
    const etag = isStrong ? await eTag(body) : original;
    this.#variants.set(coding, this.#represent({ coding, body, etag }));
  }
}

/** Returns how many bytes of memory a body takes. */
function bytesOf({ body }: CodedBody): number {
  return isStreamed(body) ? 0 : body.length;
}
