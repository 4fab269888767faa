/** The names of variables that only the store has. */
export const STORED_PREFIX = "STORED_";

/** How far the writes to each variable have arrived somewhere, by name. */
export type Positions = Map<string, number>;

/**
 * The writes to the variables that only the store has, in order. Wherever their values arrive, some may be left out, but
 * none may follow a later one.
 */
export class WriteOrder {
  readonly #fail: (reason: string) => void;
  readonly #written = new Map<string, (string | undefined)[]>();

  /** @param fail Called with the reason if a value follows a later one. */
  constructor(fail: (reason: string) => void) {
    this.#fail = fail;
  }

  /** The names that were ever written. */
  get names(): Iterable<string> {
    return this.#written.keys();
  }

  /** @param value A new one; `undefined` if the variable was removed. */
  write(name: string, value: string | undefined): void {
    if (!name.startsWith(STORED_PREFIX)) return;
    const values = this.#written.get(name) ?? [undefined]; // before the first write
    this.#written.set(name, [...values, value]);
  }

  /**
   * A value arrives in a place.
   *
   * @param positions What has arrived there before; this is added.
   */
  arrive(
    name: string,
    value: string | undefined,
    place: string,
    positions: Positions,
  ): void {
    const values = this.#written.get(name);
    if (values === undefined) return;
    const last = positions.get(name) ?? 0;
    const position = values.indexOf(value, last);
    if (position >= 0) positions.set(name, position);
    else {
      this.#fail(
        `${place} goes back to ${name}=${value?.slice(0, 20)} after ${
          values[last]?.slice(0, 20)
        }`,
      );
    }
  }
}
