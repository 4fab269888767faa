import type { Frame, Tail } from "./tail.ts";

/** Where a stream or a poll begins: with the whole public state, or after the last event that the client has received. */
export type Position =
  | { readonly kind: "whole_state" }
  | { readonly kind: "newest_of_each"; readonly cursor: number }
  | { readonly kind: "every_event"; readonly cursor: number };

/** How far a client has come. */
export interface Progress {
  /** The id of the last event that was sent. */
  cursor: number;
  /** Whether events are skipped that a newer one of the same variable has replaced. */
  skipsOutdated: boolean;
}

/** The maximum size of a chunk while a stream catches up, and of what a poll gets. */
export const CHUNK_BYTES = 64 << 10;

/** Returns the progress of a client that has received nothing yet. */
export function progressAt(position: Position): Progress {
  const cursor = position.kind === "whole_state" ? 0 : position.cursor;
  return { cursor, skipsOutdated: position.kind !== "every_event" };
}

/** Returns the client's own cursor, if it has one. */
export function cursorAt(position: Position): number | undefined {
  return position.kind === "whole_state" ? undefined : position.cursor;
}

/** Returns a chunk of what a client has missed; `undefined` if that is in the store, which is unavailable. */
export async function readMissed(
  { cursor, skipsOutdated }: Progress,
  tail: Tail,
): Promise<readonly Frame[] | undefined> {
  if (skipsOutdated) return tail.newestOfEach(cursor, CHUNK_BYTES);
  if (cursor >= tail.cachedAfter) return tail.cached(cursor, CHUNK_BYTES);
  try {
    const stored = await tail.readFromStore(cursor, CHUNK_BYTES);
    if (stored.length > 0) return stored;
  } catch {
    return undefined; // the circuit breaker reports it
  }
  return tail.cached(tail.cachedAfter, CHUNK_BYTES);
}
