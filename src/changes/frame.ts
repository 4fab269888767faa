import type { LogEvent } from "./event.ts";

/** An event, encoded once for all streams. */
export interface Frame {
  readonly id: number;
  readonly bytes: Uint8Array;
}

/** Returns the total size of frames in bytes. */
export function sizeOf(frames: readonly Frame[]): number {
  return frames.reduce((sum, { bytes }) => sum + bytes.length, 0);
}

/**
 * Returns the frames after a cursor, up to a total size.
 *
 * @param frames Frames in order.
 * @param cursor The id of the last event to skip.
 * @param maxBytes The maximum total size; a single frame may exceed it.
 */
export function takeAfter<F extends Frame>(
  frames: readonly F[],
  cursor: number,
  maxBytes: number,
): readonly F[] {
  const first = indexAfter(frames, cursor);
  let end = first;
  let bytes = 0;
  while (
    end < frames.length &&
    (end === first || bytes + (frames[end]?.bytes.length ?? 0) <= maxBytes)
  ) {
    bytes += frames[end++]?.bytes.length ?? 0;
  }
  return frames.slice(first, end);
}

/** Returns the index of the first event after a cursor. */
function indexAfter(frames: readonly Frame[], cursor: number): number {
  let low = 0;
  let high = frames.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((frames[middle]?.id ?? 0) <= cursor) low = middle + 1;
    else high = middle;
  }
  return low;
}

/**
 * Returns a change as a message of the stream (endpoint specification, GET /rep/changes): the lines event, data and id.
 * JSON has no line breaks, so a single data line can hold any value.
 */
export function eventFrame(
  { id, name, value }: Omit<LogEvent, "leavesPublic">,
): string {
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
  return `retry: ${retryMs}\n: ${comment}\n${
    id === undefined ? "" : `id: ${id}\n`
  }\n`;
}

/** Returns a frame that keeps the connection open and sets the client's cursor. */
export function heartbeatFrame(id: number): string {
  return `: heartbeat\nid: ${id}\n\n`;
}
