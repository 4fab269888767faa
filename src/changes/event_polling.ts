import { VARIABLES_HEAD_KEY } from "../config/stored_variables.ts";
import type { PollNewestWrite } from "../config/watch_stored_variables.ts";
import type { Log } from "../observe/log.ts";
import type { BackgroundTasks } from "../store/background_tasks.ts";
import type { Store } from "../store/store.ts";
import { type EventLog, EVENTS_HEAD_KEY } from "./event_log.ts";
import type { Tail } from "./tail.ts";

/** Options of {@linkcode EventPolling}. */
interface EventPollingOptions {
  store: Store;
  eventLog: EventLog;
  tail: Tail;
  /** Reads the variables again, and publishes them. */
  reload: () => Promise<void>;
  tasks: BackgroundTasks;
  log: Log;
  /** Ends it when it is aborted. */
  signal: AbortSignal;
}

const POLL_MS = 1_000;

/** Notices the events that other processes have published, and reads them. */
export class EventPolling {
  readonly #options: EventPollingOptions;
  #polling: Promise<void> | undefined;
  /** Tells the watch of the stored variables the id of their newest write. */
  #reportWrite: (id: number) => void = () => {};
  /** The newest event whose loss was logged. */
  #loggedLoss: number | undefined;

  constructor(options: EventPollingOptions) {
    this.#options = options;
  }

  /** Polls until the signal is aborted. */
  start(): void {
    const { eventLog, tail, tasks, signal } = this.#options;
    tasks.repeat(POLL_MS, "poll", () => this.poll());
    signal.addEventListener("abort", eventLog.watch(() => void tasks.run("poll", () => tail.readNew())));
  }

  /** Reports the newest write to a stored variable, whose id each poll reads as well. */
  readonly pollNewestWrite: PollNewestWrite = (report) => {
    this.#reportWrite = report;
    return () => this.#reportWrite = () => {};
  };

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

  async #pollOnce(): Promise<void> {
    const { store, tail, reload } = this.#options;
    const { head, isLoaded } = tail; // first: what another task reads meanwhile is newer than `newestEvent`
    if (!isLoaded) return await tail.readNew(); // streams wait for it
    const heads = await store.getMany<{ id: number }>([EVENTS_HEAD_KEY, VARIABLES_HEAD_KEY]);
    const [newestEvent = 0, newestWrite = 0] = heads.map((entry) => entry?.value.id);
    this.#reportWrite(newestWrite);
    if (newestEvent > head) return await tail.readNew();
    if (newestEvent === head) return;
    this.#logLoss(head, newestEvent);
    await reload(); // the store may have lost variables as well
  }

  #logLoss(delivered: number, stored: number): void {
    if (delivered === this.#loggedLoss) return; // until the events are published, every poll finds the same
    this.#loggedLoss = delivered;
    const detail = "publishing them again: the store came back without the latest events";
    this.#options.log.error("rep.store.lost_events", { detail, delivered, stored });
  }
}
