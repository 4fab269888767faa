/** Returns one array with the bytes of all chunks. It does not copy a single chunk. No chunk may be in shared memory. */
export function concat(chunks: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const [first] = chunks;
  if (first !== undefined && chunks.length === 1) {
    return first as Uint8Array<ArrayBuffer>;
  }
  const size = chunks.reduce((sum, { length }) => sum + length, 0);
  const bytes = new Uint8Array(size);
  let offset = 0;
  for (const chunk of chunks) {
    bytes.set(chunk, offset);
    offset += chunk.length;
  }
  return bytes;
}

/** Cuts a list into slices of at most `size` items. */
export function slices<T>(items: readonly T[], size: number): T[][] {
  const all: T[][] = [];
  for (let start = 0; start < items.length; start += size) {
    all.push(items.slice(start, start + size));
  }
  return all;
}
