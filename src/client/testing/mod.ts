/**
 * A double of `@rep/gateway/client` for unit tests: the same functions, with the variables that a test sets. Let the test
 * runner resolve the one as the other, such as with `alias` of Vitest (and `server.deps.inline` for the package itself),
 * or `moduleNameMapper` of Jest.
 *
 * ```ts
 * import { get, onChange, setVariables } from "@rep/gateway/testing";
 * import { assertEquals } from "@std/assert";
 *
 * setVariables({ TITLE: "Hello" });
 * assertEquals(get("TITLE"), "Hello");
 *
 * const titles: unknown[] = [];
 * onChange("TITLE", (title) => titles.push(title));
 * setVariables({ TITLE: "Changed" });
 * assertEquals(titles, ["Changed"]);
 * ```
 *
 * @module
 */
import type { PublicVariables, SensitiveVariables } from "@rep/gateway/client";
import type { Client } from "../client.ts";
import { createListeners } from "../listeners.ts";
import type { AnyChangeCallback } from "../live_values.ts";
import { freezeValues, type Values } from "../payload.ts";
import { REPError } from "../rep_error.ts";

export type { PublicVariables, SensitiveVariables } from "@rep/gateway/client";
export type { Client, REPMeta } from "../client.ts";
export type { StreamStatus } from "../change_stream.ts";
export type { AnyChangeCallback, ChangeCallback } from "../live_values.ts";
export type { Values } from "../payload.ts";
export { REPError } from "../rep_error.ts";

/** What a test sets. */
const state = { values: freezeValues({}), secrets: freezeValues({}) };
const changes = createListeners<Parameters<AnyChangeCallback>>(globalThis);

/**
 * Replaces all variables, and calls the listeners of those that change.
 *
 * @param values The PUBLIC variables by name.
 * @param secrets The SENSITIVE variables by name. None by default.
 */
export function setVariables(
  values: Partial<PublicVariables>,
  secrets: Partial<SensitiveVariables> = {},
): void {
  const before = state.values;
  state.values = freezeValues(values as Values);
  state.secrets = freezeValues(secrets as Values);
  for (const key of new Set([...Object.keys(before), ...Object.keys(values)])) {
    if (before[key] !== state.values[key]) {
      changes.call(key, state.values[key], before[key]);
    }
  }
}

/** The client of a page with these variables. Its functions are also exported individually. */
export const rep: Client = {
  get:
    ((key: string, defaultValue?: string) =>
      state.values[key] ?? defaultValue) as Client["get"],
  getAll: () => state.values,
  getSecure: (key) => {
    const value = state.secrets[key];
    if (value !== undefined) return Promise.resolve(value);
    return Promise.reject(
      new REPError(`Cannot find "${key}" among the SENSITIVE variables`),
    );
  },
  verify: () => true,
  meta: () => ({
    version: "0.1.0",
    injectedAt: new Date(0),
    integrityValid: true,
    publicCount: Object.keys(state.values).length,
    sensitiveAvailable: Object.keys(state.secrets).length > 0,
    hotReloadAvailable: true,
  }),
  onChange: (key, callback) =>
    changes.add((changed, value, old) =>
      changed === key && callback(value, old)
    ),
  onAnyChange: changes.add,
  listenInBackground: () => {},
  status: () => ({
    state: changes.size() > 0 ? "open" : "closed",
    lastEventId: null,
  }),
  onStatus: () => () => {},
};
export { rep as default };

/** Returns the value of a PUBLIC variable. */
export const get: Client["get"] = rep.get;
/** Returns all PUBLIC variables. */
export const getAll: Client["getAll"] = rep.getAll;
/** Returns the value of a SENSITIVE variable. */
export const getSecure: Client["getSecure"] = rep.getSecure;
/** Returns `true`. */
export const verify: Client["verify"] = rep.verify;
/** Returns the metadata of the configuration. */
export const meta: Client["meta"] = rep.meta;
/** Subscribes to changes of one PUBLIC variable. */
export const onChange: Client["onChange"] = rep.onChange;
/** Subscribes to changes of all PUBLIC variables. */
export const onAnyChange: Client["onAnyChange"] = rep.onAnyChange;
/** Does nothing: there is no stream. */
export const listenInBackground: Client["listenInBackground"] =
  rep.listenInBackground;
/** Returns `open` while there are subscribers. */
export const status: Client["status"] = rep.status;
/** Never calls back. */
export const onStatus: Client["onStatus"] = rep.onStatus;
