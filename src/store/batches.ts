/** A change of one variable, as far as its size matters. */
export interface Sized {
  readonly name: string;
  readonly value?: string;
}

/**
 * A commit of Deno KV takes 800 KiB, of which 80 KiB are keys, and 1,000 writes. A change is written twice, with its name in one
 * of the two keys, and takes at most one old entry away.
 */
const MAX_BYTES = 600_000;
const MAX_KEY_BYTES = 60_000;
const MAX_CHANGES = 200;
/** What the keys of one change hold beside the name, and its values beside the text. */
const OVERHEAD_BYTES = 100;

const encoder = new TextEncoder();

/** Splits changes into commits that the store can take. */
export function batches<C extends Sized>(changes: readonly C[]): C[][] {
  const all: C[][] = [];
  let [bytes, keyBytes] = [Infinity, Infinity];
  for (const change of changes) {
    const ofKeys = encoder.encode(change.name).length + OVERHEAD_BYTES;
    const ofAll = 2 * (encoder.encode(change.value ?? "").length + ofKeys);
    const isFull = (all.at(-1)?.length ?? 0) >= MAX_CHANGES || bytes + ofAll > MAX_BYTES ||
      keyBytes + ofKeys > MAX_KEY_BYTES;
    if (isFull) {
      all.push([]);
      [bytes, keyBytes] = [0, 0];
    }
    all.at(-1)?.push(change);
    [bytes, keyBytes] = [bytes + ofAll, keyBytes + ofKeys];
  }
  return all;
}
