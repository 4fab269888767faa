interface Entry<V> {
  readonly value: V;
  readonly size: number;
}

/** A cache of limited size. If it is full, it removes the values that were set first. */
export class SizeBoundedCache<V> {
  readonly #entries = new Map<string, Entry<V>>();
  readonly #maxSize: number;
  #size = 0;

  /** Creates an empty cache for values whose sizes add up to at most `maxSize`. */
  constructor(maxSize: number) {
    this.#maxSize = maxSize;
  }

  /** The size of all values. */
  get size(): number {
    return this.#size;
  }

  get(key: string): V | undefined {
    return this.#entries.get(key)?.value;
  }

  /** Sets the value of a key, unless it is larger than the cache. If no value has a size, values are counted. */
  set(key: string, value: V, size = 1): void {
    this.delete(key);
    if (size > this.#maxSize) return;
    this.#entries.set(key, { value, size });
    this.#size += size;
    if (this.#size <= this.#maxSize) return; // after many deletions, V8 takes long to find the oldest entry
    for (const oldest of this.#entries.keys()) {
      this.delete(oldest);
      if (this.#size <= this.#maxSize) return;
    }
  }

  delete(key: string): void {
    this.#size -= this.#entries.get(key)?.size ?? 0;
    this.#entries.delete(key);
  }

  clear(): void {
    this.#entries.clear();
    this.#size = 0;
  }
}
