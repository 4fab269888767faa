/** What a gateway does otherwise than a clause asks. */
export class Nonconformance extends Error {
  /** The name of the class. */
  override name = "Nonconformance";
}

/** @throws {Nonconformance} If the condition is false. */
export function expect(
  condition: boolean,
  otherwise: string,
): asserts condition {
  if (!condition) throw new Nonconformance(otherwise);
}

/** Compares what JSON can express. */
export function expectEqual(
  what: string,
  actual: unknown,
  expected: unknown,
): void {
  const [is, shouldBe] = [JSON.stringify(actual), JSON.stringify(expected)];
  expect(is === shouldBe, `${what}: expected ${shouldBe}, got ${is}`);
}
