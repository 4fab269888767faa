import { concat } from "@std/bytes/concat";
import type { Frame } from "./tail.ts";
import { toUtf8 } from "../values/utf8.ts";

/** The fields of the first message of a stream. */
export interface OpeningFields {
  /** How long the client waits before it reconnects. */
  readonly retryMs: number;
  /** A comment for people who read the stream. */
  readonly comment: string;
  /** The client's new cursor. An id without data sets it and dispatches no event (HTML standard §9.2.6). */
  readonly id: number | undefined;
}

/**
 * How a stream writes what it sends. Its events, ids and end are the same in every form. Streams of one form share the
 * bytes of an event.
 */
export interface StreamForm {
  /** Returns the first message. */
  readonly opening: (fields: OpeningFields) => string;
  /** Returns what keeps the connection open and sets the client's cursor. */
  readonly heartbeat: (id: number) => string;
  /** Returns one chunk for one or more events. The last `id` in it is that of the last event. */
  readonly events: (frames: readonly Frame[]) => Uint8Array<ArrayBuffer>;
}

/** The form of the specification: an `EventSource` dispatches only the changes. */
const PLAIN: StreamForm = {
  opening: ({ retryMs, comment, id }) =>
    `retry: ${retryMs}\n: ${comment}\n${
      id === undefined ? "" : `id: ${id}\n`
    }\n`,
  heartbeat: (id) => `: heartbeat\nid: ${id}\n\n`,
  events: (frames) => concat(frames.map(({ bytes }) => bytes)),
};

/** It has no id: the message before it has set the client's cursor. */
const HEARTBEAT_EVENT = "event: rep:heartbeat\ndata: {}\n\n";

/**
 * The opening and each heartbeat are followed by an event, so that a script sees that the stream arrives: an
 * `EventSource` hides comments.
 */
const WITH_HEARTBEAT_EVENTS: StreamForm = {
  opening: (fields) => PLAIN.opening(fields) + HEARTBEAT_EVENT,
  heartbeat: (id) => PLAIN.heartbeat(id) + HEARTBEAT_EVENT,
  events: PLAIN.events,
};

/**
 * The form of OFREP (ADR 0008 of open-feature/protocol): one message stands for the events of a chunk, and an SDK then
 * requests all flags again. The message names the newest event as `etag`, which the SDK repeats in its request.
 */
const OFREP: StreamForm = {
  opening: PLAIN.opening,
  heartbeat: PLAIN.heartbeat,
  events(frames) {
    const id = frames.at(-1)?.id;
    const data = JSON.stringify({ type: "refetchEvaluation", etag: `${id}` });
    return toUtf8(`event: message\ndata: ${data}\nid: ${id}\n\n`);
  },
};

/**
 * Returns the message that tells a page of the build that has replaced its own. It is not in the log: its id is the
 * client's own cursor, or none if that means nothing here.
 */
export function buildMessage(
  build: string,
  cursor: number | undefined,
): string {
  const id = cursor === undefined ? "" : `id: ${cursor}\n`;
  return `event: rep:build\ndata: ${JSON.stringify({ build })}\n${id}\n`;
}

/** All forms. */
export const STREAM_FORMS = {
  plain: PLAIN,
  with_heartbeat_events: WITH_HEARTBEAT_EVENTS,
  ofrep: OFREP,
} as const satisfies Record<string, StreamForm>;

/** The name of a form. */
export type StreamFormName = keyof typeof STREAM_FORMS;

/** Between which times a client reconnects: random for each, so that not all do it at once. */
export type RetryMs = readonly [min: number, max: number];

/**
 * Returns the first message of a stream. Its id is the client's position, not the log's head: otherwise a client that is
 * cut off here would miss the events between.
 */
export function openStreamForm(
  form: StreamFormName,
  { retryMs: [min, max], comment, id }: Omit<OpeningFields, "retryMs"> & {
    readonly retryMs: RetryMs;
  },
  random: () => number,
): Uint8Array<ArrayBuffer> {
  const retryMs = Math.round(min + (max - min) * random());
  return toUtf8(STREAM_FORMS[form].opening({ retryMs, comment, id }));
}

/** Returns a function that writes the same thing once for each form, for all streams of that form. */
export function onceForEachForm(
  write: (form: StreamForm) => Uint8Array<ArrayBuffer>,
): (name: StreamFormName) => Uint8Array<ArrayBuffer> {
  const written = new Map<StreamFormName, Uint8Array<ArrayBuffer>>();
  return (name) => {
    const bytes = written.get(name) ?? write(STREAM_FORMS[name]);
    written.set(name, bytes);
    return bytes;
  };
}
