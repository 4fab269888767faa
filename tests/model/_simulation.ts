import {
  eventId,
  EVENTS,
  type LogEvent,
  type StoredEvent,
  toEvents,
} from "../../src/core/changes/event_log.ts";
import type { Environment } from "../../src/core/config/variables/tiers.ts";
import { memoryStore } from "../../src/engines/memory.ts";
import type { Store } from "../../src/core/store/store.ts";
import { SeededChoices, seededRandom } from "../../tools/seeded_random.ts";
import type { Network } from "./_event_source.ts";
import type { Process } from "./_process.ts";
import { Settling } from "./_settling.ts";
import { VirtualTime } from "../_virtual_time.ts";
import { type Positions, WriteOrder } from "./_write_order.ts";

/**
 * What happens to requests to the store. `failing`: they are rejected; `silent`: they are executed when the store is
 * back; `ambiguous`: some are executed without an answer; `full`: writes are rejected.
 */
export type StoreCondition = "up" | "failing" | "silent" | "ambiguous" | "full";

/** A variable that every version of the file sets to a higher number. */
export const VERSION = "VERSION";

/** What can become of a request to the store. */
interface StoreRequest {
  run: () => void;
  runWithoutAnswer: () => void;
  reject: (reason: string) => void;
}

/** The file that processes are deployed with. */
export interface ConfigurationFile {
  /** Whether all processes read one file. Otherwise, each has a copy of its own. */
  readonly isShared: boolean;
  /** Returns a function that reads the file as it is now. */
  copy: () => () => Environment;
}

/** Everything outside the gateways: time, the store, the file and the network; the same for a given seed. */
export class Simulation extends SeededChoices implements Network, Disposable {
  readonly time: VirtualTime;
  readonly store: Store;
  readonly processes: Process[] = [];
  readonly options: {
    maxStreams: number;
    maxStreamsPerClient: number;
    maxStreamAgeMs: number;
  };
  readonly hasNotifications: boolean;
  readonly file: ConfigurationFile;
  /** The newest version of the file that was published. */
  #newestVersion = 0;
  /** The writes to the variables in the store. */
  readonly writes = new WriteOrder((reason) => this.fail(reason));
  readonly #publishedWrites: Positions = new Map();
  /** Every event that was ever committed, in the order of the commits. */
  readonly events: LogEvent[] = [];
  /** The ids of events that were deleted from the log. */
  readonly deleted = new Set<number>();
  /** The public state after each commit. */
  readonly states: ReadonlyMap<string, string>[] = [new Map()];
  readonly #settling: Settling;
  readonly #inner = memoryStore();
  readonly #latencyMs: number;
  readonly #held: (() => void)[] = [];
  readonly #notes: string[] = [];
  #condition: StoreCondition = "up";
  #failure: Error | undefined;

