import { OptionError } from "../values/option_error.ts";
import type { Check, Entry, Key, ListOptions, Store, Write } from "./store.ts";

/** The longest name of an app. `batches()` counts on it: the keys of a commit are limited. */
export const MAX_APP_LENGTH = 32;

/** What an app may be called, for messages. */
export const EXPECTED_APP =
  `1 to ${MAX_APP_LENGTH} letters, digits, . _ and -, of which the first is a letter or a digit`;

/** Returns whether an app may have this name. It cannot contain the characters that separate names within a key. */
export function isAppName(name: string): boolean {
  return /^[a-z\d][\w.-]*$/i.test(name) && name.length <= MAX_APP_LENGTH;
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

/** Returns the part of a store that belongs to an app: the whole store for an app without a name. */
export function storeOfApp(store: Store, app: string | undefined): Store {
  return app === undefined ? store : new PartOfStore(store, `${app}/`);
}

/**
 * Returns the part of a store that belongs to a port. Its name is no valid name of an app.
 *
 * @param port A port from 1 to 65,535.
 */
export function storeOfPort(store: Store, port: number): Store {
  return new PartOfStore(store, `:${port}/`);
}

/**
 * A store whose keys lie under a name in another store: the first part of each key begins with the name. The name is
 * not a separate part, since keys of one part would then have two, and PostgreSQL announces only writes to keys of one
 * part.
 */
class PartOfStore implements Store {
  readonly engine: string | undefined;
  readonly maxChecks: number;
  readonly #store: Store;
  readonly #name: string;

  constructor(store: Store, name: string) {
    this.engine = store.engine;
    this.maxChecks = store.maxChecks;
    this.#store = store;
    this.#name = name;
  }

  async get<T>(key: Key): Promise<Entry<T> | undefined> {
    const entry = await this.#store.get<T>(this.#inner(key));
    return entry && { ...entry, key };
  }

  async getMany<T>(keys: readonly Key[]): Promise<(Entry<T> | undefined)[]> {
    const inner = keys.map((key) => this.#inner(key));
    const entries = await this.#store.getMany<T>(inner);
    return entries.map((entry) => entry && this.#outer(entry));
  }

  async list<T>(prefix: Key, options?: ListOptions): Promise<Entry<T>[]> {
    const entries = await this.#store.list<T>(this.#inner(prefix), options);
    return entries.map((entry) => this.#outer(entry));
  }

  async commit(
    checks: readonly Check[],
    writes: readonly Write[],
  ): Promise<string | undefined> {
    return await this.#store.commit(
      checks.map((check) => ({ ...check, key: this.#inner(check.key) })),
      writes.map((write) => ({ ...write, key: this.#inner(write.key) })),
    );
  }

  watch(key: Key, hint: () => void): () => void {
    return this.#store.watch(this.#inner(key), hint);
  }

  close(): void {
    this.#store.close();
  }

  #inner([first, ...rest]: Key): Key {
    return [this.#name + first, ...rest];
  }

  #outer<T>(entry: Entry<T>): Entry<T> {
    const [first, ...rest] = entry.key;
    return { ...entry, key: [String(first).slice(this.#name.length), ...rest] };
  }
}
