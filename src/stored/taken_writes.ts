import type { Store } from "../core/store/store.ts";
import { type Clock, sleep } from "../core/values/clock.ts";
import { listMembers, MAX_WAIT_MS } from "../core/rollout/living_members.ts";
import { type Observation, placeOf } from "../core/rollout/observation.ts";

/** How often the entries are looked at. Gateways take a write within 1.5 s. */
const LOOK_MS = 250;

/** Which gateways have taken a write to a variable in the store, by the places where they run. */
export interface Receipt {
  /** Gateways whose values contain it. */
  readonly takenBy: readonly string[];
  /** Living gateways whose values do not contain it. */
  readonly notTakenBy: readonly string[];
  /** The id of the newest write that any of them has taken; 0 if there is none. */
  readonly lastTaken: number;
}

/**
 * Waits until all gateways on a store have taken a write, but no longer than six seconds. A gateway with hot reload
 * writes into its entry what it has taken, with every reload. A gateway whose entry stays the same during that time was
 * killed, and is not listed. Of more than eight replicas, only eight have entries.
 *
 * @param write The id of the write.
 * @throws {StoreUnavailableError} If the store is unavailable.
 */
export async function waitUntilTaken(
  store: Store,
  write: number,
  clock: Clock,
): Promise<Receipt> {
  const newest = ({ member }: Observation) => member.newestWrite ?? 0;
  const hasTaken = (member: Observation) => newest(member) >= write;
  const deadline = clock.monotonic() + MAX_WAIT_MS;
  const first = await listMembers(store, clock);
  let members = first;
  while (!members.every(hasTaken) && clock.monotonic() < deadline) {
    await sleep(LOOK_MS, clock);
    members = await listMembers(store, clock);
  }
  const known = new Set(first.map(({ version }) => version));
  const others = members.filter((member) => !hasTaken(member));
  const living = others.filter(({ version }) => !known.has(version));
  return {
    takenBy: members.filter(hasTaken).map(placeOf),
    notTakenBy: living.map(placeOf),
    lastTaken: Math.max(0, ...living.map(newest)),
  };
}
