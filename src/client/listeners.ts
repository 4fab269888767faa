import type { ClientEnvironment } from "./environment.ts";

/** Those who want to be called back. */
export interface Listeners<Arguments extends unknown[]> {
  readonly size: () => number;
  /**
   * Takes a listener in; one that is added twice is called twice.
   *
   * @returns A function that takes it out again.
   */
  readonly add: (listener: (...values: Arguments) => void) => () => void;
  readonly call: (...values: Arguments) => void;
}

/** Makes a list of listeners in which an exception of one is reported and does not keep the next from being called. */
export function createListeners<Arguments extends unknown[]>(environment: ClientEnvironment): Listeners<Arguments> {
  const all = new Set<(...values: Arguments) => void>();
  return {
    size: () => all.size,
    add(listener) {
      const own = (...values: Arguments) => listener(...values);
      all.add(own);
      return () => void all.delete(own);
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
