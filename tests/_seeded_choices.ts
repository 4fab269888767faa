import { seededRandom } from "../tools/seeded_random.ts";

/** Random choices that are the same for a given seed. A simulation extends it. */
export class SeededChoices {
  readonly random: () => number;

  constructor(seed: number) {
    this.random = seededRandom(seed);
  }

  /** Returns a random integer from `from` to `to`. */
  between(from: number, to: number): number {
    return from + Math.floor(this.random() * (to - from + 1));
  }

  chance(probability: number): boolean {
    return this.random() < probability;
  }

  pick<T>(items: readonly T[]): T {
    return items[Math.floor(this.random() * items.length)] as T;
  }
}
