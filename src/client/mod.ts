/**
 * Reads a page's configuration in the browser, and follows its changes: the interface of REP-RFC-0001 §5.2.
 *
 * The payload in the page is read when this module is imported, so that {@linkcode get} answers at once; the network is
 * asked only by {@linkcode getSecure} and by a first subscription. Outside a page every variable is unset.
 *
 * ```ts
 * import { get, onChange } from "@rep/gateway/client";
 * import { assertEquals } from "@std/assert";
 *
 * let flags = get("FEATURE_FLAGS", "none");
 * onChange("FEATURE_FLAGS", (newValue) => flags = newValue ?? "none");
 *
 * assertEquals(flags, "none"); // there is no page here
 * ```
 *
 * @module
 */
import { type Client, createClient } from "./client.ts";

export type { Client, REPMeta } from "./client.ts";
export type { StreamStatus } from "./change_stream.ts";
export type { AnyChangeCallback, ChangeCallback } from "./live_values.ts";
export type { Values } from "./payload.ts";
export { REPError } from "./rep_error.ts";

/** The configuration of this page, as one object. */
export const rep: Client = createClient(globalThis);
export { rep as default };

/** The value of a PUBLIC variable: {@linkcode Client.get}. */
export const get: Client["get"] = rep.get;
/** All PUBLIC variables: {@linkcode Client.getAll}. */
export const getAll: Client["getAll"] = rep.getAll;
/** The value of a SENSITIVE variable: {@linkcode Client.getSecure}. */
export const getSecure: Client["getSecure"] = rep.getSecure;
/** Whether the configuration is there and untouched: {@linkcode Client.verify}. */
export const verify: Client["verify"] = rep.verify;
/** What is known of the configuration: {@linkcode Client.meta}. */
export const meta: Client["meta"] = rep.meta;
/** Follows one PUBLIC variable: {@linkcode Client.onChange}. */
export const onChange: Client["onChange"] = rep.onChange;
/** Follows every PUBLIC variable: {@linkcode Client.onAnyChange}. */
export const onAnyChange: Client["onAnyChange"] = rep.onAnyChange;
/** How the stream of changes is doing: {@linkcode Client.status}. @experimental */
export const status: Client["status"] = rep.status;
/** Follows the stream's state: {@linkcode Client.onStatus}. @experimental */
export const onStatus: Client["onStatus"] = rep.onStatus;
