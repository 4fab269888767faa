/**
 * Reads the configuration of a page in the browser and subscribes to its changes, with the interface of REP-RFC-0001 §5.2.
 *
 * It reads the payload when it is imported, so {@linkcode get} is synchronous. Only {@linkcode getSecure} and the first
 * subscription make network requests. On a server with a gateway in its process, the PUBLIC variables are those of the
 * page that is being rendered. Everywhere else outside a page, no variable is set.
 *
 * ```ts
 * import { get, onChange } from "@rep/gateway/client";
 * import { assertEquals } from "@std/assert";
 *
 * let flags = get("FEATURE_FLAGS", "none");
 * onChange("FEATURE_FLAGS", (newValue) => flags = newValue ?? "none");
 *
 * assertEquals(flags, "none"); // outside a page, without a gateway
 * ```
 *
 * @module
 */
import { type Client, createClient } from "./client.ts";

export type { Client, REPMeta } from "./client.ts";
export type {
  AnyChangeCallback,
  ChangeCallback,
  StreamStatus,
} from "./live_values.ts";
export { REPError, type Values } from "./page.ts";

/** The PUBLIC variables by name. The types that `typegen` generates replace this one by the variables of the manifest. */
export interface PublicVariables {
  /** The value of a variable. */
  readonly [name: string]: string | undefined;
}

/** The SENSITIVE variables by name. `typegen` replaces this type like {@linkcode PublicVariables}. */
export interface SensitiveVariables {
  /** The value of a variable. */
  readonly [name: string]: string | undefined;
}

/**
 * The SERVER variables by name. No page contains them: a server reads them with `Gateway.getPrivate`. `typegen` replaces
 * this type like {@linkcode PublicVariables}.
 */
export interface ServerVariables {
  /** The value of a variable. */
  readonly [name: string]: string | undefined;
}

/** The client of this page. Its functions are also exported individually. */
export const rep: Client = createClient(globalThis);
export { rep as default };

/** Returns the value of a PUBLIC variable: {@linkcode Client.get}. */
export const get: Client["get"] = rep.get;
/** Returns all PUBLIC variables: {@linkcode Client.getAll}. */
export const getAll: Client["getAll"] = rep.getAll;
/** Returns the value of a SENSITIVE variable: {@linkcode Client.getSecure}. */
export const getSecure: Client["getSecure"] = rep.getSecure;
/** Returns whether the integrity of the configuration is intact: {@linkcode Client.verify}. */
export const verify: Client["verify"] = rep.verify;
/** Returns the metadata of the configuration: {@linkcode Client.meta}. */
export const meta: Client["meta"] = rep.meta;
/** Subscribes to changes of one PUBLIC variable: {@linkcode Client.onChange}. */
export const onChange: Client["onChange"] = rep.onChange;
/** Subscribes to changes of all PUBLIC variables: {@linkcode Client.onAnyChange}. */
export const onAnyChange: Client["onAnyChange"] = rep.onAnyChange;
/** Keeps the stream of changes open while the page is hidden: {@linkcode Client.listenInBackground}. */
export const listenInBackground: Client["listenInBackground"] =
  rep.listenInBackground;
/** Returns the state of the stream of changes: {@linkcode Client.status}. @experimental */
export const status: Client["status"] = rep.status;
/** Subscribes to the state of the stream of changes: {@linkcode Client.onStatus}. @experimental */
export const onStatus: Client["onStatus"] = rep.onStatus;
