import type { Store } from "../store/store.ts";
import { type Clock, sleep } from "../values/clock.ts";
import { MEMBERS } from "./heartbeat.ts";
import {
  isLive,
  type Member,
  type Observation,
  observe,
} from "./observation.ts";

/** Longer than the period of heartbeats: every living process has written its entry by then. */
export const MAX_WAIT_MS = 6_000;

/** Lists the members that may be alive, as a process sees them that looks for the first time. */
export async function listMembers(
  store: Store,
  clock: Clock,
): Promise<Observation[]> {
  const entries = await store.list<Member>(MEMBERS);
  const now = clock.now();
  const observed = observe(entries, undefined, { now, isScheduled: false });
  return observed.members.filter(isLive);
}

/**
 * Returns whether any member lives. The entry of one that was killed stays the same for longer than
 * {@linkcode MAX_WAIT_MS}.
 */
export async function hasLivingMember(
  store: Store,
  clock: Clock,
  signal: AbortSignal,
): Promise<boolean> {
  const before = await listMembers(store, clock);
  if (before.length === 0) return false;
  await sleep(MAX_WAIT_MS, clock, { signal });
  const known = new Set(before.map(({ version }) => version));
  const after = await listMembers(store, clock);
  return after.some(({ version }) => !known.has(version));
}
