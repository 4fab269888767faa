import { setImmediate } from "node:timers";

/** The operations of `crypto.subtle` that the gateway uses. They run on other threads. */
const OPERATIONS = [
  "decrypt",
  "deriveBits",
  "digest",
  "encrypt",
  "importKey",
  "sign",
  "verify",
] as const;

/**
 * Waits until a gateway has nothing left to do but wait for its clock, and makes it the same in every run: the
 * gateway's only asynchronous operations, those of `crypto.subtle`, are counted, and its random identifiers come from a
 * seed.
 */
export class Settling implements Disposable {
  readonly #restore: (() => void)[] = [];
  #pending = 0;
  #started = 0;
  /** One operation at a time, so that they always end in the same order. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(random: () => number) {
    for (const name of OPERATIONS) this.#count(name);
    const digits = () =>
      Math.floor(random() * 16 ** 6).toString(16).padStart(6, "0");
    this.#replace(
      crypto,
      "randomUUID",
      () =>
        `${digits()}${
          digits().slice(0, 2)
        }-0000-4000-8000-${digits()}${digits()}`,
    );
  }

  /** Resolves after a turn of the event loop during which no operation was pending. */
  readonly settle = async (): Promise<void> => {
    for (let isSettled = false; !isSettled;) {
      const before = this.#started;
      isSettled = this.#pending === 0;
      await this.#turn();
      isSettled &&= this.#started === before;
    }
  };

  /** All promise reactions run before the callback. A timer would take thirty times as long. */
  #turn(): Promise<void> {
    return new Promise((resolve) => void setImmediate(resolve));
  }

  [Symbol.dispose](): void {
    for (const restore of this.#restore) restore();
  }

  #count(name: typeof OPERATIONS[number]): void {
    const original = crypto.subtle[name] as (
      ...args: unknown[]
    ) => Promise<unknown>;
    this.#replace(crypto.subtle, name, (...args: unknown[]) => {
      this.#pending++;
      this.#started++;
      const result = this.#last.then(() => original.apply(crypto.subtle, args))
        .finally(() => this.#pending--);
      this.#last = result.catch(() => {}); // the caller handles the rejection
      return result;
    });
  }

  #replace(target: object, name: string, value: unknown): void {
    Object.defineProperty(target, name, {
      value,
      configurable: true,
      writable: true,
    });
    this.#restore.push(() => void Reflect.deleteProperty(target, name)); // the original is on the prototype
  }
}
