/** What is to happen, in the order of its time. Nothing waits: time is a number. */
export class Agenda {
  readonly #heap: { at: number; act: (at: number) => void }[] = [];

  /** @param at Milliseconds since the beginning. */
  add(at: number, act: (at: number) => void): void {
    const heap = this.#heap;
    let place = heap.push({ at, act }) - 1;
    for (let parent; place > 0 && this.#at(parent = (place - 1) >> 1) > this.#at(place); place = parent) {
      this.#swap(place, parent);
    }
  }

  /** Lets everything happen, and what comes of it. */
  run(): void {
    for (let next; (next = this.#takeFirst()) !== undefined;) next.act(next.at);
  }

  #takeFirst() {
    const heap = this.#heap;
    const first = heap[0];
    const last = heap.pop();
    if (last === undefined || heap.length === 0) return last;
    heap[0] = last;
    for (let place = 0;;) {
      const child = this.#at(2 * place + 2) < this.#at(2 * place + 1) ? 2 * place + 2 : 2 * place + 1;
      if (this.#at(child) >= this.#at(place)) return first;
      this.#swap(place, child);
      place = child;
    }
  }

  #at(place: number): number {
    return this.#heap[place]?.at ?? Infinity;
  }

  #swap(a: number, b: number): void {
    const heap = this.#heap;
    const [one, other] = [heap[a], heap[b]];
    if (one === undefined || other === undefined) return;
    heap[a] = other;
    heap[b] = one;
  }
}
