/** Something that holds bytes until its peer has read them. */
export interface Holder {
  /** How many bytes it holds now. */
  readonly heldBytes: number;
}

/** How many bytes all holders together may hold. */
const MAX_TOTAL_BYTES = 64 * 1024 * 1024;
/**
 * What a holder may hold in any case, so that peers that do not read do not cost the others their connections.
 */
const MIN_BYTES_EACH = 64 * 1024;

/** Counts the bytes that all holders together hold. */
export class HeldBytes {
  /** What each holder was last known to hold. It may hold less by now, since no event reports that. */
  readonly #counted = new Map<Holder, number>();
  #total = 0;

  /** Counts `size` more bytes that a holder is about to hold, and returns whether there is room for them. */
  hasRoomFor(holder: Holder, size: number): boolean {
    this.#count(holder, size);
    if (this.#total <= MAX_TOTAL_BYTES) return true;
    for (const other of [...this.#counted.keys()]) {
      this.#count(other, other === holder ? size : 0);
    }
    return this.#total <= MAX_TOTAL_BYTES ||
      holder.heldBytes + size <= MIN_BYTES_EACH;
  }

  /** Stops counting a holder. */
  remove(holder: Holder): void {
    this.#total -= this.#counted.get(holder) ?? 0;
    this.#counted.delete(holder);
  }

  #count(holder: Holder, size: number): void {
    this.remove(holder);
    const bytes = holder.heldBytes + size;
    if (bytes === 0) return;
    this.#counted.set(holder, bytes);
    this.#total += bytes;
  }
}
