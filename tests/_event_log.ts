import {
  type Change,
  EventLog,
  type LogEvent,
} from "../src/core/changes/event_log.ts";
import type { PublicTarget } from "../src/core/changes/plan_changes.ts";
import { Publisher } from "../src/core/changes/publisher.ts";
import { Tail } from "../src/core/changes/tail.ts";
import { EMPTY_SNAPSHOT } from "../src/core/config/variables/snapshot.ts";
import { silentLog } from "../src/core/observe/log.ts";
import { noMetrics } from "../src/core/observe/metrics.ts";
import { batches } from "../src/core/store/commits.ts";
import type { Store } from "../src/core/store/store.ts";
import type { Clock } from "../src/core/values/clock.ts";

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
): Promise<void> {
  const changes = updates.map((update) => ({ ...update, leavesPublic: false }));
  let state = await log.state();
  for (const batch of batches(changes)) {
    const appended = await log.append(batch, state, { checks: [], afterId: 0 });
    if (appended === undefined) throw new Error("Another process has written");
    state = appended.state;
  }
}

/** A process whose configuration is always active, and which publishes what a test gives it. */
export class TestPublisher {
  readonly log: EventLog;
  readonly #publisher: Publisher;
  readonly #tail: Tail;

  constructor(store: Store, clock: Clock, keep?: number) {
    this.log = createEventLog(store, clock, keep);
    this.#tail = new Tail(this.log, clock);
    this.#publisher = new Publisher({
      rollout: {
        isAnnounced: true,
        role: "active",
        configurations: {},
        rollback: undefined,
        claimCommit: () => Promise.resolve([]),
      },
      eventLog: this.log,
      tail: this.#tail,
      place: "test:8080",
      store,
      clock,
      random: () => 0,
      log: silentLog,
      metrics: noMetrics,
    });
  }

  /** Publishes a target, and returns the new events. */
  async publish(target: PublicTarget): Promise<readonly LogEvent[]> {
    await this.#tail.readNew();
    const { head } = this.#tail;
    const publicHash = JSON.stringify([...target.public]);
    const snapshot = { ...EMPTY_SNAPSHOT, ...target, publicHash };
    const read = { storedVersion: null, rankAtRead: 0 };
    await this.#publisher.publish({ ...snapshot, ...read });
    return await this.log.after(head, Infinity);
  }
}

/** Returns what a change says, without its cause: a deletion has no value, and few variables leave the PUBLIC tier. */
export function saidBy<C extends Change | LogEvent>(
  { value, leavesPublic, cause: _, ...rest }: C,
): object {
  return {
    ...rest,
    ...(value === undefined ? {} : { value }),
    ...(leavesPublic ? { leavesPublic } : {}),
  };
}
