import type { ClientEnvironment } from "./environment.ts";

/** A set of listeners. */
interface Listeners<Arguments extends unknown[]> {
  /** Returns the number of listeners. */
  readonly size: () => number;
  /**
   * Adds a listener. One that is added twice is called twice.
   *
   * @returns A function that removes it.
   */
  readonly add: (listener: (...values: Arguments) => void) => () => void;
  /** Calls all listeners. */
  readonly call: (...values: Arguments) => void;
}

/** Creates a set of listeners. An exception of one is reported and does not affect the others. */
export function createListeners<Arguments extends unknown[]>(environment: ClientEnvironment): Listeners<Arguments> {
  const all = new Set<(...values: Arguments) => void>();
  return {
    size: () => all.size,
    add(listener) {
      const entry = (...values: Arguments) => listener(...values);
      all.add(entry);
      return () => void all.delete(entry);
    },
    call(...values) {
      for (const listener of [...all]) {
        try {
          listener(...values);
        } catch (error) {
          environment.reportError(error);
        }
      }
    },
  };
}
