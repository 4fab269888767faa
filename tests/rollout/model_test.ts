import { type Mood, Play } from "./_scenario.ts";

const MOODS: readonly Mood[] = ["calm", "rough", "wild"];
const SEEDS = 10_000;

/** One number repeats a play that failed. */
const onlySeed = Deno.env.get("ROLLOUT_SEED");
const seeds = onlySeed === undefined ? Array.from({ length: SEEDS }, (_, seed) => seed) : [Number(onlySeed)];

for (const [index, mood] of MOODS.entries()) {
  const chosen = seeds.filter((seed) => seed % MOODS.length === index);
  Deno.test({
    name: `createRollout() keeps its promises in ${chosen.length} ${mood} plays`,
    ignore: chosen.length === 0,
    fn: () => performAll(chosen, mood),
  });
}

async function performAll(chosen: readonly number[], mood: Mood): Promise<void> {
  for (const seed of chosen) {
    try {
      await new Play(seed, mood).perform();
    } catch (error) {
      throw new Error(`The ${mood} play ${seed} failed; ROLLOUT_SEED=${seed} repeats it alone`, { cause: error });
    }
  }
}
