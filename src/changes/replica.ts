import type { Snapshot } from "../config/snapshot.ts";
import { canonicalJson, sriHash } from "../keys/integrity.ts";
import type { Log } from "../observe/log.ts";
import { Rollout } from "../rollout/rollout.ts";
import type { Store } from "../store/store.ts";
import type { Clock } from "../values/clock.ts";
import type { EventLog } from "./event_log.ts";
import { type Publication, publish } from "./publisher.ts";
import type { Tail } from "./tail.ts";

/** A snapshot, and the cursor from which a page with it subscribes to changes. */
export interface ActiveConfiguration {
  readonly snapshot: Snapshot;
  readonly cursor: number;
}

/** Options of {@linkcode Replica}. */
interface ReplicaOptions {
  store: Store;
  eventLog: EventLog;
  tail: Tail;
  clock: Clock;
  random: () => number;
  log: Log;
  instanceId: string | undefined;
  /** Called when this process's configuration is active again and has to be published again. */
  onReactivated: () => void;
}

/** This process as one of the replicas that publish to one log: follows the newest rollout (`docs/rollouts.md`). */
export class Replica {
  readonly #options: ReplicaOptions;
  readonly #rollout: Rollout;
  #joinedHash: string | undefined;
  #isJoining = false;
  /** The last result of {@linkcode activeConfiguration} while another configuration is active. */
  #superseding: ActiveConfiguration & { own: Snapshot } | undefined;

  constructor(options: ReplicaOptions) {
    const { store, clock, random, log, instanceId } = options;
    const onChange = () => this.#onActiveChanged();
    this.#options = options;
    this.#rollout = new Rollout({
      ...{ store, clock, random, log, onChange },
      ...(instanceId === undefined ? {} : { instanceId }),
    });
  }

  /**
   * Publishes a snapshot if its configuration is active.
   *
   * @param unpublished Names that get an event in any case (see `PublishOptions`).
   */
  async publish(snapshot: Snapshot, unpublished?: ReadonlySet<string>): Promise<Publication | undefined> {
    const { eventLog, tail, clock, random } = this.#options;
    await this.#join(snapshot);
    const fencingChecks = () => this.#rollout.fencingChecks();
    const delivered = () => tail.state;
    const options = { clock, random, fencingChecks, delivered, ...(unpublished && { unpublished }) };
    const publication = await publish(snapshot, eventLog, options);
    await tail.readNew();
    return publication;
  }

  /** Returns what pages are served: this process's own configuration, or the published state if another is active. */
  activeConfiguration(own: ActiveConfiguration): ActiveConfiguration {
    const { tail } = this.#options;
    if (this.#rollout.isActive || !tail.isLoaded) return own;
    if (this.#superseding?.cursor !== tail.head || this.#superseding.own !== own.snapshot) {
      const snapshot = { ...own.snapshot, public: tail.publicValues };
      this.#superseding = { own: own.snapshot, snapshot, cursor: tail.head };
    }
    return this.#superseding;
  }

  /**
   * The hash of the active configuration, and whether it is this process's own; `undefined` before {@linkcode publish}.
   */
  get active(): { readonly hash: string; readonly isOwn: boolean } | undefined {
    const { active, isActive } = this.#rollout;
    return active === undefined ? undefined : { hash: active, isOwn: isActive };
  }

  /** Leaves the rollout. */
  leave(): Promise<void> {
    return this.#rollout.leave();
  }

  async #join(snapshot: Snapshot): Promise<void> {
    const hash = await sriHash(canonicalJson(snapshot.public));
    if (hash === this.#joinedHash) return;
    this.#isJoining = true;
    await this.#rollout.join(hash).finally(() => this.#isJoining = false);
    this.#joinedHash = hash;
    if (!this.#rollout.isActive) this.#onActiveChanged();
  }

  #onActiveChanged(): void {
    if (this.#isJoining) return; // #join() checks the result itself
    if (this.#rollout.isActive) return this.#options.onReactivated();
    this.#options.log.info("rep.rollout.superseded", {
      detail: "another configuration is active; pages and streams use it",
    });
  }
}
