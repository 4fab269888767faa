/** Returns so many seeds, or only the one in this environment variable, which repeats a scenario. */
export function seedsOf(count: number, variable: string): number[] {
  const only = Deno.env.get(variable);
  return only === undefined
    ? Array.from({ length: count }, (_, seed) => seed)
    : [Number(only)];
}

/** Runs a scenario for each seed. @throws {Error} If one fails: it says how to repeat it. */
export async function runSeeds(
  seeds: readonly number[],
  variable: string,
  run: (seed: number) => Promise<void>,
): Promise<void> {
  for (const seed of seeds) {
    try {
      await run(seed);
    } catch (cause) {
      const repeat = `repeat it with ${variable}=${seed}`;
      throw new Error(`Scenario ${seed} failed; ${repeat}`, { cause });
    }
  }
}
