/**
 * How much of something all gateways of a process may have in use. Each of them has a limit of its own as well, so that
 * one cannot take everything.
 */
export class Budget {
  /** How much may be in use. */
  readonly max: number;
  /** How much is in use. */
  used = 0;

  constructor(max: number) {
    this.max = max;
  }

  /** Whether nothing is left. */
  get isSpent(): boolean {
    return this.used >= this.max;
  }
}
