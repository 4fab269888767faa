import { runSeeds, seedsOf } from "../../_seeds.ts";
import { type FaultLevel, runScenario } from "./_scenario.ts";
import { runTwoApps } from "./_two_apps.ts";

const LEVELS: readonly FaultLevel[] = ["low", "medium", "high"];
/** `deno task model` runs 10,000. */
const SEEDS = Number(Deno.env.get("MODEL_SEEDS") ?? 3_000);

const seeds = seedsOf(SEEDS, "ROLLOUT_SEED");

for (const [index, level] of LEVELS.entries()) {
  const chosen = seeds.filter((seed) => seed % LEVELS.length === index);
  Deno.test({
    name:
      `Rollout keeps its invariants in ${chosen.length} scenarios with fault level ${level}`,
    ignore: chosen.length === 0,
    fn: () =>
      runSeeds(chosen, "ROLLOUT_SEED", (seed) => runScenario(seed, level)),
  });
}

/** They take longer, since entries have to be forgotten. */
const fewer = seeds.length === 1 ? seeds : seeds.filter((seed) => seed % 5 < 1);

Deno.test(`of two apps on one store, the first goes on in ${fewer.length} scenarios`, async () => {
  await runSeeds(fewer, "ROLLOUT_SEED", runTwoApps);
});
