import { isEqualMap, type Snapshot } from "../config/snapshot.ts";
import { canonicalJson, sriHash } from "../keys/integrity.ts";
import type { Log } from "../observe/log.ts";
import type { GaugeValue, Metrics } from "../observe/metrics.ts";
import { MAX_REPRESENTATIVES } from "../rollout/election.ts";
import { Rollout } from "../rollout/rollout.ts";
import type { Check, Store } from "../store/store.ts";
import type { Clock } from "../values/clock.ts";
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

/** How much of a hash identifies a configuration in a label. */
const HASH_LENGTH = 12;

/** This process as one of the replicas that publish to one log: follows the newest rollout (`docs/rollouts.md`). */
export class Replica {
  readonly #options: ReplicaOptions;
  readonly #rollout: Rollout;
  /** The PUBLIC variables with which it has joined. */
  #joined: Snapshot["public"] | undefined;
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
  async join(snapshot: Snapshot): Promise<void> {
    if (this.#joined !== undefined && isEqualMap(this.#joined, snapshot.public)) return;
    const hash = await sriHash(canonicalJson(snapshot.public));
    this.#isJoining = true;
    await this.#rollout.join(hash).finally(() => this.#isJoining = false);
    this.#joined = snapshot.public;
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
      const snapshot = { ...own.snapshot, public: tail.publicValues };
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
    this.#options.log.info("rep.rollout.superseded", {
      detail: "another configuration is active; pages and streams use it",
    });
  }

  #observeActive(): GaugeValue {
    const { active, isActive } = this.#rollout;
    if (active === undefined) return new Map();
    return new Map([[active.replace(/^sha256-/, "").slice(0, HASH_LENGTH), Number(isActive)]]);
  }
}
