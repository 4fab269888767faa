/** The pending events of a simulation, run in the order of their time. Time is a number; nothing waits. */
export class EventQueue {
  readonly #heap: { at: number; run: (at: number) => void }[] = [];

  /** @param at Milliseconds since the start of the simulation. */
  add(at: number, run: (at: number) => void): void {
    const heap = this.#heap;
    let index = heap.push({ at, run }) - 1;
    for (
      let parent;
      index > 0 && this.#at(parent = (index - 1) >> 1) > this.#at(index);
      index = parent
    ) {
      this.#swap(index, parent);
    }
  }

  /** Runs all events, including those that are added meanwhile. */
  run(): void {
    for (let next; (next = this.#takeFirst()) !== undefined;) next.run(next.at);
  }

  /** Runs the events until a time, including those that are added meanwhile. */
  runUntil(end: number): void {
    while (this.#at(0) <= end) {
      const next = this.#takeFirst();
      next?.run(next.at);
    }
  }

  #takeFirst() {
    const heap = this.#heap;
    const first = heap[0];
    const last = heap.pop();
    if (last === undefined || heap.length === 0) return last;
    heap[0] = last;
    for (let index = 0;;) {
      const child = this.#at(2 * index + 2) < this.#at(2 * index + 1)
        ? 2 * index + 2
        : 2 * index + 1;
      if (this.#at(child) >= this.#at(index)) return first;
      this.#swap(index, child);
      index = child;
    }
  }

  #at(index: number): number {
    return this.#heap[index]?.at ?? Infinity;
  }

  #swap(a: number, b: number): void {
    const heap = this.#heap;
    const [one, other] = [heap[a], heap[b]];
    if (one === undefined || other === undefined) return;
    heap[a] = other;
    heap[b] = one;
  }
}
