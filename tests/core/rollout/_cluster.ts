import { silentLog } from "../../../src/core/observe/log.ts";
import { MAX_REPRESENTATIVES } from "../../../src/core/rollout/election.ts";
import type { Member } from "../../../src/core/rollout/observation.ts";
import {
  Rollout,
  type RolloutOptions,
} from "../../../src/core/rollout/rollout.ts";
import {
  type Check,
  type Store,
  StoreUnavailableError,
} from "../../../src/core/store/store.ts";
import { memoryStore } from "../../../src/engines/memory.ts";
import { FakeClock, settle } from "../../../tools/fake_clock.ts";
import { fallibleStore } from "../../_store.ts";
import { announcementOf } from "./_process.ts";

/** The maximum interval between heartbeats. */
export const PERIOD_MS = 5_000;
/** Since the last heartbeat: one period until the next observation, then four without a change. */
export const DEAD_MS = 5 * PERIOD_MS;

/** Processes on one store. */
export class Cluster {
  readonly clock = new FakeClock();
  readonly store: Store;
  readonly #running = new Map<Rollout, { isAlive: boolean }>();

  constructor(store: Store = memoryStore()) {
    this.store = store;
  }

  async start(
    hash: string,
    options: Partial<RolloutOptions> = {},
    onChange: (hash: string) => void = () => {},
    rankAtRead?: number,
  ) {
    const rollout = this.make(options);
    rollout.onActiveChange = () => onChange(rollout.active ?? "");
    await announce(rollout, hash, rankAtRead);
    onChange(rollout.active ?? "");
    return rollout;
  }

  make(options: Partial<RolloutOptions> = {}) {
    const state = { isAlive: true };
    const clock: RolloutOptions["clock"] = {
      now: () => this.clock.now(),
      monotonic: () => this.clock.monotonic(),
      after: (ms, callback) =>
        this.clock.after(ms, () => state.isAlive && callback()),
    };
    const rollout = new Rollout({
      ...{
        store: this.store,
        clock,
        random: () => 0,
        log: silentLog,
        instanceId: undefined,
        version: "0.1.0",
        revision: undefined,
        build: () => "",
        epochs: { fingerprint: undefined },
      },
      ...{
        processId: crypto.randomUUID(),
        maxRepresentatives: MAX_REPRESENTATIVES,
      },
      ...options,
    });
    this.#running.set(rollout, state);
    return rollout;
  }

  /** Ends a process without leaving. */
  kill(rollout: Rollout) {
    const state = this.#running.get(rollout);
    if (state) state.isAlive = false;
  }

  async members(): Promise<Pick<Member, "hash" | "rank">[]> {
    const entries = await this.store.list<Member>(["member"]);
    return entries.map(({ value: { hash, rank } }) => ({ hash, rank }));
  }
}

/**
 * Announces a configuration until no other process has written in the meantime; a later heartbeat does if the store is
 * unavailable. Returns the fencing checks, if the configuration is active.
 */
export async function announce(
  rollout: Rollout,
  hash: string,
  rankAtRead?: number,
): Promise<readonly Check[] | undefined> {
  try {
    while (true) {
      const own = announcementOf(hash, rankAtRead);
      const result = await rollout.claimCommit(own);
      if (typeof result === "string") return undefined;
      if (result !== undefined) return result;
    }
  } catch (error) {
    if (!(error instanceof StoreUnavailableError)) throw error;
    return undefined;
  }
}

/** A store that can be made unavailable, for every operation or for writes only. */
export function switchableStore(...operations: "commit"[]) {
  const status = { isUp: true };
  const error = new StoreUnavailableError("Cannot use the store: off");
  const failure = operations.length === 0 ? { error } : { error, operations };
  const store = fallibleStore(memoryStore(), () => !status.isUp, failure);
  return { status, store };
}

/** Runs all retries of conflicting commits. */
export async function runRetries(clock: FakeClock) {
  await settle();
  await clock.tick(1_000);
}
