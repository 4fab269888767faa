/** One statement about the module, which holds in every runtime that is not excepted. */
export interface Check {
  /** The statement. */
  readonly name: string;
  /** Throws if it does not hold. */
  readonly run: () => Promise<void>;
  /** Why it does not hold in workers, which have neither files, servers nor an environment. @default {it does} */
  readonly notInWorkers?: string;
}

/** Compares what JSON can express, since the assertions of one runtime do not run in all others. */
export function equal(actual: unknown, expected: unknown): void {
  const [is, shouldBe] = [actual, expected].map((value) =>
    JSON.stringify(value)
  );
  if (is !== shouldBe) throw new Error(`expected ${shouldBe}, got ${is}`);
}

/** Returns the message of what a promise rejects with. */
export async function messageOfRejection(
  work: Promise<unknown>,
): Promise<string> {
  return await work.then(() => "nothing", (error: Error) => error.message);
}
