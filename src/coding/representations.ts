import { ifNoneMatchFails, type Validators } from "../http/preconditions.ts";
import { COMPRESSOR_CODINGS, type CompressorCoding } from "./compressor.ts";
import { type Coding, preferredCoding } from "./content_coding.ts";

/** A resource in one content coding, with everything that a response needs. */
export interface Representation {
  /** The content coding; `identity` means none. */
  readonly coding: Coding["name"] | "identity";
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** The body of a complete response: see {@linkcode fastestBody}. */
  readonly body: string | Uint8Array<ArrayBuffer>;
  readonly validators: Validators;
  /** The headers of a complete response, ready for `new Response()`. */
  readonly headers: Readonly<Record<string, string>>;
}

/** Options of {@linkcode Representations}. */
interface RepresentationsOptions {
  readonly identity: Representation;
  /** Compressed variants that exist already. If there are any, none is made. @default {[]} */
  readonly variants?: readonly Representation[];
  /**
   * Compresses the resource. The result is `undefined` if it would not be smaller.
   *
   * @default {the resource is not compressed}
   */
  readonly compress?: ((coding: CompressorCoding) => Promise<Representation | undefined>) | undefined;
  /** Whether the resource is to be compressed later, when it is asked for again. @default {never} */
  readonly isBusy?: () => boolean;
  /** Called when {@linkcode Representations.bytes} has changed. */
  readonly onGrow?: () => void;
}

/**
 * The representations of one version of a resource, in memory. A coding that a client prefers is made when it is first
 * asked for, in the background; until then the client gets the resource without it.
 */
export class Representations {
  readonly identity: Representation;
  readonly #compress: RepresentationsOptions["compress"];
  readonly #isBusy: () => boolean;
  readonly #onGrow: () => void;
  readonly #variants = new Map<Coding["name"], Representation | "pending">();
  #codings: readonly Coding["name"][];
  /** The last header, and what was selected for it: most browsers send the same one. */
  #last: { readonly accepted: string | null; readonly coding: Coding["name"] | undefined } | undefined;

  constructor({ identity, variants = [], compress, isBusy = () => false, onGrow = () => {} }: RepresentationsOptions) {
    this.identity = identity;
    this.#compress = compress;
    this.#isBusy = isBusy;
    this.#onGrow = onGrow;
    for (const variant of variants) if (variant.coding !== "identity") this.#variants.set(variant.coding, variant);
    if (variants.length > 0) this.#codings = [...this.#variants.keys()];
    else this.#codings = compress ? COMPRESSOR_CODINGS : [];
  }

  /** What all representations take in memory, in bytes. */
  get bytes(): number {
    const variants = [...this.#variants.values()].map((variant) => variant === "pending" ? 0 : sizeOf(variant));
    return variants.reduce((sum, size) => sum + size, sizeOf(this.identity));
  }

  /**
   * Selects the representation for a request. A client that has the resource without a coding keeps it, although it is
   * available in a coding by now.
   */
  select(headers: Headers): Representation {
    if (this.#codings.length === 0) return this.identity;
    const variant = this.#variantFor(headers.get("accept-encoding"));
    if (variant === undefined) return this.identity;
    const hasIdentity = !ifNoneMatchFails(headers, variant.validators.etag) &&
      ifNoneMatchFails(headers, this.identity.validators.etag);
    return hasIdentity ? this.identity : variant;
  }

  #variantFor(accepted: string | null): Representation | undefined {
    if (this.#last?.accepted !== accepted) this.#last = { accepted, coding: preferredCoding(accepted, this.#codings) };
    const { coding } = this.#last;
    if (coding === undefined) return undefined;
    const variant = this.#variants.get(coding);
    if (variant === undefined && !this.#isBusy()) void this.#add(coding as CompressorCoding);
    return variant === "pending" ? undefined : variant;
  }

  async #add(coding: CompressorCoding): Promise<void> {
    this.#variants.set(coding, "pending");
    const variant = await this.#compress?.(coding).catch(() => undefined); // the resource itself can still be sent
    this.#last = undefined;
    if (variant === undefined) return void (this.#codings = this.#codings.filter((other) => other !== coding));
    this.#variants.set(coding, variant);
    this.#onGrow();
  }
}

/** A string of ASCII characters takes a byte for each of them. */
function sizeOf({ bytes, body }: Representation): number {
  return typeof body === "string" ? 2 * bytes.length : bytes.length;
}

/** Returns the entity tag of a representation: a different one for each coding (RFC 9110 §8.8.3.3). */
export function codedEtag(etag: string | undefined, coding: Representation["coding"]): string | undefined {
  return coding === "identity" ? etag : etag?.replace(/"$/, `-${coding}"`);
}
