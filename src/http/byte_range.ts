/** A range of a file's bytes. */
export interface ByteRange {
  /** The offset of the first byte. */
  start: number;
  /** The offset after the last byte. */
  end: number;
}

/**
 * Parses a `Range` header for a representation of `size` bytes (RFC 9110 §14.1.2 and §14.2).
 *
 * @returns `undefined` if the header is to be ignored: it is malformed, has another unit, or asks for several ranges,
 * which a server may ignore. `unsatisfiable` if no byte of the representation is in the range.
 */
export function parseByteRange(
  header: string,
  size: number,
): ByteRange | "unsatisfiable" | undefined {
  const [, first, last] = /^bytes=(\d*)-(\d*)$/i.exec(header) ?? [];
  if (first === undefined || last === undefined || first + last === "") {
    return undefined;
  }
  if (first !== "" && last !== "" && Number(last) < Number(first)) {
    return undefined; // invalid, and so ignored
  }
  const range = first === ""
    ? suffixRange(Number(last), size)
    : rangeFrom(Number(first), last, size);
  return range.start < range.end ? range : "unsatisfiable";
}

function suffixRange(length: number, size: number): ByteRange {
  return { start: Math.max(0, size - length), end: size };
}

function rangeFrom(start: number, last: string, size: number): ByteRange {
  return { start, end: last === "" ? size : Math.min(Number(last) + 1, size) };
}
