/**
 * A double of `@rep/gateway/client` for unit tests: the same functions, with the variables that a test sets. Make the test
 * runner import the double instead of the client, such as with `alias` of Vitest (and `server.deps.inline` for the package
 * itself), or `moduleNameMapper` of Jest. {@linkcode replaceVariables} is for tests in a browser, which use the client
 * itself.
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
import { type AnyChangeCallback, createListeners } from "../live_values.ts";
import { freezeValues, REPError, type Values } from "../page.ts";

export type { PublicVariables, SensitiveVariables } from "@rep/gateway/client";
export type { Client, REPMeta } from "../client.ts";
export type {
  AnyChangeCallback,
  ChangeCallback,
  StreamStatus,
} from "../live_values.ts";
export { REPError, type Values } from "../page.ts";
export { replaceVariables } from "./replace_variables.ts";

/** The variables that the test has set. */
let publicValues = freezeValues({});
let sensitiveValues = freezeValues({});
const changes = createListeners<Parameters<AnyChangeCallback>>(globalThis);

/**
 * Replaces all variables, and calls the listeners of the variables that change.
 *
 * @param values The PUBLIC variables by name.
 * @param secrets The SENSITIVE variables by name. None by default.
 */
export function setVariables(
  values: Partial<PublicVariables>,
  secrets: Partial<SensitiveVariables> = {},
): void {
  const before = publicValues;
  publicValues = freezeValues(values as Values);
  sensitiveValues = freezeValues(secrets as Values);
  const keys = new Set([...Object.keys(before), ...Object.keys(values)]);
  for (const key of keys) {
    const oldValue = before[key];
    const newValue = publicValues[key];
    if (newValue !== oldValue) changes.call(key, newValue, oldValue);
  }
}

function getOr(key: string, defaultValue?: string): string | undefined {
  return publicValues[key] ?? defaultValue;
}

function getSecret(key: string): Promise<string> {
  const value = sensitiveValues[key];
  if (value !== undefined) return Promise.resolve(value);
  return Promise.reject(
    new REPError(`Cannot find "${key}" among the SENSITIVE variables`),
  );
}

/** The client of a page with these variables. Its functions are also exported individually. */
export const rep: Client = {
  get: getOr as Client["get"],
  getAll: () => publicValues,
  getSecure: getSecret,
  verify: () => true,
  meta: () => ({
    version: "0.1.0",
    injectedAt: new Date(0),
    integrityValid: true,
    publicCount: Object.keys(publicValues).length,
    sensitiveAvailable: Object.keys(sensitiveValues).length > 0,
    hotReloadAvailable: true,
  }),
  onChange: (key, callback) =>
    changes.add((changed, value, old) => {
      if (changed === key) callback(value, old);
    }),
  onAnyChange: changes.add,
  listenInBackground: () => {},
  status: () => ({
    state: changes.size() > 0 ? "open" : "closed",
    transport: "stream",
    lastEventId: null,
    newBuild: undefined,
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
