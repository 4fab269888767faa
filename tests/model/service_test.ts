import { runSeeds, seedsOf } from "../_seeds.ts";
import { runScenario } from "./_scenario.ts";
import { Simulation } from "./_simulation.ts";

/** How many scenarios; they take a few seconds. `deno task model` runs 10,000. */
const SEEDS = Number(Deno.env.get("MODEL_SEEDS") ?? 120);

const seeds = seedsOf(SEEDS, "MODEL_SEED");

Deno.test(`the service loses and repeats no event in ${seeds.length} scenarios with faults`, async () => {
  await runSeeds(seeds, "MODEL_SEED", async (seed) => {
    using simulation = new Simulation(seed);
    await runScenario(simulation);
  });
});
