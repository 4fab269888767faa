import { OptionError } from "../values/option_error.ts";
import type { Entry, Key, ListOptions, Store } from "./store.ts";

/** The longest name of an app, and of a host. */
const MAX_APP_LENGTH = 253;

/** What an app may be called, for messages. */
export const EXPECTED_APP =
  `a host, or 1 to ${MAX_APP_LENGTH} letters, digits, . _ and -, of which the first is a letter or a digit`;

/** Returns whether an app may have this name. It cannot contain the characters that separate names within a key. */
export function isAppName(name: string): boolean {
  const isName = /^(?:[a-z\d][\w.-]*|\[[\da-f:.]+\])$/i.test(name);
  return isName && name.length <= MAX_APP_LENGTH;
}

/**
 * Returns the name of an app.
 *
 * @throws {OptionError} If the name is invalid.
 */
export function checkApp(app: string | undefined): string | undefined {
  if (app === undefined || isAppName(app)) return app;
  const got = JSON.stringify(String(app).slice(0, 2 * MAX_APP_LENGTH));
  throw new OptionError("app", EXPECTED_APP, got);
}

/**
 * Returns a store whose keys lie under a name in another store: the first part of each key begins with the name. The
 * name is not a separate part, since keys of one part would then have two, and PostgreSQL announces only writes to keys
 * of one part.
 */
function partOfStore(store: Store, name: string): Store {
  function inner<T extends { readonly key: Key }>(item: T): T {
    const [first, ...rest] = item.key;
    return { ...item, key: [name + first, ...rest] };
  }
  function outer<T>(entry: Entry<T>): Entry<T> {
    const [first, ...rest] = entry.key;
    return { ...entry, key: [String(first).slice(name.length), ...rest] };
  }
  const innerKey = (key: Key) => inner({ key }).key;
  return {
    engine: store.engine,
    maxChecks: store.maxChecks,
    prefixBytes: name.length,
    async get<T>(key: Key) {
      const entry = await store.get<T>(innerKey(key));
      return entry && outer(entry);
    },
    async getMany<T>(keys: readonly Key[]) {
      const entries = await store.getMany<T>(keys.map(innerKey));
      return entries.map((entry) => entry && outer(entry));
    },
    async list<T>(prefix: Key, options?: ListOptions) {
      const entries = await store.list<T>(innerKey(prefix), options);
      return entries.map(outer);
    },
    commit: (checks, writes) =>
      store.commit(checks.map(inner), writes.map(inner)),
    watch: (key, hint) => store.watch(innerKey(key), hint),
    close: () => store.close(),
  };
}

/** Returns the part of a store that belongs to an app: the whole store for an app without a name. */
export function storeOfApp(store: Store, app: string | undefined): Store {
  return app === undefined ? store : partOfStore(store, `${app}/`);
}

/**
 * Returns the part of a store that belongs to a port. Its name is no valid name of an app.
 *
 * @param port A port from 1 to 65,535.
 */
export function storeOfPort(store: Store, port: number): Store {
  return partOfStore(store, `:${port}/`);
}
