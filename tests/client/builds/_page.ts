/** Replaces properties of `globalThis`, and returns what puts them back. */
export function replaceGlobals(values: Record<string, unknown>): Disposable {
  const before = Object.keys(values).map((name) =>
    [name, Object.getOwnPropertyDescriptor(globalThis, name)] as const
  );
  for (const [name, value] of Object.entries(values)) {
    Object.defineProperty(globalThis, name, { value, configurable: true });
  }
  return {
    [Symbol.dispose]() {
      for (const [name, descriptor] of before) {
        if (descriptor !== undefined) {
          Object.defineProperty(globalThis, name, descriptor);
        } else Reflect.deleteProperty(globalThis, name);
      }
    },
  };
}

/** The storage of a tab; `undefined` if the page has no access to it. */
export function storageOf(stored: Map<string, string> | undefined) {
  return {
    getItem(key: string) {
      if (stored === undefined) throw new DOMException("no access");
      return stored.get(key) ?? null;
    },
    setItem(key: string, value: string) {
      if (stored === undefined) throw new DOMException("no access");
      stored.set(key, value);
    },
    removeItem(key: string) {
      if (stored === undefined) throw new DOMException("no access");
      stored.delete(key);
    },
  };
}
