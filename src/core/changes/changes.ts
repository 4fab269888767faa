import {
  VARIABLES_HEAD_KEY,
  type VariablesHead,
} from "../config/stored/stored_variables.ts";
import type { Epochs } from "../keys/epochs.ts";
import type { ObservedValue } from "../observe/metrics.ts";
import { MAX_REPRESENTATIVES } from "../rollout/election.ts";
import { HIGHEST_RANK } from "../rollout/heartbeat.ts";
import { Rollout } from "../rollout/rollout.ts";
import { getTuple, type Store, StoreUnavailableError } from "../store/store.ts";
import { shortHash } from "../values/hash.ts";
import { EventLog, EVENTS_HEAD_KEY, type EventsHead } from "./event_log.ts";
import { Hub, type HubOptions } from "./hub.ts";
import { PublishedPageValues } from "./page_values.ts";
import { Polls } from "./polls.ts";
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
  /** The version of the gateway. */
  readonly version: string;
  /** Returns the ID of the build that this process delivers; empty if it delivers none. */
  readonly build: () => string;
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
  /** What pages are built from. */
  readonly pageValues: PublishedPageValues;
  /** The open streams. */
  readonly hub: Hub;
  /** The streams that end at once. */
  readonly polls: Polls;
  readonly #options: ChangesOptions;
  /** The newest event whose loss was logged. */
  #loggedLoss: number | undefined;
  #stopping: Promise<void> | undefined;

  constructor(options: ChangesOptions) {
    const { store, clock, random, log, metrics } = options;
    this.#options = options;
    const processId = crypto.randomUUID();
    this.rollout = new Rollout({
      store,
      clock,
      random,
      log,
      processId,
      instanceId: options.instanceId,
      revision: options.revision,
      version: options.version,
      build: options.build,
      maxRepresentatives: MAX_REPRESENTATIVES,
      epochs: options.epochs,
    });
    const eventLog = new EventLog(store, { clock, random, keep: KEPT_EVENTS });
    this.tail = new Tail(eventLog, clock);
    this.publisher = new Publisher({
      rollout: this.rollout,
      eventLog,
      tail: this.tail,
      place: options.instanceId ?? processId,
      store,
      clock,
      random,
      log,
      metrics,
    });
    this.pageValues = new PublishedPageValues({
      rollout: this.rollout,
      tail: this.tail,
    });
    this.hub = new Hub(this.tail, options);
    this.polls = new Polls(this.tail, this.hub, options);
    this.tail.onEvents = (frames) => this.hub.deliver(frames);
    this.rollout.onHeartbeat = () =>
      this.hub.tellBuilds((build) => this.rollout.builds.replacementOf(build));
    metrics.observe("rep.rollout.active", () => observeActive(this.rollout));
  }

  /**
   * Looks for new events, for new writes to the variables in the store, and for a new rollout, which costs one small
   * read. If the newest event is older than a known one, the store has lost events that were delivered, in a failover to
   * a replica that lagged behind.
   */
  async findNews(): Promise<News> {
    const { tail } = this;
    const { store } = this.#options;
    if (!tail.isLoaded) await tail.readNew(); // streams wait for it
    const { head } = tail; // first: what another task reads in between is newer than `newestEvent`
    const [event, write, rank] = await getTuple<
      [EventsHead, VariablesHead, number]
    >(store, [EVENTS_HEAD_KEY, VARIABLES_HEAD_KEY, HIGHEST_RANK]);
    const newestEvent = event?.value.id ?? 0;
    if (newestEvent > head) await tail.readNew();
    if (newestEvent < head) this.#logLoss(head, newestEvent);
    return {
      newestWrite: write?.value.id ?? 0,
      highestRank: rank?.value ?? 0,
      hasLostEvents: newestEvent < head,
    };
  }

  /**
   * Returns the build that the page of a new stream or poll is told of. The members are read again: the page may be that
   * of a process that has started since the last heartbeat. During an outage, no page is told.
   */
  async replacementOf(build: string): Promise<string | undefined> {
    if (this.rollout.builds.replacementOf(build) === undefined) {
      return undefined;
    }
    try {
      await this.rollout.look();
    } catch (error) {
      if (error instanceof StoreUnavailableError) return undefined;
      throw error;
    }
    return this.rollout.builds.replacementOf(build);
  }

  /** Leaves the election, so that the other replicas need not wait. From then on, this process publishes nothing. */
  stop(): Promise<void> {
    return this.#stopping ??= this.rollout.stop();
  }

  /** Leaves the rollout, once the ports are closed. */
  leave(): Promise<void> {
    return this.rollout.leave();
  }

  #logLoss(delivered: number, stored: number): void {
    if (delivered === this.#loggedLoss) return; // until the events are published, it is found each time
    this.#loggedLoss = delivered;
    const { log, metrics } = this.#options;
    metrics.count("rep.store.lost_events", 1);
    const detail =
      "publishing them again: the store came back without the latest events";
    log.error("rep.store.lost_events", { detail, delivered, stored });
  }
}

function observeActive(
  { active, activeRevision = "", isActive }: Rollout,
): ObservedValue {
  if (active === undefined) return new Map();
  const labels = `${shortHash(active)} ${activeRevision}`.trimEnd();
  return new Map([[labels, Number(isActive)]]);
}
