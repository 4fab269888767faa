/**
 * A million clients on a thousand processes over one store, in virtual time: no sockets, no waiting.
 *
 *     deno task bench simulation --clients 1000000 --processes 1000 --seed 1
 *     deno task bench simulation --commitUs 814 --writeUs 25 --flushMs 0
 *
 * The processes do what the source does. Each polls for events and stored variables once a second and on a hint, and
 * observes the rollout every 4.5 s. To publish, it joins the rollout, obtains fencing checks, compares, and commits. It
 * counts the session keys of several clients in one commit, of up to `--batch`; if the store is behind, it counts in
 * memory. Its circuit breaker opens for a second if the store has not responded for five. One
 * process sweeps expired windows once a minute.
 *
 * Costs are parameters. Their defaults are the CPU time of a `denokv` server that writes commits together
 * (`--atomic-write-batch-timeout-ms 2`): `deno task bench store_costs`. A commit also waits for the disk, but not
 * alone. Not modelled: the clients' networks, lost packets, stores that run several operations at once, clients that a
 * process treats as new although another one has counted them, and representatives that give way to others.
 *
 * Each figure is the median of `--rounds` runs with consecutive seeds, with the least and the most.
 */
import { seededRandom } from "../tools/seeded_random.ts";
import { keyStorm } from "./_key_storm.ts";
import { limitFigures } from "./_limits.ts";
import { ModelStore } from "./_model_store.ts";
import { PublishRace } from "./_publish_race.ts";
import { figure, quantile, type Report } from "./_report.ts";
import {
  type Finding,
  idleLoad,
  POLL_MS,
  type Random,
  WORLD,
  type World,
} from "./_world.ts";

/** Runs the simulation. */
export function simulate(world: World = WORLD): Report {
  const { clients, processes, seed, rounds } = world;
  const all = Array.from(
    { length: rounds },
    (_, round) => runScenarios(world, seededRandom(seed + round)),
  );
  const [first = []] = all;
  return {
    title:
      `simulation: ${clients} clients, ${processes} processes, seeds ${seed} to ${
        seed + rounds - 1
      }`,
    figures: [
      ...first.map(([name, unit], index) =>
        figure(name, unit, all.map((findings) => findings[index]?.[2] ?? NaN))
      ),
      ...limitFigures(world),
    ],
  };
}

function runScenarios(world: World, random: Random): Finding[] {
  return [
    ...prefixed("a change, the store watches", change(world, random, true)),
    ...prefixed("a change, polls only", change(world, random, false)),
    ...prefixed(
      "all publish it at once",
      new PublishRace(world, random).run(0),
    ),
    ...prefixed(
      "all publish it within 500 ms, as after a hint",
      new PublishRace(world, random).run(500),
    ),
    ...prefixed(
      "all publish it within 60 s",
      new PublishRace(world, random).run(60_000),
    ),
    ...prefixed("all clients reconnect", keyStorm(world, random)),
  ];
}

function prefixed(prefix: string, findings: readonly Finding[]): Finding[] {
  return findings.map((
    [name, unit, value],
  ) => [`${prefix}: ${name}`, unit, value]);
}

/** From the commit of one process to all streams of all processes. */
function change(world: World, random: Random, isWatched: boolean): Finding[] {
  const { clients, processes, rttMs, deliveryUs } = world;
  const store = new ModelStore(world, Math.min(0.99, idleLoad(world)));
  const reads = Array.from(
    { length: processes },
    () => isWatched ? rttMs : random() * POLL_MS,
  ).sort((a, b) => a - b);
  const streams = clients / processes;
  const latencies = reads.flatMap((at) => {
    const read = store.list(at, 1) + rttMs;
    return DECILES.map((share) => read + share * streams * deliveryUs / 1_000);
  });
  return [
    ["delivered, p50", "ms", quantile(latencies, 0.5)],
    ["delivered, p99", "ms", quantile(latencies, 0.99)],
    ["delivered, last", "ms", Math.max(...latencies)],
    ["reads", "", store.operations],
  ];
}

/** A stream's position in the delivery loop of its process: all streams of a decile count as its last. */
const DECILES = Array.from({ length: 10 }, (_, index) => (index + 1) / 10);
