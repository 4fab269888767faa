import type { Snapshot } from "../config/variables/snapshot.ts";
import { VARIABLES_HEAD_KEY } from "../config/stored/stored_variables.ts";
import type { Epochs } from "../keys/epochs.ts";
import type { Log } from "../observe/log.ts";
import type { Metrics, ObservedValue } from "../observe/metrics.ts";
import type { PageValues } from "../pages/config_script.ts";
import { MAX_REPRESENTATIVES } from "../rollout/election.ts";
import { HIGHEST_RANK } from "../rollout/heartbeat.ts";
import { Rollout } from "../rollout/rollout.ts";
import type { Entry, Store } from "../store/store.ts";
import { shortHash } from "../values/hash.ts";
import { EventLog, EVENTS_HEAD_KEY } from "./event_log.ts";
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

/** What a poll has found. */
export interface PollResult {
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
  #published: PageValues & { readonly own: Snapshot } | undefined;
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
    this.rollout.onActiveChange = () => this.publisher.followRollout();
    this.tail.onEvents = (frames) => this.hub.deliver(frames);
    metrics.observe("rep.rollout.active", () => observeActive(this.rollout));
  }

  /**
   * What pages are built from: the published PUBLIC values. They may be newer than this process's own configuration:
   * while another one is active, or while this process still reads what another replica has already published. So pages
   * do not go back in time.
   *
   * Pages get the process's own PUBLIC values in three cases: while it stands apart, since nobody can tell to which app
   * the published ones belong; while its configuration is the active one but the store fails (streams get the values
   * later); and before the log could be read.
   *
   * SENSITIVE values are always the process's own: the store must not contain any. So until a superseded process is
   * replaced, its pages may have PUBLIC values of the new configuration and SENSITIVE values of the old one. With the
   * process's own PUBLIC values as well, a page would change from replica to replica, and its stream would bring the
   * new values anyway.
   *
   * @param knownId The id of an event that a client knows, and this process as well. The client does not get values of this
   * process that may be older than that event, even while this process cannot publish them.
   */
  pageValues(own: Snapshot, knownId = 0): PageValues {
    const { publisher, rollout, tail } = this;
    const isWaiting = rollout.isActive && publisher.isWaiting(own) &&
      knownId <= publisher.cursor;
    if (rollout.standsApart || isWaiting || !tail.isLoaded) {
      return { values: own, cursor: publisher.cursor };
    }
    // The object stays the same until either changes, so that serving a page needs no comparison of all values.
    if (this.#published?.cursor !== tail.head || this.#published.own !== own) {
      this.#published = {
        own,
        values: { public: tail.publicValues, sensitive: own.sensitive },
        cursor: tail.head,
      };
    }
    return this.#published;
  }

  /**
   * Looks for new events, for new writes to the variables in the store, and for a new rollout, which costs one small
   * read. If the newest event is older than a known one, the store has lost events that were delivered, in a failover to
   * a replica that lagged behind.
   */
  async poll(): Promise<PollResult> {
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
  leave(): void {
    this.#leaving ??= this.rollout.leave();
  }

  /** Resolves when this process has left the rollout, and publishes nothing any more. */
  async close(): Promise<void> {
    this.leave();
    await Promise.all([this.publisher.close(), this.#leaving]);
  }

  async #readHeads() {
    const keys = [EVENTS_HEAD_KEY, VARIABLES_HEAD_KEY, HIGHEST_RANK];
    const entries: unknown[] = await this.#store.getMany(keys);
    return entries as [
      Entry<{ id: number }> | undefined,
      Entry<{ id: number }> | undefined,
      Entry<number> | undefined,
    ];
  }

  #logLoss(delivered: number, stored: number): void {
    if (delivered === this.#loggedLoss) return; // until the events are published, every poll finds the same
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
