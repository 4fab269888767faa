/** A token (RFC 9110 §5.6.2), such as a header's name or a subprotocol. */
export const TOKEN = /^[\w!#$%&'*+.^`|~-]+$/;

/** Returns the elements of a header whose value is a list (RFC 9110 §5.6.1), without empty ones. */
export function parseList(header: string | null): string[] {
  return (header ?? "").split(",").map((item) => item.trim()).filter((item) =>
    item !== ""
  );
}
