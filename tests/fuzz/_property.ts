import * as fc from "fast-check";
import process from "node:process";

/** How many cases all properties check together; `deno task fuzz` checks 1,000,000. */
const CASES = Number(Deno.env.get("FUZZ_CASES") ?? 16_000);
/** Repeats a run; a failure names the seed. */
const SEED = Deno.env.get("FUZZ_SEED");
/** How many properties of all files share the cases. */
const PROPERTIES = 22;
const MAX_MS = 50;
/** A case that takes too long is repeated: its first run may have had code to compile, or garbage to collect. */
const ATTEMPTS = 5;

/**
 * Registers a test that a property holds for random inputs, and that no input takes more than 50 ms of the processor. A
 * failure prints the smallest input that fails, and the seed.
 */
export function testProperty<T>(
  name: string,
  inputs: fc.Arbitrary<T>,
  check: (input: T) => void | Promise<void>,
): void {
  const numRuns = Math.ceil(CASES / PROPERTIES);
  // The same cases in every run of the tests; other ones in every longer run.
  const seed = SEED !== undefined
    ? Number(SEED)
    : CASES > 100_000
    ? Date.now() & 0x7fffffff
    : 1;
  Deno.test(`${name}, in ${numRuns} cases`, async () => {
    await fc.assert(
      fc.asyncProperty(inputs, (input) => checkInTime(() => check(input))),
      { numRuns, seed },
    );
  });
}

async function checkInTime(check: () => void | Promise<void>) {
  const times: number[] = [];
  while (times.length < ATTEMPTS) {
    const start = processorMs();
    await check();
    const ms = processorMs() - start;
    if (ms <= MAX_MS) return;
    times.push(ms);
  }
  throw new Error(
    `The case takes ${times} ms: expected at most ${MAX_MS}`,
  );
}

/** The time in which this thread had a processor; what passes besides depends on how busy the machine is. */
function processorMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1_000;
}

/** Texts made of pieces that mean something to a parser, and of anything else. */
export function textOf(
  pieces: readonly string[],
  maxLength = 40,
): fc.Arbitrary<string> {
  const piece = fc.oneof(
    { weight: 4, arbitrary: fc.constantFrom(...pieces) },
    fc.string({ unit: "binary" }),
  );
  return fc.array(piece, { maxLength }).map((all) => all.join(""));
}

/** Values of a header: no control characters, and Latin-1. */
export function headerOf(pieces: readonly string[]): fc.Arbitrary<string> {
  return textOf(pieces).map((text) =>
    // deno-lint-ignore no-control-regex -- these are what `Headers` rejects
    text.replace(/[\0-\x1f\x7f\u0100-\uffff]/g, "").trim()
  );
}

/** A text or bytes, divided at random places. */
export function chunksOf<T extends string | Uint8Array>(
  whole: T,
  cuts: readonly number[],
): T[] {
  const places = [
    0,
    ...cuts.map((cut) => cut % (whole.length + 1)).sort((a, b) => a - b),
    whole.length,
  ];
  return places.slice(1).map((end, index) =>
    whole.slice(places[index], end) as T
  );
}
