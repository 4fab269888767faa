import type { Entry, Key, ListOptions } from "./store.ts";

/** The last part of a key. */
type Name = Key[number];

/** Entries sorted by the last part of their keys. */
export class SortedEntries {
  readonly #entries: Entry[] = [];

  /** Returns the entry with a name. */
  get(name: Name): Entry | undefined {
    const entry = this.#entries[this.#indexOf(name)];
    return entry?.key.at(-1) === name ? entry : undefined;
  }

  /** Adds an entry, or replaces the one with the same name. */
  set(entry: Entry): void {
    const name = entry.key.at(-1) ?? "";
    const replaced = this.get(name) === undefined ? 0 : 1;
    this.#entries.splice(this.#indexOf(name), replaced, entry);
  }

  /** Removes the entry with a name, if there is one. */
  delete(name: Name): void {
    if (this.get(name) === undefined) return;
    this.#entries.splice(this.#indexOf(name), 1);
  }

  /** Returns the selected entries in order. */
  list({ from, limit = Infinity, reverse = false }: ListOptions = {}): Entry[] {
    const start = from === undefined ? 0 : this.#indexOf(from);
    if (!reverse) return this.#entries.slice(start, start + limit);
    const end = this.#entries.length;
    return this.#entries.slice(Math.max(start, end - limit)).reverse();
  }

  /** Returns the index of the first entry that is not before a name. */
  #indexOf(name: Name): number {
    let low = 0;
    let high = this.#entries.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      const other = this.#entries[middle]?.key.at(-1) ?? "";
      if (isBefore(other, name)) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

/** Deno KV sorts strings before numbers. */
function isBefore(a: Name, b: Name): boolean {
  return typeof a === typeof b ? a < b : typeof a === "string";
}
