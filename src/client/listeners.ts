import type { ClientEnvironment } from "./environment.ts";

/** Creates a set of listeners. An exception of one is reported and does not affect the others. */
export function createListeners<Arguments extends unknown[]>(
  environment: ClientEnvironment,
) {
  const all = new Set<(...values: Arguments) => void>();
  return {
    /** Returns the number of listeners. */
    size: () => all.size,
    /**
     * Adds a listener. One that is added twice is called twice.
     *
     * @returns A function that removes it.
     */
    add(listener: (...values: Arguments) => void): () => void {
      const entry = (...values: Arguments) => listener(...values);
      all.add(entry);
      return () => void all.delete(entry);
    },
    /** Calls all listeners. */
    call(...values: Arguments): void {
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
