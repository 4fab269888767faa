/** A limit of what clients may have open, and which of them has how much of it. */
export class Budget {
  readonly #max: number;
  readonly #maxPerClient: number;
  /** How many each client has open, for clients with at least one. */
  readonly #clients = new Map<string, number>();
  #count = 0;

  /**
   * @param max How many may be open in all.
   * @param maxPerClient How many one client may have open, so that it leaves room for others.
   */
  constructor(max: number, maxPerClient: number) {
    this.#max = max;
    this.#maxPerClient = maxPerClient;
  }

  /** How many are open in all. */
  get count(): number {
    return this.#count;
  }

  /** Returns the limit that keeps a client from opening one more; `undefined` if none does. */
  limitOf(clientKey: string): "total" | "client" | undefined {
    if (this.#countOf(clientKey) >= this.#maxPerClient) return "client";
    return this.#count < this.#max ? undefined : "total";
  }

  /** Counts what was opened. */
  add(clientKey: string): void {
    this.#count++;
    this.#clients.set(clientKey, this.#countOf(clientKey) + 1);
  }

  /** Counts what has ended. */
  remove(clientKey: string): void {
    this.#count--;
    const count = this.#countOf(clientKey) - 1;
    if (count > 0) this.#clients.set(clientKey, count);
    else this.#clients.delete(clientKey);
  }

  #countOf(clientKey: string): number {
    return this.#clients.get(clientKey) ?? 0;
  }
}
