import { EventLog } from "../src/changes/event_log.ts";
import type { Change, LogEvent } from "../src/changes/event.ts";
import type { Store } from "../src/store/store.ts";
import type { Clock } from "../src/values/clock.ts";

/** Creates an event log that keeps as many events as the gateway's, unless a test says how many. */
export function createEventLog(
  store: Store,
  clock: Clock,
  keep = 10_000,
): EventLog {
  return new EventLog(store, { clock, random: () => 0, keep });
}

/** Appends updates to a log. */
export async function appendUpdates(
  log: EventLog,
  updates: readonly Pick<Change, "name" | "value">[],
  state?: Awaited<ReturnType<EventLog["state"]>>,
): ReturnType<EventLog["append"]> {
  const changes = updates.map((update) => ({ ...update, leavesPublic: false }));
  return await log.append(changes, state ?? await log.state(), {
    checks: [],
    afterId: 0,
    onCommit() {},
  });
}

/** Returns what a change says: a deletion has no value, and few variables leave the PUBLIC tier. */
export function saidBy<C extends Change | LogEvent>(
  { value, leavesPublic, ...rest }: C,
): object {
  return {
    ...rest,
    ...(value === undefined ? {} : { value }),
    ...(leavesPublic ? { leavesPublic } : {}),
  };
}
