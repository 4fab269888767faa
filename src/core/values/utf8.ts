const encoder = new TextEncoder();
/** Keeps a U+FEFF at the beginning, which belongs to a value. */
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

/** Returns a text as UTF-8. */
export function toUtf8(text: string): Uint8Array<ArrayBuffer> {
  return encoder.encode(text);
}

/** Returns the text that {@linkcode toUtf8} has turned into these bytes. */
export function fromUtf8(bytes: Uint8Array): string {
  return decoder.decode(bytes);
}
