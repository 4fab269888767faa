import type { Clock } from "../clock.ts";
import { canonicalJson, sriHash } from "../crypto/integrity.ts";
import type { EventLog } from "../events/event_log.ts";
import { type Publication, publish } from "../events/publisher.ts";
import type { Tail } from "../events/tail.ts";
import type { Log } from "../log.ts";
import type { Store } from "../store/store.ts";
import type { Snapshot } from "../variables/snapshot.ts";
import { createRollout } from "./rollout.ts";

/** A snapshot, and the id from which on a page with it has to follow the log. */
export interface ActiveConfiguration {
  readonly snapshot: Snapshot;
  readonly cursor: number;
}

/** What {@linkcode createReplica} needs. */
export interface ReplicaOptions {
  store: Store;
  eventLog: EventLog;
  tail: Tail;
  clock: Clock;
  random: () => number;
  log: Log;
  /** What only one process at a time is called. */
  instanceId: string | undefined;
  /** Called when this process's configuration is in force again, and has to be published again. */
  onReactivated: () => void;
}

/** This process, as one of those that publish to one log. */
export interface Replica {
  /** Publishes a snapshot, if its configuration is in force. */
  publish(snapshot: Snapshot): Promise<Publication | undefined>;
  /** What pages are given: what this process has, or the public state of those whose configuration is in force. */
  activeConfiguration(own: ActiveConfiguration): ActiveConfiguration;
  /** Says goodbye to the others. */
  leave(): Promise<void>;
}

/** Makes a process follow the newest rollout, as `docs/rollouts.md` has it. */
export function createReplica(options: ReplicaOptions): Replica {
  const { store, eventLog, tail, clock, random, log, instanceId, onReactivated } = options;
  const identity = instanceId === undefined ? {} : { instanceId };
  const rollout = createRollout({ store, clock, random, onChange: onActiveChanged, ...identity });
  let joined: string | undefined;
  let isJoining = false;
  let foreign: ActiveConfiguration & { own: Snapshot } | undefined;

  async function join(snapshot: Snapshot): Promise<void> {
    const hash = await sriHash(canonicalJson(snapshot.public));
    if (hash === joined) return;
    isJoining = true;
    await rollout.join(hash).finally(() => isJoining = false);
    joined = hash;
    if (!rollout.isActive) onActiveChanged();
  }

  function onActiveChanged(): void {
    if (isJoining) return; // whoever joins finds out by itself
    if (rollout.isActive) return onReactivated();
    log.info("rep.rollout.superseded", { detail: "another configuration is in force: pages and streams follow it" });
  }

  return {
    async publish(snapshot) {
      await join(snapshot);
      const publication = await publish(snapshot, eventLog, {
        clock,
        random,
        fencingChecks: () => rollout.fencingChecks(),
      });
      await tail.readNew();
      return publication;
    },
    activeConfiguration(own) {
      if (rollout.isActive || !tail.isLoaded) return own;
      if (foreign?.cursor !== tail.head || foreign.own !== own.snapshot) {
        const snapshot = { ...own.snapshot, public: tail.publicValues };
        foreign = { own: own.snapshot, snapshot, cursor: tail.head };
      }
      return foreign;
    },
    leave: () => rollout.leave(),
  };
}
