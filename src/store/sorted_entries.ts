import type { Entry, ListOptions } from "./store.ts";

/** The last part of a key. */
type Name = string | number;

/** A block is split when it exceeds this size, so that a write moves at most this many entries. */
const MAX_BLOCK = 512;

/** Entries sorted by the last part of their keys, in blocks: in a single array, every write would move half of it. */
export class SortedEntries {
  /** No block is empty. */
  readonly #blocks: Entry[][] = [];

  /** Returns the entry with a name. */
  get(name: Name): Entry | undefined {
    const { block, index } = this.#locate(name);
    const entry = this.#blocks[block]?.[index];
    return nameOf(entry) === name ? entry : undefined;
  }

  /** Adds an entry, or replaces the one with the same name. */
  set(entry: Entry): void {
    const name = nameOf(entry) ?? "";
    const { block, index } = this.#locate(name);
    const entries = this.#blocks[block];
    if (entries === undefined) return void this.#blocks.push([entry]);
    if (nameOf(entries[index]) === name) entries[index] = entry;
    else entries.splice(index, 0, entry);
    if (entries.length > MAX_BLOCK) this.#split(block);
  }

  /** Removes the entry with a name, if there is one. */
  delete(name: Name): void {
    const { block, index } = this.#locate(name);
    const entries = this.#blocks[block];
    if (nameOf(entries?.[index]) !== name) return;
    entries?.splice(index, 1);
    if (entries?.length === 0) this.#blocks.splice(block, 1);
  }

  /** Returns the selected entries in order. */
  list({ from, limit = Infinity, reverse = false }: ListOptions = {}): Entry[] {
    const first = from === undefined
      ? { block: 0, index: 0 }
      : this.#locate(from);
    const found = (block: number) =>
      this.#blocks[block]?.slice(block === first.block ? first.index : 0) ?? [];
    const selected: Entry[] = [];
    const count = this.#blocks.length - first.block;
    for (let offset = 0; offset < count && selected.length < limit; offset++) {
      const entries = reverse
        ? found(this.#blocks.length - 1 - offset).reverse()
        : found(first.block + offset);
      for (const entry of entries.slice(0, limit - selected.length)) {
        selected.push(entry);
      }
    }
    return selected;
  }

  /** Appended entries fill a block and then begin a new one. */
  #split(block: number): void {
    const isLast = block === this.#blocks.length - 1;
    const rest =
      this.#blocks[block]?.splice(isLast ? MAX_BLOCK : MAX_BLOCK / 2) ?? [];
    this.#blocks.splice(block + 1, 0, rest);
  }

  /** Returns the position of a name, or the position at which to insert it. */
  #locate(name: Name): { block: number; index: number } {
    const after = firstIndex(
      this.#blocks,
      (entries) => isBefore(name, nameOf(entries[0]) ?? ""),
    );
    const block = Math.max(0, after - 1);
    return {
      block,
      index: firstIndex(
        this.#blocks[block] ?? [],
        (entry) => !isBefore(nameOf(entry) ?? "", name),
      ),
    };
  }
}

function nameOf(entry: Entry | undefined): Name | undefined {
  return entry?.key.at(-1);
}

/** Returns the index of the first item with a property that all items after it have as well. */
function firstIndex<T>(
  items: readonly T[],
  hasProperty: (item: T) => boolean,
): number {
  let low = 0;
  let high = items.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (hasProperty(items[middle] as T)) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** Deno KV sorts strings before numbers. */
function isBefore(a: Name, b: Name): boolean {
  return typeof a === typeof b ? a < b : typeof a === "string";
}
