import type { Entry, Key, ListOptions, Store } from "./store.ts";

/** The {@linkcode Store.engine} of a store in memory. No other process can write to it. */
export const MEMORY = "memory";

function idOf(key: Key): string {
  return JSON.stringify(key);
}

/** The last part of a key. */
type Name = Key[number];

/** The entries under a prefix, by the last part of their keys. */
type Entries = Map<Name, Entry>;

function nameOf(key: Key): Name {
  return key.at(-1) ?? "";
}

/** Deno KV sorts strings before numbers. */
function isBefore(a: Name, b: Name): boolean {
  return typeof a === typeof b ? a < b : typeof a === "string";
}

/** Returns the selected entries in order. */
function select(
  entries: Entries,
  { from = "", limit = Infinity, reverse = false }: ListOptions,
): Entry[] {
  const names = [...entries.keys()].filter((name) => !isBefore(name, from));
  names.sort((a, b) => isBefore(a, b) ? -1 : 1);
  if (reverse) names.reverse();
  return names.slice(0, limit).map((name) => entries.get(name)!);
}

/** Returns a store that lives as long as the process. */
export function memoryStore(): Store {
  const prefixes = new Map<string, Entries>();
  const watchers = new Map<string, Set<() => void>>();
  let commits = 0;

  function entriesUnder(prefix: Key): Entries {
    const id = idOf(prefix);
    const entries = prefixes.get(id) ?? new Map();
    prefixes.set(id, entries);
    return entries;
  }

  function find<T>(key: Key): Entry<T> | undefined {
    const entries = entriesUnder(key.slice(0, -1));
    return entries.get(nameOf(key)) as Entry<T> | undefined;
  }

  return {
    engine: MEMORY,
    maxChecks: 100,
    get: (key) => Promise.resolve(find(key)),
    getMany: (keys) => Promise.resolve(keys.map((key) => find(key))),
    list<T>(prefix: Key, options: ListOptions = {}) {
      const entries = select(entriesUnder(prefix), options);
      return Promise.resolve(entries as Entry<T>[]);
    },
    commit(checks, writes) {
      const isValid = checks.every(({ key, version }) =>
        (find(key)?.version ?? null) === version
      );
      if (!isValid) return Promise.resolve(undefined);
      const version = String(++commits);
      for (const { key, value } of writes) {
        const entries = entriesUnder(key.slice(0, -1));
        if (value === undefined) entries.delete(nameOf(key));
        else entries.set(nameOf(key), { key, value, version });
      }
      for (const { key } of writes) {
        const hints = watchers.get(idOf(key)) ?? [];
        for (const hint of hints) queueMicrotask(hint);
      }
      return Promise.resolve(version);
    },
    watch(key, hint) {
      const id = idOf(key);
      const hints = watchers.get(id) ?? new Set();
      watchers.set(id, hints.add(hint));
      return () => void hints.delete(hint);
    },
    close: () => watchers.clear(),
  };
}
