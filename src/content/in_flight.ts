/** Counts what is in flight, and notifies when nothing is. */
export class InFlight {
  #count = 0;
  #idle: PromiseWithResolvers<void> | undefined;

  add(): void {
    this.#count += 1;
  }

  remove(): void {
    this.#count -= 1;
    if (this.#count > 0) return;
    this.#idle?.resolve();
    this.#idle = undefined;
  }

  /** Resolves when nothing is in flight: at once, if nothing is now. */
  idle(): Promise<void> {
    if (this.#count === 0) return Promise.resolve();
    this.#idle ??= Promise.withResolvers();
    return this.#idle.promise;
  }
}
