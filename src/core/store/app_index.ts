import type { Key, Store } from "./store.ts";

/** The prefix of the index, which lies outside of the parts of the apps. */
const APPS: Key = ["app"];

/** An app with a name in a store. */
interface IndexedApp {
  readonly name: string;
  /** When a gateway of it was last started, or a command last set a variable of it. */
  readonly at: number;
}

/** Adds an app to the index of a store, or updates its time. */
export async function indexApp(
  store: Pick<Store, "commit">,
  { name, at }: IndexedApp,
): Promise<void> {
  await store.commit([], [{ key: [...APPS, name], value: { at } }]);
}

/** Removes an app from the index of a store, and returns whether it was there. */
export async function unindexApp(store: Store, name: string): Promise<boolean> {
  const key = [...APPS, name];
  const entry = await store.get(key);
  await store.commit([], [{ key }]);
  return entry !== undefined;
}

/** Lists the apps of a store by name; none of those that only versions without an index have used. */
export async function indexedApps(store: Store): Promise<IndexedApp[]> {
  const entries = await store.list<{ at: number }>(APPS);
  return entries.map(({ key, value }) => {
    return { name: String(key.at(-1)), at: value.at };
  });
}
