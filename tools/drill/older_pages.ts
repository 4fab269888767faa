/** Notices pages with an older value than a page had that was there before they were requested. */
export class OlderPages {
  /** When a page first had each value, in milliseconds. */
  readonly #firstAt = new Map<number, number>();

  /**
   * Adds a page.
   *
   * @param value Its value. Newer ones are greater.
   * @returns For how long there had been a page with a newer value when it was requested; 0 if there was none.
   */
  add(
    value: number,
    { requestedAt, receivedAt }: { requestedAt: number; receivedAt: number },
  ): number {
    if (!this.#firstAt.has(value)) this.#firstAt.set(value, receivedAt);
    const newer = this.#firstAt.entries().filter(([other]) => other > value);
    const first = Math.min(requestedAt, ...newer.map(([, at]) => at));
    return requestedAt - first;
  }
}
