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
  #isJoining = false;
  /** The hashes that the log last named. */
  #logged: string | undefined;
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
    if (this.#rollout.hash === hash) return;
    this.#isJoining = true;
    await this.#rollout.join(hash).finally(() => this.#isJoining = false);
  }

  /** See {@linkcode Rollout.fencingChecks}. */
  async fencingChecks(): Promise<readonly Check[] | undefined> {
    const checks = await this.#rollout.fencingChecks();
    this.#logActive();
    return checks;
  }

  /** This process's configuration and the active one, for the log. */
  get configurations(): { configuration?: string; active?: string } {
    const { hash, active } = this.#rollout;
    if (hash === undefined || active === undefined) return {};
    return { configuration: shortHash(hash), active: shortHash(active) };
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
    if (this.#isJoining) return; // the caller is about to publish
    this.#logActive();
    if (this.#rollout.isActive) this.#options.onReactivated();
  }

  /** Logs which configuration is active, unless the log says so already. */
  #logActive(): void {
    const { configuration, active } = this.configurations;
    const logged = `${configuration} ${active}`;
    if (logged === this.#logged) return;
    this.#logged = logged;
    const { log } = this.#options;
    if (configuration === active) return log.info("rep.rollout.active", { configuration });
    const detail = "another configuration is active; pages and streams use it";
    log.info("rep.rollout.superseded", { configuration, active, detail });
  }

  #observeActive(): GaugeValue {
    const { active, isActive } = this.#rollout;
    if (active === undefined) return new Map();
    return new Map([[shortHash(active), Number(isActive)]]);
  }
}
