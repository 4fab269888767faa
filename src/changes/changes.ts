import type { Snapshot } from "../config/snapshot.ts";
import type { StoredVariablesSource } from "../config/stored_variables_source.ts";
import type { BackgroundTasks } from "../store/background_tasks.ts";
import type { Store } from "../store/store.ts";
import { EventLog } from "./event_log.ts";
import { EventPolling } from "./event_polling.ts";
import { Hub, type HubOptions } from "./hub.ts";
import { Publisher } from "./publisher.ts";
import { type ActiveConfiguration, Replica } from "./replica.ts";
import { Tail } from "./tail.ts";

/** How many of the newest events the log keeps word for word. */
const KEPT_EVENTS = 10_000;

/** Options of {@linkcode Changes}. */
export interface ChangesOptions extends HubOptions {
  store: Store;
  /** The place where only one process runs at a time, such as host and port. */
  instanceId: string | undefined;
  storedVariables: Pick<StoredVariablesSource, "isKnown">;
  /** Returns this process's variables. */
  snapshot: () => Snapshot;
  /** Reads the variables again, and publishes them. */
  reload: () => Promise<void>;
  tasks: BackgroundTasks;
  /** Ends the polling when it is aborted. */
  signal: AbortSignal;
}

/**
 * What only a gateway with hot reload has: the event log of all replicas, this process as one of them, and the open
 * streams.
 */
export class Changes {
  /** The events that this process knows. */
  readonly tail: Tail;
  /** The open streams. */
  readonly hub: Hub;
  /** Notices the events of other processes. */
  readonly polling: EventPolling;
  /** Publishes this process's snapshots. */
  readonly publisher: Publisher;
  readonly #replica: Replica;
  #leaving: Promise<void> | undefined;

  constructor(options: ChangesOptions) {
    const { store, clock, random, snapshot } = options;
    const eventLog = new EventLog(store, { clock, random, keep: KEPT_EVENTS });
    const tail = this.tail = new Tail(eventLog, (frames) => this.hub.deliver(frames));
    this.hub = new Hub(tail, options);
    this.polling = new EventPolling({ ...options, eventLog, tail });
    const replica = this.#replica = new Replica({
      ...options,
      tail,
      onReactivated: () => void this.publisher.publishOrRetry(snapshot()),
    });
    this.publisher = new Publisher({ ...options, eventLog, tail, replica });
  }

  /** What pages are built from: the active configuration of all replicas, which may not be this process's. */
  activeConfiguration(own: Snapshot): ActiveConfiguration {
    return this.#replica.activeConfiguration({ snapshot: own, cursor: this.publisher.cursor });
  }

  /** Leaves the rollout, so that the other replicas need not wait until this one's heartbeat is missing. */
  leave(): void {
    this.#leaving ??= this.#replica.leave();
  }

  /** Resolves when this process has left the rollout, and no publication is retried. */
  async close(): Promise<void> {
    this.leave();
    await Promise.all([this.publisher.close(), this.#leaving]);
  }
}
