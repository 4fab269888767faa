/** Some of a file's bytes. */
export interface ByteRange {
  /** The first byte. */
  start: number;
  /** The byte after the last one. */
  end: number;
}

/**
 * Reads a `Range` header for a representation of `size` bytes (RFC 9110 §14.1.2 and §14.2).
 *
 * @returns Nothing if the whole is to be sent: the header is malformed, of another unit, or asks for several ranges,
 * which a server may ignore. `unsatisfiable` if the range has no byte of the representation.
 */
export function parseByteRange(header: string, size: number): ByteRange | "unsatisfiable" | undefined {
  const [, first, last] = /^bytes=(\d*)-(\d*)$/i.exec(header) ?? [];
  if (first === undefined || last === undefined || first + last === "") return undefined;
  if (first !== "" && last !== "" && Number(last) < Number(first)) return undefined; // invalid, so to be ignored
  const range = first === "" ? suffixOf(size, Number(last)) : rangeFrom(Number(first), last, size);
  return range.start < range.end ? range : "unsatisfiable";
}

function suffixOf(size: number, length: number): ByteRange {
  return { start: Math.max(0, size - length), end: size };
}

function rangeFrom(start: number, last: string, size: number): ByteRange {
  return { start, end: last === "" ? size : Math.min(Number(last) + 1, size) };
}
