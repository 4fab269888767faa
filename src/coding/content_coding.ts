import { parseList } from "../http/headers.ts";

/** Returns whether content is encoded. Some servers send the coding `identity`, which means that it is not. */
export function isEncoded(headers: Headers): boolean {
  return contentCodings(headers).length > 0;
}

/** Returns the codings of content in the order in which they were applied (RFC 9110 §8.4). */
export function contentCodings(headers: Headers): string[] {
  const codings = parseCodings(headers.get("content-encoding"));
  return codings.filter((coding) => coding !== "identity");
}

/** Parses a list of codings, whose names are not case-sensitive. */
export function parseCodings(header: string | null): string[] {
  return parseList(header?.toLowerCase() ?? null);
}

/** Below this size, a compressed file would not need fewer packets. */
const MIN_BYTES = 1_024;

const TEXT_TYPE = /^(?:text\/.+|.+\+(?:json|xml))$/;

/** Types with other names that are text, and the few binary formats that are not compressed themselves. */
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

/** Returns whether content of this type, such as `text/css; charset=UTF-8`, becomes smaller. */
export function isCompressibleType(type: string): boolean {
  const [essence = ""] = type.toLowerCase().split(";", 1);
  return TEXT_TYPE.test(essence.trim()) || OTHER_TYPES.has(essence.trim());
}

/** Returns whether to compress content of this type, and size in bytes. */
export function isCompressible(type: string, size: number): boolean {
  return size >= MIN_BYTES && isCompressibleType(type);
}
