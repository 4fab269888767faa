import type { Snapshot } from "../config/variables/snapshot.ts";
import { VARIABLES_HEAD_KEY } from "../config/stored/stored_variables.ts";
import type { StoredVariablesSource } from "../config/stored_variables_source.ts";
import type { GaugeValue } from "../observe/metrics.ts";
import type { Conflict } from "../rollout/conflicts.ts";
import { MAX_REPRESENTATIVES } from "../rollout/election.ts";
import { Rollout } from "../rollout/rollout.ts";
import type { BackgroundTasks } from "../store/background_tasks.ts";
import type { Store } from "../store/store.ts";
import { shortHash } from "../values/hash.ts";
import { EventLog, EVENTS_HEAD_KEY } from "./event_log.ts";
import { Hub, type HubOptions } from "./hub.ts";
import { Publisher } from "./publisher.ts";
import { Tail } from "./tail.ts";

/** How many of the newest events the log keeps word for word. */
const KEPT_EVENTS = 10_000;
/** How often the store is polled. */
const POLL_MS = 1_000;
/** How often a publication that has failed is repeated while the store is available. */
const PUBLISH_MS = 5_000;

/** What a page contains, and the cursor from which it subscribes to changes. */
export interface ActiveConfiguration {
  readonly snapshot: Pick<Snapshot, "public" | "sensitive">;
  readonly cursor: number;
}

/** Options of {@linkcode Changes}. */
export interface ChangesOptions extends HubOptions {
  store: Store;
  /** The place where only one process runs at a time, such as host and port. */
  instanceId: string | undefined;
  /** Returns the fingerprint of the master key; `undefined` without SENSITIVE variables, and before it is loaded. */
  keyFingerprint: () => string | undefined;
  storedVariables: Pick<StoredVariablesSource, "follow">;
  /** Reads the variables again, and publishes them. */
  reload: () => Promise<void>;
  tasks: BackgroundTasks;
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
  /** Publishes this process's snapshots. */
  readonly publisher: Publisher;
  /** Which configuration is active. */
  readonly rollout: Rollout;
  readonly #options: ChangesOptions;
  /** The published state as of the newest event. */
  #published: ActiveConfiguration & { own: Snapshot } | undefined;
  /** The newest event whose loss was logged. */
  #loggedLoss: number | undefined;
  #leaving: Promise<void> | undefined;

  constructor(options: ChangesOptions) {
    this.#options = options;
    const { store, clock, random, metrics } = options;
    const eventLog = new EventLog(store, { clock, random, keep: KEPT_EVENTS });
    const tail = this.tail = new Tail(
      eventLog,
      (frames) => this.hub.deliver(frames),
    );
    this.hub = new Hub(tail, options);
    const rollout = this.rollout = new Rollout({
      ...options,
      processId: crypto.randomUUID(),
      maxRepresentatives: MAX_REPRESENTATIVES,
      onChange: () => this.publisher.onActiveChanged(),
    });
    this.publisher = new Publisher({ ...options, eventLog, tail, rollout });
    metrics.observe("rep.rollout.active", () => observeActive(rollout));
  }

  /** What is wrong between this process and others on its store. */
  get conflicts(): readonly Conflict[] {
    return this.rollout.conflicts;
  }

  /** Begins to notice the events of other processes, and to repeat what could not be published. */
  start(): void {
    const { tasks } = this.#options;
    tasks.repeat(POLL_MS, "poll", () => this.#poll());
    tasks.runOnHint(EVENTS_HEAD_KEY, "poll", () => this.tail.readNew());
    tasks.repeat(PUBLISH_MS, "publish", () => this.#retryPublication());
  }

  /**
   * What pages are built from: the published state, which may be newer than this process's own configuration, while
   * another one is active or while this process reads what another replica has read and published already. So pages do
   * not go back in time. If the store fails, they have the own configuration, and streams get it later.
   */
  activeConfiguration(own: Snapshot): ActiveConfiguration {
    const { publisher, rollout, tail } = this;
    const isWaiting = rollout.isActive && publisher.isWaiting(own);
    if (rollout.standsApart || isWaiting || !tail.isLoaded) {
      return { snapshot: own, cursor: publisher.cursor };
    }
    if (this.#published?.cursor !== tail.head || this.#published.own !== own) {
      this.#published = {
        own,
        snapshot: { public: tail.publicValues, sensitive: own.sensitive },
        cursor: tail.head,
      };
    }
    return this.#published;
  }

  /** Leaves the rollout, so that the other replicas need not wait until this one's heartbeat is missing. */
  leave(): void {
    this.#leaving ??= this.rollout.leave();
  }

  /** Resolves when this process has left the rollout, and publishes nothing any more. */
  async close(): Promise<void> {
    this.leave();
    await Promise.all([this.publisher.close(), this.#leaving]);
  }

  /** Repeats a publication that has failed. The variables are read again first if that is why: a reload publishes. */
  async #retryPublication(): Promise<void> {
    if (this.publisher.isOutdated) await this.#options.reload();
    await this.publisher.retry();
  }

  /**
   * Compares the ids of the newest event and of the newest write to a variable with the known ones, which costs one
   * small read. An older event means that the store has lost events that were delivered, in a failover to a replica
   * that lagged behind: they are published again.
   */
  async #poll(): Promise<void> {
    const { store, storedVariables, reload, tasks } = this.#options;
    const { tail } = this;
    if (!tail.isLoaded) await tail.readNew(); // streams wait for it
    const { head } = tail; // first: what another task reads meanwhile is newer than `newestEvent`
    const heads = await store.getMany<{ id: number }>([
      EVENTS_HEAD_KEY,
      VARIABLES_HEAD_KEY,
    ]);
    const [newestEvent = 0, newestWrite = 0] = heads.map((entry) =>
      entry?.value.id
    );
    void tasks.run("reload", () => storedVariables.follow(newestWrite));
    if (newestEvent > head) return await tail.readNew();
    if (newestEvent === head) return;
    this.#logLoss(head, newestEvent);
    await reload(); // the store may have lost variables as well
  }

  #logLoss(delivered: number, stored: number): void {
    if (delivered === this.#loggedLoss) return; // until the events are published, every poll finds the same
    this.#loggedLoss = delivered;
    const detail =
      "publishing them again: the store came back without the latest events";
    this.#options.log.error("rep.store.lost_events", {
      detail,
      delivered,
      stored,
    });
  }
}

function observeActive({ active, isActive }: Rollout): GaugeValue {
  if (active === undefined) return new Map();
  return new Map([[shortHash(active), Number(isActive)]]);
}
