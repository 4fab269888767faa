/** A value of a {@linkcode SizeBoundedCache}, with its size in bytes. */
interface Entry<V> {
  readonly value: V;
  readonly bytes: number;
}

/** A cache of limited size in bytes. When it is full, the values are removed that were set least recently. */
export class SizeBoundedCache<V> {
  readonly #entries = new Map<string, Entry<V>>();
  readonly #maxBytes: number;
  #bytes = 0;

  /** Creates an empty cache of values that have at most `maxBytes` bytes together. */
  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** The size of all values, in bytes. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Returns the value of a key. Reading does not make it more recent. */
  get(key: string): V | undefined {
    return this.#entries.get(key)?.value;
  }

  /** Sets the value of a key and its size. A value that is larger than the cache is not kept. */
  set(key: string, value: V, bytes: number): void {
    this.delete(key);
    if (bytes > this.#maxBytes) return;
    this.#entries.set(key, { value, bytes });
    this.#bytes += bytes;
    for (const [oldest] of this.#entries) {
      if (this.#bytes <= this.#maxBytes) return;
      this.delete(oldest);
    }
  }

  /** Removes a key. */
  delete(key: string): void {
    this.#bytes -= this.#entries.get(key)?.bytes ?? 0;
    this.#entries.delete(key);
  }
}
