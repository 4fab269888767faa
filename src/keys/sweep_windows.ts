import type { Entry, Key, Store } from "../store/store.ts";
import type { Clock } from "../values/clock.ts";
import { slices } from "../values/chunks.ts";
import { recent, type Window, WINDOW_MS } from "./sliding_window.ts";

const KEY_PREFIX = "rate";
/** When the store was last swept. */
const SWEPT_AT = ["swept"];
const PAGE_SIZE = 500;

/** Returns the key of a client's window. */
export function windowKey(clientKey: string): Key {
  return [KEY_PREFIX, clientKey];
}

/**
 * Removes the windows without requests that still count. One of all processes does so, once a minute. Not left to
 * `expireIn`, since Deno KV crashes the process if the disk is full when an entry expires.
 *
 * @throws {StoreUnavailableError} If the store is unavailable.
 */
export async function sweepWindows(store: Store, clock: Clock): Promise<void> {
  if (!await isOurTurn(store, clock)) return;
  let page: Entry<Window>[];
  let from = "";
  do {
    page = await store.list([KEY_PREFIX], { from, limit: PAGE_SIZE });
    const isExpired = ({ value }: Entry<Window>) =>
      recent(value, clock.now()).length === 0;
    for (const slice of slices(page.filter(isExpired), store.maxChecks)) {
      await remove(store, slice);
    }
    from = `${page.at(-1)?.key.at(-1)}\0`; // the next key after the last one
  } while (page.length === PAGE_SIZE);
}

/** Whether nobody else has swept within the last minute. The check makes one of several processes the one that does. */
async function isOurTurn(store: Store, clock: Clock): Promise<boolean> {
  const last = await store.get<number>(SWEPT_AT);
  if (last && Math.abs(clock.now() - last.value) < WINDOW_MS) return false;
  const check = { key: SWEPT_AT, version: last?.version ?? null };
  const write = { key: SWEPT_AT, value: clock.now() };
  return await store.commit([check], [write]) !== undefined;
}

/** Removes entries, unless one of them has changed meanwhile: then all stay until the next sweep. */
async function remove(store: Store, entries: readonly Entry[]): Promise<void> {
  const checks = entries.map(({ key, version }) => ({ key, version }));
  const deletions = entries.map(({ key }) => ({ key }));
  await store.commit(checks, deletions);
}
