/** A map of limited size. When it is full, a new entry replaces the one that was set least recently. */
export class BoundedMap<V> {
  readonly #entries = new Map<string, V>();
  readonly #maxSize: number;

  /** Creates an empty map of at most `maxSize` entries. */
  constructor(maxSize: number) {
    this.#maxSize = maxSize;
  }

  /** Returns the value of a key. Reading does not make an entry more recent. */
  get(key: string): V | undefined {
    return this.#entries.get(key);
  }

  /** Sets the value of a key. */
  set(key: string, value: V): void {
    this.#entries.delete(key);
    this.#entries.set(key, value);
    if (this.#entries.size <= this.#maxSize) return; // V8 takes long to find the oldest one after many deletions
    const [oldest] = this.#entries.keys();
    if (oldest !== undefined) this.#entries.delete(oldest);
  }

  /** Removes a key. */
  delete(key: string): void {
    this.#entries.delete(key);
  }
}
