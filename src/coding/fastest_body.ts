const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/**
 * Returns the body with which a response with these bytes takes the least time: a string if all of them are ASCII
 * characters, since `Deno.serve` sends strings faster (docs/development/performance.md). With other characters, V8 keeps two bytes
 * for each of them.
 */
export function fastestBody(
  bytes: Uint8Array<ArrayBuffer>,
): string | Uint8Array<ArrayBuffer> {
  const text = decode(bytes);
  return text?.length === bytes.length ? text : bytes; // any other character has more bytes than UTF-16 code units
}

function decode(bytes: Uint8Array<ArrayBuffer>): string | undefined {
  try {
    return decoder.decode(bytes);
  } catch {
    return undefined; // not UTF-8
  }
}
