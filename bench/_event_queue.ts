/** The pending events of a simulation, run in the order of their time. Time is a number; nothing waits. */
export class EventQueue {
  readonly #heap: { at: number; run: (at: number) => void }[] = [];

  /** @param at Milliseconds since the start of the simulation. */
  add(at: number, run: (at: number) => void): void {
    let index = this.#heap.push({ at, run }) - 1;
    while (index > 0) {
      const parent = (index - 1) >> 1;
      if (this.#at(parent) <= this.#at(index)) return;
      this.#swap(index, parent);
      index = parent;
    }
  }

  /** Runs all events, including events that are added during the run. */
  run(): void {
    this.runUntil(Infinity);
  }

  /** Runs the events until a time, including events that are added during the run. */
  runUntil(end: number): void {
    while (this.#heap.length > 0 && this.#at(0) <= end) {
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
    let index = 0;
    for (;;) {
      const [left, right] = [2 * index + 1, 2 * index + 2];
      const child = this.#at(right) < this.#at(left) ? right : left;
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
