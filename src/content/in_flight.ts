/** Counts what is in flight, and notifies when nothing is. */
export class InFlight {
  #count = 0;
  #idle: PromiseWithResolvers<void> | undefined;

  /**
   * Adds one.
   *
   * @returns A function that removes it. Only its first call has an effect.
   */
  add(): () => void {
    let isRemoved = false;
    this.#count += 1;
    return () => {
      if (!isRemoved) this.#remove();
      isRemoved = true;
    };
  }

  /** Resolves when nothing is in flight: at once, if nothing is now. */
  idle(): Promise<void> {
    if (this.#count === 0) return Promise.resolve();
    this.#idle ??= Promise.withResolvers();
    return this.#idle.promise;
  }

  #remove(): void {
    this.#count -= 1;
    if (this.#count > 0) return;
    this.#idle?.resolve();
    this.#idle = undefined;
  }
}
