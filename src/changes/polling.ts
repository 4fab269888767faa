import type { Configuration } from "../config/configuration.ts";
import { VARIABLES_HEAD_KEY } from "../config/stored_variables.ts";
import type { StoredVariablesSource } from "../config/stored_variables_source.ts";
import { type PollNewestWrite, watchStoredVariables } from "../config/watch_stored_variables.ts";
import type { Log } from "../observe/log.ts";
import type { BackgroundTasks } from "../store/background_tasks.ts";
import type { Store } from "../store/store.ts";
import { type Clock, sleep } from "../values/clock.ts";
import { type EventLog, EVENTS_HEAD_KEY } from "./event_log.ts";
import type { Tail } from "./tail.ts";

/** Options of {@linkcode Polling}. */
interface PollingOptions {
  store: Store;
  storedVariables: StoredVariablesSource;
  configuration: Configuration;
  eventLog: EventLog;
  tail: Tail;
  /** Whether to read events. */
  hotReload: boolean;
  tasks: BackgroundTasks;
  clock: Clock;
  /** Returns a number in [0, 1). */
  random: () => number;
  log: Log;
  /** Ends it when it is aborted. */
  signal: AbortSignal;
}

const POLL_MS = 1_000;
/**
 * A write to the variables in the store reaches all processes at once. Each waits for a random time of up to this
 * before it reloads, so that most find the change published (`docs/scale.md`).
 */
const MAX_RELOAD_DELAY_MS = 500;

/** Notices what other processes have written to the store: events, and variables. */
export class Polling {
  readonly #options: PollingOptions;
  #polling: Promise<void> | undefined;
  /** Tells the watch of the stored variables the id of their newest write. */
  #reportWrite: (id: number) => void = () => {};
  /** The newest event whose loss was logged. */
  #loggedLoss: number | undefined;

  constructor(options: PollingOptions) {
    this.#options = options;
  }

  /** Polls until the signal is aborted. Resolves when the last reload has ended after that. */
  async start(): Promise<void> {
    const { store, storedVariables, hotReload, clock, signal } = this.#options;
    if (hotReload) this.#followEvents();
    const poll: PollNewestWrite = (report) => {
      this.#reportWrite = report;
      return () => this.#reportWrite = () => {};
    };
    // Variables that could not be read at startup are a change, even if there are none.
    const after = storedVariables.isKnown ? 0 : -1;
    const options = { clock, signal, after, isBackground: true, poll: hotReload ? poll : undefined };
    await watchStoredVariables(store, () => this.#reloadDelayed(), options);
  }

  /**
   * Compares the ids of the newest event and of the newest write to a variable with the known ones, which costs one
   * small read. An older event means that the store has lost events that were delivered, in a failover to a replica
   * that lagged behind: they are published again.
   *
   * Calls during a call share it: over KV Connect, each operation on an unreachable server stays pending.
   */
  poll(): Promise<void> {
    return this.#polling ??= this.#pollOnce().finally(() => this.#polling = undefined);
  }

  #followEvents(): void {
    const { eventLog, tail, tasks, signal } = this.#options;
    tasks.repeat(POLL_MS, "poll", () => this.poll());
    signal.addEventListener("abort", eventLog.watch(() => void tasks.run("poll", () => tail.readNew())));
  }

  async #reloadDelayed(): Promise<void> {
    const { configuration, clock, random, signal } = this.#options;
    await sleep(random() * MAX_RELOAD_DELAY_MS, clock, { signal, isBackground: true });
    if (!signal.aborted) await configuration.reloadStored();
  }

  async #pollOnce(): Promise<void> {
    const { store, tail, configuration } = this.#options;
    const { head, isLoaded } = tail; // first: what another task reads meanwhile is newer than `newestEvent`
    if (!isLoaded) return await tail.readNew(); // streams wait for it
    const heads = await store.getMany<{ id: number }>([EVENTS_HEAD_KEY, VARIABLES_HEAD_KEY]);
    const [newestEvent = 0, newestWrite = 0] = heads.map((entry) => entry?.value.id);
    this.#reportWrite(newestWrite);
    if (newestEvent > head) return await tail.readNew();
    if (newestEvent === head) return;
    this.#logLoss(head, newestEvent);
    await configuration.reloadStored(); // the store may have lost variables as well
  }

  #logLoss(delivered: number, stored: number): void {
    if (delivered === this.#loggedLoss) return; // until the events are published, every poll finds the same
    this.#loggedLoss = delivered;
    const detail = "publishing them again: the store came back without the latest events";
    this.#options.log.error("rep.store.lost_events", { detail, delivered, stored });
  }
}
