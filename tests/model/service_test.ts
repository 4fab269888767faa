import { runScenario } from "./_scenario.ts";
import { Simulation } from "./_simulation.ts";

/** How many scenarios; they take a few seconds. `deno task model` runs 10,000. */
const SEEDS = Number(Deno.env.get("MODEL_SEEDS") ?? 120);

/** Repeats a single scenario. */
const onlySeed = Deno.env.get("MODEL_SEED");
const seeds = onlySeed === undefined
  ? Array.from({ length: SEEDS }, (_, seed) => seed)
  : [Number(onlySeed)];

Deno.test(`the service loses and repeats no event in ${seeds.length} scenarios with faults`, async () => {
  for (const seed of seeds) {
    using simulation = new Simulation(seed);
    try {
      await runScenario(simulation);
    } catch (cause) {
      throw new Error(
        `Scenario ${seed} failed; repeat it with MODEL_SEED=${seed}`,
        { cause },
      );
    }
  }
});
