import { unindexApp } from "../core/store/app_index.ts";
import { storeOfApp } from "../core/store/app_store.ts";
import type { Store } from "../core/store/store.ts";

/** The first parts of all keys of an app, which `docs/development/architecture.md` describes. */
const NAMES = [
  "variable",
  "write",
  "cause",
  "variables",
  "event",
  "state",
  "head",
  "member",
  "rollout",
  "activations",
  "rate",
  "swept",
  "master-key",
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
  for (const name of NAMES) {
    const single = await store.get([name]);
    let entries = single === undefined ? [] : [single];
    do {
      hasFound ||= entries.length > 0;
      await store.commit([], entries.map(({ key }) => ({ key })));
      entries = await store.list([name], { limit: DELETED_AT_ONCE });
    } while (entries.length > 0);
  }
  const wasIndexed = await unindexApp(root, app); // last, so that `apps` shows it until all is deleted
  return hasFound || wasIndexed;
}
