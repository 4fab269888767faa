import type { History } from "../../../src/core/rollout/history.ts";
import type { Member } from "../../../src/core/rollout/observation.ts";
import { memoryStore } from "../../../src/engines/memory.ts";
import type { Entry, Store, Write } from "../../../src/core/store/store.ts";
import { SeededChoices } from "../../../tools/seeded_random.ts";
import { VirtualTime } from "../../_virtual_time.ts";
import type { Process } from "./_process.ts";

/** The state of the network and the store. */
interface Conditions {
  /** The maximum latency of a request, and again of its response. */
  latencyMs: number;
  /** The probability of a spurious conflict of a commit, as in a SQLite file. */
  conflicts: number;
  /** `paused`: requests are executed when the store is up again; `full`: writes fail. */
  store: "up" | "paused" | "full";
}

/** Virtual time, one store and all processes on it; deterministic for a given seed. */
export class Simulation extends SeededChoices {
  readonly conditions: Conditions = { latencyMs: 0, conflicts: 0, store: "up" };
  readonly processes: Process[] = [];
  /** Returns whether a process may become a member with this configuration. */
  isAdmitted: (hash: string) => boolean = () => true;
  readonly #shared = memoryStore();
  readonly #time = new VirtualTime(async () => {
    await settle();
    this.check();
  });
  readonly #writtenAt = new Map<string, number>();
  /** The last rank of each configuration. */
  readonly #ranks = new Map<string, number>();
  /** Configurations with a process that was away for so long that their entries may have been removed. */
  readonly #excused = new Set<string>();
  #failure: Error | undefined;

  get living(): Process[] {
    return this.processes.filter(({ isAlive }) => isAlive);
  }

  get now(): number {
    return this.#time.now;
  }

  /** Calls back after a virtual delay; returns a function that cancels it. */
  after(ms: number, callback: () => void): () => void {
    return this.#time.after(ms, callback);
  }

  /** Advances the virtual time. */
  async advance(ms: number): Promise<void> {
    await this.#time.advance(ms);
  }

  /** @throws {Error} If an invariant was violated. */
  check(): void {
    if (this.#failure) throw this.#failure;
  }

  /** Records a violation. It is often found in a callback of the code under test, which must not throw. */
  fail(reason: string): void {
    this.#failure ??= new Error(`At ${this.now} ms: ${reason}`);
  }

  /** Permits a second rank for a configuration. */
  excuse(hash: string): void {
    this.#excused.add(hash);
  }

  /** Returns the store as a process sees it: possibly slow, disconnected or down. */
  storeOf(process: Process): Store {
    const shared = this.#shared;
    return {
      maxChecks: shared.maxChecks,
      get: (key) => this.#request(process, () => shared.get(key)),
      getMany: (keys) => this.#request(process, () => shared.getMany(keys)),
      list: (prefix) => this.#request(process, () => shared.list(prefix)),
      commit: (checks, writes) =>
        this.#request(process, () => this.#commit(process, checks, writes)),
      watch: () => () => {},
      close: () => {},
    };
  }

  /** Returns the time since a member's last heartbeat. */
  ageOf({ version }: Entry): number {
    return this.now - (this.#writtenAt.get(version) ?? -Infinity);
  }

  #request<T>(process: Process, work: () => Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const arrive = () => {
        if (process.isDisconnected || this.conditions.store === "paused") {
          return process.hold(arrive);
        }
        const respond = (deliver: () => void) =>
          this.#delay(() => process.run(deliver));
        work().then(
          (result) => respond(() => resolve(result)),
          (error) => respond(() => reject(error)),
        );
      };
      this.#delay(arrive);
    });
  }

  #delay(arrive: () => void): void {
    const { latencyMs } = this.conditions;
    if (latencyMs === 0) arrive();
    else this.after(this.random() * latencyMs, arrive);
  }

  async #commit(
    process: Process,
    checks: Parameters<Store["commit"]>[0],
    writes: readonly Write[],
  ) {
    if (this.conditions.store === "full") {
      throw new TypeError("database or disk is full");
    }
    if (
      this.conditions.conflicts > 0 && this.chance(this.conditions.conflicts)
    ) return undefined;
    const version = await this.#shared.commit(checks, writes);
    if (version !== undefined) this.#checkHistory(process, writes);
    for (const write of version === undefined ? [] : writes) {
      await this.#checkRank(process, write, version ?? "");
    }
    return version;
  }

  /** A commit that begins a rollout records it. */
  #checkHistory(process: Process, writes: readonly Write[]): void {
    const valueAt = (prefix: string) =>
      writes.find(({ key }) => key[0] === prefix)?.value;
    const rank = valueAt("rollout") as number | undefined;
    const history = valueAt("activations") as History | undefined;
    if (history?.at(-1)?.rank !== rank) {
      process.fail(`did not record the rollout ${rank}`);
    }
  }

  /** A configuration keeps its rank for as long as it has an entry, and a new one gets a rank above all others. */
  async #checkRank(
    process: Process,
    { key, value }: Write,
    version: string,
  ): Promise<void> {
    const { hash, rank, hasLeft } = (value ?? {}) as Partial<Member>;
    if (
      key[0] !== "member" || hash === undefined || rank === undefined || hasLeft
    ) return;
    if (!this.isAdmitted(hash)) process.fail(`became a member with ${hash}`);
    this.#writtenAt.set(version, this.now);
    const members = await this.#shared.list<Member>(["member"]);
    const other = members.find((it) =>
      it.key[1] !== key[1] && it.value.hash === hash && it.value.rank !== rank
    );
    if (other && !this.#excused.has(hash)) {
      process.fail(`took rank ${rank} for ${hash} next to ${other.value.rank}`);
    }
    const highest = Math.max(0, ...this.#ranks.values());
    if (!this.#ranks.has(hash) && rank <= highest) {
      process.fail(`took rank ${rank} for the new ${hash}, below ${highest}`);
    }
    this.#ranks.set(hash, rank);
  }

  /** Restores the store and all connections. */
  heal(): void {
    Object.assign(this.conditions, {
      latencyMs: Math.min(this.conditions.latencyMs, 100),
      store: "up",
    });
    for (const process of this.processes) {
      process.resume();
      process.flush();
    }
  }

  /** Lets the store fail for a while; held requests are executed after that. */
  failStore(store: Conditions["store"], ms: number): void {
    this.conditions.store = store;
    this.after(ms, () => {
      this.conditions.store = "up";
      for (const process of this.processes) process.flush();
    });
  }

  /** Writes the entry of a gateway of ebbde15d, which is a member also while it stands apart. */
  async beatOfOlder(member: Member): Promise<void> {
    const highest = await this.#shared.get<number>(["rollout"]);
    const rank = Math.max(member.rank, highest?.value ?? 0);
    await this.#shared.commit([], [
      { key: ["member", "999-older"], value: member },
      { key: ["rollout"], value: rank },
    ]);
  }

  /** Returns the configuration with the highest stored rank among those of living processes. */
  async newestHash(): Promise<string | undefined> {
    const hashes = new Set(this.living.map(({ hash }) => hash));
    const members = await this.#shared.list<Member>(["member"]);
    const ranked = members.map(({ value }) => value).filter(({ hash }) =>
      hashes.has(hash)
    );
    return ranked.sort((a, b) => b.rank - a.rank)[0]?.hash;
  }
}

/** Enough for all reactions to one timer. A turn of the event loop would take a hundred times as long. */
async function settle() {
  for (let turn = 0; turn < 100; turn++) await undefined;
}
