import type { Snapshot } from "../config/variables/snapshot.ts";
import {
  VARIABLES_HEAD_KEY,
  type VariablesHead,
} from "../config/stored/stored_variables.ts";
import type { Epochs } from "../keys/epochs.ts";
import type { Log } from "../observe/log.ts";
import type { Metrics, ObservedValue } from "../observe/metrics.ts";
import type { PageValues } from "../pages/config_script.ts";
import { MAX_REPRESENTATIVES } from "../rollout/election.ts";
import { HIGHEST_RANK } from "../rollout/heartbeat.ts";
import { Rollout } from "../rollout/rollout.ts";
import type { Entry, Store } from "../store/store.ts";
import { shortHash } from "../values/hash.ts";
import { EventLog, EVENTS_HEAD_KEY, type EventsHead } from "./event_log.ts";
import { Hub, type HubOptions } from "./hub.ts";
import { Publisher } from "./publisher.ts";
import { Tail } from "./tail.ts";

/** How many of the newest events the log keeps without compaction. */
const KEPT_EVENTS = 10_000;

/** Options of {@linkcode Changes}: those of the streams, and what the others need. */
export interface ChangesOptions extends HubOptions {
  readonly store: Store;
  /** Knows the fingerprint of the master key. */
  readonly epochs: Pick<Epochs, "fingerprint">;
  /** The place where only one process runs at a time, such as host and port. */
  readonly instanceId: string | undefined;
  /** What the process was built from, such as a Git hash. */
  readonly revision: string | undefined;
}

/** What the values of pages depend on, besides the newest event. */
interface PublishedFor {
  readonly own: Snapshot;
  readonly isSuperseded: boolean;
}

/** What is new in the store. */
export interface News {
  /** The id of the newest write to a variable in the store; 0 if there was none. */
  readonly newestWrite: number;
  /** The rank of the newest rollout; 0 if there was none. */
  readonly highestRank: number;
  /** Whether the store lacks events that this process has delivered: they have to be published again. */
  readonly hasLostEvents: boolean;
}

/**
 * What only a gateway with hot reload has: this process as one of several, the events of all of them, and the open
 * streams. The parts are created in the order in which events pass through them.
 */
export class Changes {
  /** The key that is written with every event. */
  readonly eventsHeadKey = EVENTS_HEAD_KEY;
  /** Which configuration is active. */
  readonly rollout: Rollout;
  /** The events that this process knows. */
  readonly tail: Tail;
  /** Publishes this process's snapshots. */
  readonly publisher: Publisher;
  /** The open streams. */
  readonly hub: Hub;
  readonly #store: Store;
  readonly #log: Log;
  readonly #metrics: Metrics;
  /** The published state as of the newest event. */
  #published: PageValues & PublishedFor | undefined;
  /** The newest event whose loss was logged. */
  #loggedLoss: number | undefined;
  #leaving: Promise<void> | undefined;

  constructor(options: ChangesOptions) {
    const { store, clock, random, log, metrics } = options;
    this.#store = store;
    this.#log = log;
    this.#metrics = metrics;
    this.rollout = new Rollout({
      store,
      clock,
      random,
      log,
      processId: crypto.randomUUID(),
      instanceId: options.instanceId,
      revision: options.revision,
      maxRepresentatives: MAX_REPRESENTATIVES,
      epochs: options.epochs,
    });
    const eventLog = new EventLog(store, { clock, random, keep: KEPT_EVENTS });
    this.tail = new Tail(eventLog, clock);
    this.publisher = new Publisher({
      rollout: this.rollout,
      eventLog,
      tail: this.tail,
      store,
      clock,
      random,
      log,
      metrics,
    });
    this.hub = new Hub(this.tail, options);
    this.tail.onEvents = (frames) => this.hub.deliver(frames);
    metrics.observe("rep.rollout.active", () => observeActive(this.rollout));
  }

