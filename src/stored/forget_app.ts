import { unindexApp } from "../core/store/app_index.ts";
import { storeOfApp } from "../core/store/app_store.ts";
import type { Key, Store } from "../core/store/store.ts";

/** What an app has in a store under several keys: `docs/development/architecture.md` lists all keys. */
const LISTS: readonly Key[] = [
  ["variable"],
  ["write"],
  ["cause"],
  ["event"],
  ["state"],
  ["member"],
  ["rate"],
];

/** What it has under one key. */
const SINGLE: readonly Key[] = [
  ["variables"],
  ["head"],
  ["rollout"],
  ["activations"],
  ["swept"],
  ["master-key"],
];

/** How many keys a commit deletes: the longest ones fit into the 80 KiB of Deno KV. */
const DELETED_AT_ONCE = 100;

/**
 * Deletes everything that a store has of an app, as if it had never been there. After a failure, repeating it deletes the
 * rest. A gateway of the app that runs meanwhile would write a part of it again.
 *
 * @returns Whether there was anything.
 */
export async function forgetApp(root: Store, app: string): Promise<boolean> {
  const store = storeOfApp(root, app);
  let hasFound = false;
  for (const prefix of LISTS) {
    for (;;) {
      const entries = await store.list(prefix, { limit: DELETED_AT_ONCE });
      if (entries.length === 0) break;
      hasFound = true;
      await store.commit([], entries.map(({ key }) => ({ key })));
    }
  }
  const rest = await store.getMany(SINGLE);
  hasFound ||= rest.some((entry) => entry !== undefined);
  await store.commit([], SINGLE.map((key) => ({ key })));
  const wasIndexed = await unindexApp(root, app); // last, so that `apps` shows it until all is deleted
  return hasFound || wasIndexed;
}
