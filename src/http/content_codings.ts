import { parseList } from "./list_field.ts";

/** Returns whether content is encoded. Some servers send the coding `identity`, which means that it is not. */
export function isEncoded(headers: Headers): boolean {
  return contentCodings(headers).length > 0;
}

/** Returns the codings of content in the order in which they were applied (RFC 9110 §8.4). */
export function contentCodings(headers: Headers): string[] {
  return parseCodings(headers.get("content-encoding")).filter((coding) => coding !== "identity");
}

/** Parses a list of codings, whose names are not case-sensitive. */
export function parseCodings(header: string | null): string[] {
  return parseList(header).map((item) => item.toLowerCase());
}
