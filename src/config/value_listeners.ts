import { type Log, logTaskError } from "../observe/log.ts";
import type { Snapshot } from "./variables/snapshot.ts";

/** Hears of a variable's new value, `undefined` if it was deleted, and of the old one, `undefined` if it is new. */
export type ValueListener = (
  newValue: string | undefined,
  oldValue: string | undefined,
) => void;

/** Those who hear of reloads that change a variable. */
export class ValueListeners {
  readonly #log: Log;
  readonly #listeners = new Set<
    { readonly name: string; readonly listener: ValueListener }
  >();

  constructor(log: Log) {
    this.#log = log;
  }

  /** Adds a listener. Returns a function that removes it. */
  add(name: string, listener: ValueListener): () => void {
    const entry = { name, listener };
    this.#listeners.add(entry);
    return () => void this.#listeners.delete(entry);
  }

  /** Calls the listeners of the variables that differ. An error of one is logged, and does not affect the others. */
  notify(before: Snapshot, after: Snapshot): void {
    for (const { name, listener } of [...this.#listeners]) {
      const [newValue, oldValue] = [
        valueOf(after, name),
        valueOf(before, name),
      ];
      if (newValue === oldValue) continue;
      try {
        listener(newValue, oldValue);
      } catch (error) {
        logTaskError(this.#log, "onChange")(error);
      }
    }
  }
}

/** A name is in one tier only. */
function valueOf(snapshot: Snapshot, name: string): string | undefined {
  return snapshot.public.get(name) ?? snapshot.sensitive.get(name) ??
    snapshot.serverValue(name);
}
