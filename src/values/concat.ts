/** Returns one array with the bytes of all chunks, none of which is in shared memory. A single chunk is not copied. */
export function concat(chunks: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const [first] = chunks;
  if (first !== undefined && chunks.length === 1) {
    return first as Uint8Array<ArrayBuffer>;
  }
  const bytes = new Uint8Array(
    chunks.reduce((sum, { length }) => sum + length, 0),
  );
  let offset = 0;
  for (const chunk of chunks) {
    bytes.set(chunk, offset);
    offset += chunk.length;
  }
  return bytes;
}
