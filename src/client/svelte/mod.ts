/**
 * Stores for Svelte, with the names and the shapes of REP's own adapter (REP-RFC-0001 §5.5).
 *
 * ```svelte
 * <script lang="ts">
 *   import { repStore } from "@rep/gateway/svelte";
 *   const title = repStore("TITLE", "Welcome");
 * </script>
 *
 * <h1>{$title}</h1>
 * ```
 *
 * @module
 */
import {
  get,
  getSecure,
  onChange,
  type PublicVariables,
  type SensitiveVariables,
} from "@rep/gateway/client";

export type { PublicVariables, SensitiveVariables } from "@rep/gateway/client";

/** A store that cannot be written to, as in `svelte/store`. */
export interface Readable<Value> {
  /** Calls `run` with the value and with each later one. It returns a function that ends this. */
  subscribe(this: void, run: (value: Value) => void): () => void;
}

/**
 * Returns a store with the value of a PUBLIC variable, or the default if it is not set. It follows the variable while it
 * has subscribers. On a server, it has the value with which the page is sent; on one without a gateway in its process,
 * the default.
 */
export function repStore<
  Name extends keyof PublicVariables & string,
  const Default extends string,
>(
  name: Name,
  defaultValue: Default,
): Readable<NonNullable<PublicVariables[Name]> | Default>;
/** Returns a store with the value of a PUBLIC variable; `undefined` if it is not set. */
export function repStore<Name extends keyof PublicVariables & string>(
  name: Name,
): Readable<PublicVariables[Name]>;
export function repStore(
  name: string,
  defaultValue?: string,
): Readable<string | undefined> {
  function subscribe(run: (value: string | undefined) => void): () => void {
    run(get(name, defaultValue as string));
    if (!("document" in globalThis)) return () => {}; // a server has no changes to listen to
    return onChange(name, (value) => run(value ?? defaultValue));
  }
  return { subscribe };
}

/**
 * Returns a store with the value of a SENSITIVE variable, which is requested for a subscriber, and `null` until it has
 * arrived. It stays `null` after an error, which is reported to the `error` listeners and the console of the page.
 */
export function repSecureStore<Name extends keyof SensitiveVariables & string>(
  name: Name,
): Readable<NonNullable<SensitiveVariables[Name]> | null> {
  type Value = NonNullable<SensitiveVariables[Name]>;
  function subscribe(run: (value: Value | null) => void): () => void {
    let isSubscribed = true;
    run(null);
    if ("document" in globalThis) {
      getSecure(name).then(
        (value) => isSubscribed && run(value as Value),
        reportError,
      );
    }
    return () => {
      isSubscribed = false;
    };
  }
  return { subscribe };
}
