import type { Entry, Key, Store } from "../store/store.ts";
import type { Clock } from "../values/clock.ts";
import { slices } from "../values/slices.ts";
import {
  keepRecent,
  type PackedWindow,
  unpackWindow,
  WINDOW_MS,
} from "./sliding_window.ts";

const KEY_PREFIX = "rate";
/** When the store was last swept, and the lease of the process that does it. */
const SWEPT_AT = ["swept"];
const PAGE_SIZE = 500;

/** Returns the key of a client's window. */
export function windowKey(clientKey: string): Key {
  return [KEY_PREFIX, clientKey];
}

/**
 * Removes the windows without requests that still count. One of all processes does so, once per window. Not left to
 * `expireIn`, since Deno KV crashes the process if the disk is full when an entry expires.
 *
 * @throws {StoreUnavailableError} If the store is unavailable.
 */
export async function sweepWindows(store: Store, clock: Clock): Promise<void> {
  if (await acquireLease(store, clock)) await sweepFrom("", store, clock);
}

/** Returns whether this process is the one that sweeps this time. */
async function acquireLease(store: Store, clock: Clock): Promise<boolean> {
  const last = await store.get<number>(SWEPT_AT);
  if (last !== undefined && Math.abs(clock.now() - last.value) < WINDOW_MS) {
    return false;
  }
  const check = { key: SWEPT_AT, version: last?.version ?? null };
  return await store.commit([check], [{
    key: SWEPT_AT,
    value: clock.now(),
  }]) !== undefined;
}

async function sweepFrom(
  from: string,
  store: Store,
  clock: Clock,
): Promise<void> {
  const entries = await store.list<PackedWindow>([KEY_PREFIX], {
    from,
    limit: PAGE_SIZE,
  });
  const expired = entries.filter(({ value }) =>
    keepRecent(unpackWindow(value), clock.now()).length === 0
  );
  for (const slice of slices(expired, store.maxChecks)) {
    await remove(slice, store);
  }
  const last = entries.at(-1)?.key.at(-1);
  if (entries.length === PAGE_SIZE) await sweepFrom(`${last}\0`, store, clock);
}

/** Removes entries, unless one of them has changed meanwhile: then all stay until the next sweep. */
async function remove(entries: readonly Entry[], store: Store): Promise<void> {
  const checks = entries.map(({ key, version }) => ({ key, version }));
  await store.commit(checks, entries.map(({ key }) => ({ key })));
}
