import { type Figure, figure } from "./_report.ts";
import {
  idleLoad,
  SWEEP_PAGE,
  SWEEP_S,
  WINDOW_S,
  type World,
} from "./_world.ts";

/** A resource, how much of it is used, and by what. */
interface Limit {
  readonly name: string;
  /** From 0 to 1, which is all of it. */
  readonly used: number;
  /** What uses it, and how many of these there are now. */
  readonly unit: string;
  readonly now: number;
}

/** Which resource is full first, when idle and at one change a second; derived from the costs, not simulated. */
export function limitFigures(world: World): Figure[] {
  return limitsOf(world).sort((a, b) => b.used - a.used).flatMap((
    { name, used, unit, now },
    index,
  ) => [
    figure(`${index + 1}. ${name}: used`, "%", [used * 100]),
    figure(`${index + 1}. ${name}: full at`, unit, [now / used]),
  ]);
}

function limitsOf(world: World): Limit[] {
  const { clients, processes, streamKiB, idleMiB, memoryMiB, deliveryUs } =
    world;
  const streams = { unit: "streams per process", now: clients / processes };
  return [
    sweepLimit(world),
    keyLimit(world),
    {
      name: "store, polling",
      used: idleLoad(world),
      unit: "processes",
      now: processes,
    },
    {
      name: "process, memory",
      used: streams.now * streamKiB / 1_024 / (memoryMiB - idleMiB),
      ...streams,
    },
    {
      name: "process, one change a second",
      used: streams.now * deliveryUs / 1e6,
      ...streams,
    },
  ];
}

function sweepLimit(
  { clients, processes, keyEveryS, listUs, entryUs, ...world }: World,
): Limit {
  const sweepers = world.sweepers || processes;
  const windows = clients / keyEveryS * (WINDOW_S + SWEEP_S / 2 / sweepers); // an expired one waits for the next sweep
  const sweepUs = windows * (entryUs + listUs / SWEEP_PAGE);
  const used = sweepers * sweepUs / SWEEP_S / 1e6;
  return {
    name: "store, sweeps",
    used,
    unit: "clients with a window",
    now: windows,
  };
}

/**
 * Keys of different clients, each in a commit of its own: the load is too low for batches. Expired windows are removed
 * in batches.
 */
function keyLimit(
  { clients, keyEveryS, getUs, commitUs, writeUs, batch }: World,
): Limit {
  const keys = clients / keyEveryS;
  const removalUs = (commitUs + (batch - 1) * writeUs) / batch;
  const used = keys * (getUs + commitUs + removalUs) / 1e6;
  return { name: "store, keys", used, unit: "keys/s", now: keys };
}
