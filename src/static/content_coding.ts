import { acceptsEncodings } from "@std/http/negotiation";

/** A content coding in which a file may be available as a second file. */
export interface Coding {
  /** Its name in HTTP. */
  name: "br" | "gzip";
  /** The suffix of the compressed file's name. */
  suffix: ".br" | ".gz";
}

/** The supported codings, the preferred one first. */
export const CODINGS: readonly Coding[] = [
  { name: "br", suffix: ".br" },
  { name: "gzip", suffix: ".gz" },
];

/**
 * Selects the available coding that a client prefers (RFC 9110 §12.5.3). Of codings with the same weight, Brotli is
 * preferred.
 *
 * @returns `undefined` if the file is to be sent without a coding: the client has no `Accept-Encoding` header, or
 * accepts none of the available codings.
 */
export function preferredCoding(headers: Headers, available: readonly Coding[]): Coding | undefined {
  const accepted = headers.get("accept-encoding");
  if (!accepted || available.length === 0) return undefined;
  const ordered = new Headers({ "accept-encoding": brotliFirst(accepted) });
  const name = acceptsEncodings({ headers: ordered }, ...available.map((coding) => coding.name), "identity");
  return available.find((coding) => coding.name === name);
}

/** Browsers send `gzip, deflate, br` in no order of preference; `acceptsEncodings` prefers the first. */
function brotliFirst(accepted: string): string {
  const isBrotli = (item: string) => /^\s*br\s*(?:;|$)/i.test(item);
  const items = accepted.split(",");
  return [...items.filter(isBrotli), ...items.filter((item) => !isBrotli(item))].join(",");
}
