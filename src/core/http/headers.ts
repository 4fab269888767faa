/**
 * Copies headers, each `Set-Cookie` separately. It does not use `new Headers(headers)`, which takes quadratic time in
 * Deno 2.9, where every step of the iterator sorts all headers.
 *
 * @param isKept Selects headers by their names in lower case.
 */
export function copyHeaders(
  headers: Headers,
  isKept: (name: string) => boolean = () => true,
): Headers {
  const copy = new Headers();
  headers.forEach((value, name) => {
    if (isKept(name)) copy.append(name, value);
  });
  return copy;
}

/** Returns the value of `Vary` with further names, unless it already lists them or `*` (RFC 9110 §12.5.5). */
export function addToVary(
  vary: string | null,
  names: readonly string[],
): string {
  const listed = parseList(vary?.toLowerCase() ?? null);
  if (vary !== null && listed.includes("*")) return vary;
  const missing = names.filter((name) => !listed.includes(name.toLowerCase()));
  return (vary ? [vary, ...missing] : missing).join(", ");
}

/** A token (RFC 9110 §5.6.2), such as a header's name or a subprotocol. */
export const TOKEN = /^[\w!#$%&'*+.^`|~-]+$/;

/** Returns the elements of a header whose value is a list (RFC 9110 §5.6.1), without empty ones. */
export function parseList(header: string | null): string[] {
  return (header ?? "").split(",").map((item) => item.trim()).filter((item) =>
    item !== ""
  );
}

/** Returns whether content is encoded. Some servers send the coding `identity` for content that is not. */
export function isEncoded(headers: Headers): boolean {
  return contentCodings(headers).length > 0;
}

/** Returns the codings of content, in the order in which they were applied (RFC 9110 §8.4). */
export function contentCodings(headers: Headers): string[] {
  const codings = parseCodings(headers.get("content-encoding"));
  return codings.filter((coding) => coding !== "identity");
}

/** Parses a list of codings, whose names are not case-sensitive. */
export function parseCodings(header: string | null): string[] {
  return parseList(header?.toLowerCase() ?? null);
}
