import type { LogEvent } from "./log_event.ts";

/**
 * Returns a change as a message of the stream (endpoint specification, GET /rep/changes): the lines event, data and id.
 * JSON has no line breaks, so a single data line can hold any value.
 */
export function eventFrame({ id, name, value }: Omit<LogEvent, "leavesPublic">): string {
  const event = value === undefined ? "rep:config:delete" : "rep:config:update";
  const data = JSON.stringify({ key: name, tier: "public", value });
  return `event: ${event}\ndata: ${data}\nid: ${id}\n\n`;
}

/** The fields of {@linkcode openingFrame}. */
interface OpeningFields {
  /** How long the client waits before it reconnects. */
  retryMs: number;
  /** A comment for people who read the stream. */
  comment: string;
  /** The client's new cursor. An id without data sets it and dispatches no event (HTML standard §9.2.6). */
  id: number | undefined;
}

/** Returns the first frame of a stream. */
export function openingFrame({ retryMs, comment, id }: OpeningFields): string {
  return `retry: ${retryMs}\n: ${comment}\n${id === undefined ? "" : `id: ${id}\n`}\n`;
}

/** Returns a frame that keeps the connection open and sets the client's cursor. */
export function heartbeatFrame(id: number): string {
  return `: heartbeat\nid: ${id}\n\n`;
}
