import { parseList } from "../http/headers.ts";

/** A content coding in which a file may be available as a second file (RFC 9110 §8.4.1). */
export interface Coding {
  /** Its name in HTTP. */
  readonly name: "br" | "zstd" | "gzip";
  /** The suffix of the compressed file's name. */
  readonly suffix: ".br" | ".zst" | ".gz";
}

/** The supported codings, the preferred one first. */
export const CODINGS: readonly Coding[] = [
  { name: "br", suffix: ".br" },
  { name: "zstd", suffix: ".zst" },
  { name: "gzip", suffix: ".gz" },
];

/** The codings that content is compressed in here, the preferred one first. */
export const COMPRESSOR_CODINGS = [
  "br",
  "gzip",
] as const satisfies readonly Coding["name"][];

/** The name of a coding that content is compressed in here. */
export type CompressorCoding = typeof COMPRESSOR_CODINGS[number];

/**
 * Selects the available coding that a client prefers (RFC 9110 §12.5.3). Of codings with the same weight, it is the
 * first one.
 *
 * @param accepted The `Accept-Encoding` header; `null` if it is absent.
 * @param available Names of codings, in lower case, the preferred one first.
 * @returns `undefined` if the content is to be sent without a coding: the client has no `Accept-Encoding` header,
 * accepts none of the available codings, or gives `identity` a higher weight.
 */
export function preferredCoding<T extends string>(
  accepted: string | null,
  available: readonly T[],
): T | undefined {
  if (!accepted || available.length === 0) return undefined;
  const weights = parseWeights(accepted);
  let preferred: T | undefined;
  let highest = Math.max(Number.MIN_VALUE, weights.get("identity") ?? 0);
  for (const coding of available) {
    const weight = weights.get(coding) ?? weights.get("*") ?? 0;
    if (weight < highest || (weight === highest && preferred !== undefined)) {
      continue;
    }
    preferred = coding;
    highest = weight;
  }
  return preferred;
}

/** Returns the weight of every coding that a header lists. */
function parseWeights(accepted: string): Map<string, number> {
  const weights = new Map<string, number>();
  for (const item of accepted.toLowerCase().split(",")) {
    const [coding = "", ...parameters] = item.split(";");
    const weight = parameters.length === 0
      ? 1
      : parseWeight(parameters.join(";"));
    weights.set(coding.trim(), weight);
  }
  return weights;
}

/** Parses `q=0.5`. A coding whose weight is invalid is not accepted. */
function parseWeight(parameter: string): number {
  const [, weight = "0"] = /^\s*q=([01](?:\.\d{0,3})?)\s*$/.exec(parameter) ??
    [];
  return Math.min(1, Number(weight));
}

/** Returns whether content is encoded. Some servers send the coding `identity`, which means that it is not. */
export function isEncoded(headers: Headers): boolean {
  return contentCodings(headers).length > 0;
}

/** Returns the codings of content in the order in which they were applied (RFC 9110 §8.4). */
export function contentCodings(headers: Headers): string[] {
  return parseCodings(headers.get("content-encoding")).filter((coding) =>
    coding !== "identity"
  );
}

/** Parses a list of codings, whose names are not case-sensitive. */
export function parseCodings(header: string | null): string[] {
  return parseList(header).map((item) => item.toLowerCase());
}
