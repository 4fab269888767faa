import type { Tail } from "./tail.ts";

/** Event ids are safe integers. */
const ID = /^\d{1,16}$/;

/** Returns the id of the last event that a client says it has; `undefined` if the text is no id. */
export function parseEventId(text: string): number | undefined {
  return ID.test(text) ? Number(text) : undefined;
}

/**
 * Reads the newest events, since a client may know of one that this process does not.
 *
 * @returns Whether the store was available.
 */
export async function readNewEvents(
  tail: Pick<Tail, "readForClient">,
): Promise<boolean> {
  try {
    await tail.readForClient();
    return true;
  } catch {
    return false; // the circuit breaker logs the error
  }
}
