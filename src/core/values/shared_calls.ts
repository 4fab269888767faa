/** While a call is in progress, further calls with the same key share its result. */
export class SharedCalls<T> {
  readonly #running = new Map<string, Promise<T>>();

  /** Returns the result of the call in progress, or calls the function. */
  run(key: string, call: () => Promise<T>): Promise<T> {
    const running = this.#running.get(key);
    if (running !== undefined) return running;
    const result = call().finally(() => this.#running.delete(key));
    this.#running.set(key, result);
    return result;
  }
}
