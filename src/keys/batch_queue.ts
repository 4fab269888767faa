/** Options of {@linkcode BatchQueue}. */
interface BatchQueueOptions<T> {
  /** How many keys a batch may have. Read before every batch. */
  maxSize: () => number;
  /** Processes a batch: the items of each key, in the order in which they were added. It must not reject. */
  run: (batch: ReadonlyMap<string, readonly T[]>) => Promise<void>;
}

/** How many batches run at once. */
const MAX_RUNNING = 4;

/**
 * Collects items into batches, as databases do with commits: what is added while a batch runs forms the next one. So a
 * single item never waits for others, and the more there are, the larger batches become.
 *
 * Another batch starts at once only if it is full, since it would not become larger by waiting. The items of one key
 * never run in two batches at the same time.
 */
export class BatchQueue<T> {
  readonly #options: BatchQueueOptions<T>;
  readonly #waiting = new Map<string, T[]>();
  /** The keys of the batches that run. */
  readonly #running = new Set<string>();
  #batches = 0;

  constructor(options: BatchQueueOptions<T>) {
    this.#options = options;
  }

  /** Adds an item to the next batch. */
  add(key: string, item: T): void {
    const items = this.#waiting.get(key);
    if (items === undefined) this.#waiting.set(key, [item]);
    else items.push(item);
    this.#start();
  }

  /** Starts a batch if nothing runs, and full ones beside others. */
  #start(): void {
    const maxSize = this.#options.maxSize();
    while (this.#waiting.size > 0 && this.#batches < MAX_RUNNING) {
      if (this.#batches > 0 && this.#waiting.size < maxSize) return;
      const keys = this.#nextKeys(maxSize);
      if (keys.length < (this.#batches === 0 ? 1 : maxSize)) return;
      void this.#run(this.#take(keys));
    }
  }

  #nextKeys(count: number): string[] {
    return [
      ...this.#waiting.keys().filter((key) => !this.#running.has(key)).take(
        count,
      ),
    ];
  }

  #take(keys: readonly string[]): Map<string, T[]> {
    const batch = new Map(
      keys.map((key) => [key, this.#waiting.get(key) ?? []]),
    );
    for (const key of keys) this.#waiting.delete(key);
    return batch;
  }

  async #run(batch: ReadonlyMap<string, readonly T[]>): Promise<void> {
    this.#batches++;
    for (const key of batch.keys()) this.#running.add(key);
    await this.#options.run(batch);
    for (const key of batch.keys()) this.#running.delete(key);
    this.#batches--;
    this.#start();
  }
}
