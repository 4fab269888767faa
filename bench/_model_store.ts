/** What operations cost a store, in microseconds of its time. */
export interface StoreCosts {
  readonly getUs: number;
  /** Each further key of a read. */
  readonly keyUs: number;
  /** A list that returns nothing, and each entry that it returns. */
  readonly listUs: number;
  readonly entryUs: number;
  readonly commitUs: number;
  /** Each further write of a commit, with its check. */
  readonly writeUs: number;
}

/** A store that runs one operation at a time, as a SQLite file and a `denokv` server do. Times are in milliseconds. */
export class ModelStore {
  readonly #costs: StoreCosts;
  readonly #slowdown: number;
  #freeAt = 0;
  /** The number of operations so far. */
  operations = 0;

  /** @param otherLoad The share of its time that goes to operations that are not modelled one by one; below 1. */
  constructor(costs: StoreCosts, otherLoad = 0) {
    this.#costs = costs;
    this.#slowdown = 1 / (1 - otherLoad);
  }

  /** When all operations so far are done. */
  get freeAt(): number {
    return this.#freeAt;
  }

  /** @param at When the operation arrives; never before an earlier one. @returns When it is done. */
  get(at: number, keys = 1): number {
    return this.#serve(at, this.#costs.getUs + (keys - 1) * this.#costs.keyUs);
  }

  /** @param entries How many entries it returns. */
  list(at: number, entries: number): number {
    return this.#serve(at, this.#costs.listUs + entries * this.#costs.entryUs);
  }

  commit(at: number, writes = 1): number {
    return this.#serve(
      at,
      this.#costs.commitUs + (writes - 1) * this.#costs.writeUs,
    );
  }

  #serve(at: number, us: number): number {
    this.operations++;
    return this.#freeAt = Math.max(at, this.#freeAt) +
      us / 1_000 * this.#slowdown;
  }
}
