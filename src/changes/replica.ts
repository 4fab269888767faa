import type { Snapshot } from "../config/snapshot.ts";
import type { Log } from "../observe/log.ts";
import type { GaugeValue, Metrics } from "../observe/metrics.ts";
import { MAX_REPRESENTATIVES } from "../rollout/election.ts";
import { Rollout } from "../rollout/rollout.ts";
import type { Check, Store } from "../store/store.ts";
import type { Clock } from "../values/clock.ts";
import { shortHash } from "../values/hash.ts";
import type { Tail } from "./tail.ts";

/** A snapshot, and the cursor from which a page with it subscribes to changes. */
export interface ActiveConfiguration {
  readonly snapshot: Snapshot;
  readonly cursor: number;
}

/** Options of {@linkcode Replica}. */
interface ReplicaOptions {
  store: Store;
  tail: Tail;
  clock: Clock;
  random: () => number;
  log: Log;
  metrics: Metrics;
  instanceId: string | undefined;
  /** Called when this process's configuration is active again and has to be published again. */
  onReactivated: () => void;
}

/** This process as one of the replicas that publish to one log: follows the newest rollout (`docs/rollouts.md`). */
export class Replica {
  readonly #options: ReplicaOptions;
  readonly #rollout: Rollout;
  /** The hash of the configuration with which it has joined. */
  #joined: string | undefined;
  #isJoining = false;
  /** The published state, while another configuration is active. */
  #published: ActiveConfiguration & { own: Snapshot } | undefined;

  constructor(options: ReplicaOptions) {
    this.#options = options;
    this.#rollout = new Rollout({
      ...options,
      processId: crypto.randomUUID(),
      maxRepresentatives: MAX_REPRESENTATIVES,
      onChange: () => this.#onActiveChanged(),
    });
    options.metrics.observe("rep.rollout.active", () => this.#observeActive());
  }

  /** Joins the rollout with the configuration of a snapshot, unless it has done so already. */
  async join({ hash }: Snapshot): Promise<void> {
    if (this.#joined === hash) return;
    this.#isJoining = true;
    await this.#rollout.join(hash).finally(() => this.#isJoining = false);
    this.#joined = hash;
    if (!this.#rollout.isActive) this.#onActiveChanged();
  }

  /** See {@linkcode Rollout.fencingChecks}. */
  fencingChecks(): Promise<readonly Check[] | undefined> {
    return this.#rollout.fencingChecks();
  }

  /** Returns what pages are served: this process's own configuration, or the published state if another is active. */
  activeConfiguration(own: ActiveConfiguration): ActiveConfiguration {
    const { tail } = this.#options;
    if (this.#rollout.isActive || !tail.isLoaded) return own;
    if (this.#published?.cursor !== tail.head || this.#published.own !== own.snapshot) {
      const hash = this.#rollout.active ?? own.snapshot.hash;
      const snapshot = { ...own.snapshot, hash, public: tail.publicValues };
      this.#published = { own: own.snapshot, snapshot, cursor: tail.head };
    }
    return this.#published;
  }

  /** Leaves the rollout. */
  leave(): Promise<void> {
    return this.#rollout.leave();
  }

  #onActiveChanged(): void {
    if (this.#isJoining) return; // join() checks the result itself
    if (this.#rollout.isActive) return this.#options.onReactivated();
    const { hash = "", active = "" } = this.#rollout;
    this.#options.log.info("rep.rollout.superseded", {
      configuration: shortHash(hash),
      active: shortHash(active),
      detail: "another configuration is active; pages and streams use it",
    });
  }

  #observeActive(): GaugeValue {
    const { active, isActive } = this.#rollout;
    if (active === undefined) return new Map();
    return new Map([[shortHash(active), Number(isActive)]]);
  }
}
