import type { LogEvent } from "./event_log.ts";

/**
 * A change as a message of the stream (spec, GET /rep/changes): the lines event, data and id. JSON has no line breaks, so
 * one data line is enough for any value.
 */
export function eventFrame({ id, name, value }: LogEvent): string {
  const event = value === undefined ? "rep:config:delete" : "rep:config:update";
  const data = JSON.stringify({ key: name, tier: "public", value });
  return `event: ${event}\ndata: ${data}\nid: ${id}\n\n`;
}

/** What is at the head of a stream. */
export interface OpeningFields {
  /** After which pause the client is to come back when the stream ends. */
  retryMs: number;
  /** Said to the person who looks. */
  comment: string;
  /** The cursor the client has from now on. An id without data moves it and fires no event (HTML standard §9.2.6). */
  id?: number;
}

/** The first bytes of a stream. */
export function openingFrame({ retryMs, comment, id }: OpeningFields): string {
  return `retry: ${retryMs}\n: ${comment}\n${id === undefined ? "" : `id: ${id}\n`}\n`;
}

/** What says that the stream is alive, and where it stands. */
export function heartbeatFrame(id: number): string {
  return `: heartbeat\nid: ${id}\n\n`;
}
