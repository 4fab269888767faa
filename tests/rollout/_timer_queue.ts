interface Timer {
  readonly at: number;
  readonly order: number;
  readonly callback: () => void;
  isCancelled: boolean;
}

/** Timers in order; a heap, since ten thousand simulations have to run in half a minute. */
export class TimerQueue {
  readonly #heap: Timer[] = [];
  #count = 0;

  /** Adds a timer; returns a function that cancels it. */
  add(at: number, callback: () => void): () => void {
    const timer = { at, order: this.#count++, callback, isCancelled: false };
    const heap = this.#heap;
    let index = heap.push(timer) - 1;
    for (
      let parent = (index - 1) >> 1;
      index > 0 && isBefore(timer, heap[parent]);
      parent = (index - 1) >> 1
    ) {
      heap[index] = heap[parent] as Timer;
      index = parent;
    }
    heap[index] = timer;
    return () => void (timer.isCancelled = true);
  }

  /** Removes and returns the first timer that is due by `end`. */
  next(end: number): Timer | undefined {
    const [first] = this.#heap;
    if (first === undefined || first.at > end) return undefined;
    const last = this.#heap.pop() as Timer;
    if (this.#heap.length > 0) this.#sink(last);
    return first;
  }

  #sink(timer: Timer): void {
    const heap = this.#heap;
    let index = 0;
    for (let child = 1; child < heap.length; child = 2 * index + 1) {
      if (isBefore(heap[child + 1], heap[child])) child++;
      if (!isBefore(heap[child], timer)) break;
      heap[index] = heap[child] as Timer;
      index = child;
    }
    heap[index] = timer;
  }
}

function isBefore(a: Timer | undefined, b: Timer | undefined): boolean {
  if (a === undefined || b === undefined) return false;
  return a.at === b.at ? a.order < b.order : a.at < b.at;
}