  constructor(seed: number) {
    super(seed);
    this.#settling = new Settling(seededRandom(~seed));
    this.time = new VirtualTime(this.#settling.settle);
    this.#latencyMs = this.pick([0, 0, 5, 300]);
    this.file = { isShared: this.chance(0.4), copy: () => () => ({}) };
    this.hasNotifications = this.chance(0.5);
    const maxStreams = this.pick([1, 3, 100]);
    // All clients have the same address.
    this.options = {
      maxStreams,
      maxStreamsPerClient: maxStreams,
      maxStreamAgeMs: this.pick([20_000, 600_000]),
    };
    const inner = this.#inner;
    this.store = {
      maxChecks: inner.maxChecks,
      get: (key) => inner.get(key),
      getMany: (keys) => inner.getMany(keys),
      list: (prefix, options) => inner.list(prefix, options),
      commit: (checks, writes) => this.#commit(checks, writes),
      watch: (key, hint) => inner.watch(key, hint),
      close: () => {},
    };
  }

  [Symbol.dispose](): void {
    this.#settling[Symbol.dispose]();
  }

  get ready(): Process[] {
    return this.processes.filter(({ isReady }) => isReady);
  }

  get living(): Process[] {
    return this.processes.filter(({ isDead }) => !isDead);
  }

  /** A load balancer: any process that is ready. */
  fetch(request: Request, onLost: () => void): Promise<Response> {
    const process = this.pick(this.ready);
    return process?.fetch(request, onLost) ??
      Promise.reject(new TypeError("connection refused"));
  }

  /** Lets time pass. @throws {Error} If an invariant was violated. */
  async advance(ms: number): Promise<void> {
    await this.time.advance(ms);
    this.check();
  }

  /** Lets time pass until a promise is settled, or for 10 s; then it returns `undefined`. */
  async wait<T>(promise: Promise<T>): Promise<T | undefined> {
    let result: T | undefined;
    let isSettled = false;
    promise.then((value) => result = value, () => {}).finally(() =>
      isSettled = true
    );
    for (let turn = 0; turn < 1_000 && !isSettled; turn++) {
      await this.advance(turn === 0 ? 0 : 10);
    }
    return result;
  }

  check(): void {
    if (this.#failure) throw this.#failure;
  }

  /** Records a violation. It is often found in a callback of the code under test. */
  fail(reason: string): void {
    this.#failure ??= new Error(
      `At ${this.time.now} ms: ${reason}\n${this.#notes.slice(-60).join("\n")}`,
    );
  }

  /** Notes what happens, for the message of a failure. */
  note(text: string): void {
    this.#notes.push(`${Math.round(this.time.now)} ${text.slice(0, 300)}`);
  }

  /** Calls back after the time that a message to or from the store takes. */
  delay(arrive: () => void): void {
    if (this.#latencyMs === 0) arrive();
    else this.time.after(this.random() * this.#latencyMs, arrive);
  }

  /** A request reaches the store. */
  reach(kind: "read" | "write", request: StoreRequest): void {
    const { run, runWithoutAnswer, reject } = request;
    if (this.#condition === "silent") this.#held.push(run);
    else if (this.#condition === "failing") reject("the store is down");
    else if (this.#condition === "full" && kind === "write") {
      reject("database or disk is full");
    } else if (this.#condition === "ambiguous" && this.chance(0.5)) {
      runWithoutAnswer();
    } else run();
  }

  setStore(condition: StoreCondition): void {
    this.note(`the store is ${condition}`);
    this.#condition = condition;
    if (condition !== "silent") {
      for (const run of this.#held.splice(0)) {
        run();
      }
    }
  }

  async #commit(
    checks: Parameters<Store["commit"]>[0],
    writes: Parameters<Store["commit"]>[1],
  ) {
    const version = await this.#inner.commit(checks, writes);
    if (version === undefined) return undefined;
    for (const { key: [prefix, name], value } of writes) {
      if (prefix === "variable") {
        const stored = value as { value: Uint8Array } | undefined;
        this.writes.write(
          String(name),
          stored && new TextDecoder().decode(stored.value),
        );
      }
    }
    const entries = writes.filter(({ key }) =>
      key.length === 2 && key[0] === EVENTS[0]
    ).map((write) => {
      return { key: write.key, value: write.value as StoredEvent, version };
    });
    for (const entry of entries.filter(({ value }) => value === undefined)) {
      this.deleted.add(eventId(entry));
    }
    this.#record(toEvents(entries.filter(({ value }) => value !== undefined)));
    return version;
  }

  /** Of a file that all processes share, no older edit is published over a newer one. */
  #checkVersion(value = ""): void {
    const version = parseInt(value);
    if (this.file.isShared && version < this.#newestVersion) {
      this.fail(`version ${version} was published over a newer one`);
    }
    this.#newestVersion = version;
  }

  #record(events: readonly LogEvent[]): void {
    if (events.length === 0) return;
    const state = new Map(this.states.at(-1));
    for (const event of events) {
      if (event.id <= (this.events.at(-1)?.id ?? 0)) {
        this.fail(`event ${event.id} is not above the last one`);
      }
      this.events.push(event);
      this.writes.arrive(
        event.name,
        event.value,
        "the published state",
        this.#publishedWrites,
      );
      if (event.name === VERSION) this.#checkVersion(event.value);
      if (event.value === undefined) state.delete(event.name);
      else state.set(event.name, event.value);
      this.note(
        `event ${event.id}: ${event.name}=${event.value?.slice(0, 20)}`,
      );
    }
    this.states.push(state);
  }
}
