/** Runs asynchronous functions one at a time, in the order of the calls. */
export class SerialQueue {
  /** Never rejects. */
  #last: Promise<unknown> = Promise.resolve();

  /** Runs a function once all earlier ones have settled, and returns its result. */
  run<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#last.then(work);
    this.#last = result.catch(() => {}); // the caller handles the rejection
    return result;
  }

  /** Resolves once all functions that have been passed to it until now have settled, also if one has failed. */
  async settled(): Promise<void> {
    await this.#last;
  }
}
