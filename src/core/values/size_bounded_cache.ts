interface Entry<V> {
  readonly value: V;
  readonly size: number;
}

/** Caches that share a limit. If it is exceeded, the largest one gives back what was set first. */
export class CacheGroup {
  readonly #caches = new Set<SizeBoundedCache<unknown>>();
  readonly #maxSize: number;

  /** Creates a group for caches whose sizes add up to at most `maxSize`. */
  constructor(maxSize: number) {
    this.#maxSize = maxSize;
  }

  add(cache: SizeBoundedCache<unknown>): void {
    this.#caches.add(cache);
  }

  delete(cache: SizeBoundedCache<unknown>): void {
    this.#caches.delete(cache);
  }

  /** Removes values until the limit is kept. */
  fit(): void {
    const caches = [...this.#caches];
    let size = caches.reduce((sum, cache) => sum + cache.size, 0);
    while (size > this.#maxSize) {
      const largest = caches.reduce((a, b) => a.size >= b.size ? a : b);
      size -= largest.size;
      largest.removeFirst();
      size += largest.size;
    }
  }
}

/** A cache of limited size. If it is full, it removes the values that were set first. */
export class SizeBoundedCache<V> {
  readonly #entries = new Map<string, Entry<V>>();
  readonly #maxSize: number;
  readonly #group: CacheGroup | undefined;
  #size = 0;

  /** Creates an empty cache for values whose sizes add up to at most `maxSize`, and those of a group to its limit. */
  constructor(maxSize: number, group?: CacheGroup) {
    this.#maxSize = maxSize;
    this.#group = group;
    group?.add(this);
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
    this.#group?.fit();
    if (this.#size <= this.#maxSize) return; // after many deletions, V8 takes long to find the oldest entry
    for (const oldest of this.#entries.keys()) {
      this.delete(oldest);
      if (this.#size <= this.#maxSize) return;
    }
  }

  /** Removes the value that was set first. */
  removeFirst(): void {
    const first = this.#entries.keys().next();
    if (!first.done) this.delete(first.value);
  }

  delete(key: string): void {
    this.#size -= this.#entries.get(key)?.size ?? 0;
    this.#entries.delete(key);
  }
}
