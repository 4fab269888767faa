import { type FaultLevel, runScenario } from "./_scenario.ts";

const LEVELS: readonly FaultLevel[] = ["low", "medium", "high"];
/** `deno task model` runs 10,000. */
const SEEDS = Number(Deno.env.get("MODEL_SEEDS") ?? 3_000);

/** Repeats a single scenario. */
const onlySeed = Deno.env.get("ROLLOUT_SEED");
const seeds = onlySeed === undefined
  ? Array.from({ length: SEEDS }, (_, seed) => seed)
  : [Number(onlySeed)];

for (const [index, level] of LEVELS.entries()) {
  const chosen = seeds.filter((seed) => seed % LEVELS.length === index);
  Deno.test({
    name:
      `Rollout keeps its invariants in ${chosen.length} scenarios with fault level ${level}`,
    ignore: chosen.length === 0,
    fn: () => runAll(chosen, level),
  });
}

async function runAll(
  chosen: readonly number[],
  level: FaultLevel,
) {
  for (const seed of chosen) {
    try {
      await runScenario(seed, level);
    } catch (error) {
      throw new Error(
        `Scenario ${seed} with fault level ${level} failed; repeat it with ROLLOUT_SEED=${seed}`,
        {
          cause: error,
        },
      );
    }
  }
}