  /**
   * What pages are built from:
   *
   * | this process                                     | PUBLIC values | without the names that are                             |
   * | ------------------------------------------------ | ------------- | ------------------------------------------------------ |
   * | has the active configuration, or still joins     | the published | SENSITIVE or SERVER here                                |
   * | is superseded: another configuration is active   | the published |                                                        |
   * | stands apart from another app                    | its own       |                                                        |
   * | knows no event: there is none, or it started without the store | its own |                                                |
   *
   * The published values may be newer than this process's own, while it still reads what another replica has published:
   * pages do not go back in time. They may be older while an edit waits, also a removal: nobody serves values that the
   * other replicas do not have. With its own values, a page gets a stream that begins with the whole published state.
   *
   * A superseded process leaves nothing out: a page that lacked a value of the active configuration, but has the id of
   * the newest event, would never get it. That reveals nothing of this process, whose name may be SERVER here: the value is
   * that of a process in which the name is PUBLIC, and all streams have it as well.
   *
   * SENSITIVE values are always the process's own: the store must not contain any. So until a superseded process is
   * replaced, its pages may have PUBLIC values of the new configuration and SENSITIVE values of the old one. With the
   * process's own PUBLIC values as well, a page would change from replica to replica, and its stream would bring the
   * new values anyway.
   */
  pageValues(own: Snapshot): PageValues {
    const { rollout, tail } = this;
    const isSuperseded = this.publisher.isSuperseded(own);
    if (rollout.standsApart || tail.head === 0) {
      return { values: own, cursor: 0 };
    }
    // The object stays the same until any of them changes, so that serving a page needs no comparison of all values.
    const published = this.#published;
    const isCurrent = published?.cursor === tail.head &&
      published.own === own && published.isSuperseded === isSuperseded;
    if (isCurrent) return published;
    const isHidden = (name: string) =>
      own.sensitive.has(name) || own.server.has(name);
    const visible = [...tail.publicValues].filter(([name]) =>
      isSuperseded || !isHidden(name)
    );
    const values = { public: new Map(visible), sensitive: own.sensitive };
    const cursor = tail.head;
    this.#published = { own, isSuperseded, values, cursor };
    return this.#published;
  }

  /**
   * Looks for new events, for new writes to the variables in the store, and for a new rollout, which costs one small
   * read. If the newest event is older than a known one, the store has lost events that were delivered, in a failover to
   * a replica that lagged behind.
   */
  async findNews(): Promise<News> {
    const { tail } = this;
    if (!tail.isLoaded) await tail.readNew(); // streams wait for it
    const { head } = tail; // first: what another task reads in between is newer than `newestEvent`
    const [event, write, rank] = await this.#readHeads();
    const newestEvent = event?.value.id ?? 0;
    if (newestEvent > head) await tail.readNew();
    if (newestEvent < head) this.#logLoss(head, newestEvent);
    return {
      newestWrite: write?.value.id ?? 0,
      highestRank: rank?.value ?? 0,
      hasLostEvents: newestEvent < head,
    };
  }

  /** Leaves the rollout, so that the other replicas need not wait until this one's heartbeat is missing. */
  leave(): Promise<void> {
    this.#leaving ??= this.rollout.leave();
    return this.#leaving;
  }

  /** Resolves when this process has left the rollout. From then on, it publishes nothing. */
  async close(): Promise<void> {
    await this.leave();
  }

  async #readHeads() {
    const keys = [EVENTS_HEAD_KEY, VARIABLES_HEAD_KEY, HIGHEST_RANK];
    const entries: unknown[] = await this.#store.getMany(keys);
    return entries as [
      Entry<EventsHead> | undefined,
      Entry<VariablesHead> | undefined,
      Entry<number> | undefined,
    ];
  }

  #logLoss(delivered: number, stored: number): void {
    if (delivered === this.#loggedLoss) return; // until the events are published, it is found each time
    this.#loggedLoss = delivered;
    this.#metrics.count("rep.store.lost_events", 1);
    const detail =
      "publishing them again: the store came back without the latest events";
    this.#log.error("rep.store.lost_events", { detail, delivered, stored });
  }
}

function observeActive(
  { active, activeRevision = "", isActive }: Rollout,
): ObservedValue {
  if (active === undefined) return new Map();
  const labels = `${shortHash(active)} ${activeRevision}`.trimEnd();
  return new Map([[labels, Number(isActive)]]);
}
