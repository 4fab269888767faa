import { EventQueue } from "./_event_queue.ts";
import { ModelStore } from "./_model_store.ts";
import {
  type Finding,
  idleLoad,
  MAX_PAUSE_MS,
  MAX_REPRESENTATIVES,
  MAX_TRIES,
  type Random,
  type World,
} from "./_world.ts";

interface Publisher {
  tries: number;
  isRepresentative: boolean;
  /** Whether it began the rollout: the others take their rank from its entry. */
  isFirst?: boolean;
}

/** What a process sees of the rollout. */
interface Observation {
  members: number;
  heartbeats: number;
}

/**
 * Processes that see the same change within some time, join its rollout, and all try to publish it: as `src/core/rollout/`
 * and `src/core/changes/publisher.ts` do.
 */
export class PublishRace {
  readonly #world: World;
  readonly #random: Random;
  readonly #store: ModelStore;
  readonly #queue = new EventQueue();
  /** The version of the published state. */
  #version = 0;
  #members = 0;
  /** Heartbeats of the first member: each invalidates a rank taken from its entry before. */
  #heartbeats = 0;
  #commits = 0;
  #conflicts = 0;
  #gaveUp = 0;
  #endMs = 0;

  constructor(world: World, random: Random) {
    this.#world = world;
    this.#random = random;
    this.#store = new ModelStore(world, Math.min(0.99, idleLoad(world)));
  }

  /** @param withinMs The time within which the processes see the change. */
  run(withinMs: number): Finding[] {
    for (let process = 0; process < this.#world.processes; process++) {
      this.#queue.add(this.#random() * withinMs, (at) => this.#join(at, 1));
    }
    this.#queue.run();
    return [
      ["store operations", "", this.#store.operations],
      ["commits", "", this.#commits],
      ["conflicts", "", this.#conflicts],
      ["processes that gave up", "", this.#gaveUp],
      ["all done after", "s", this.#endMs / 1_000],
    ];
  }

  /**
   * A process that sees no other member begins the rollout; a later one takes its rank from the first, and checks it.
   */
  #join(arrival: number, tries: number): void {
    this.#observe(arrival, (at, seen) => {
      if (seen.members >= MAX_REPRESENTATIVES) {
        return this.#fence(at, { tries: 1, isRepresentative: false });
      }
      const isFirst = this.#members === 0;
      const holds = isFirst ||
        seen.members > 0 && seen.heartbeats === this.#heartbeats;
      const done = this.#commitAt(at);
      if (!holds) {
        return this.#queue.add(
          done + this.#pauseMs(tries),
          (next) => this.#join(next, tries + 1),
        );
      }
      this.#members++;
      this.#queue.add(
        done,
        (next) =>
          this.#fence(next, { tries: 1, isRepresentative: true, isFirst }),
      );
    });
  }

  /** Reads the highest rank, then lists the members; those of the previous configuration are still there. */
  #observe(
    arrival: number,
    then: (at: number, seen: Observation) => void,
  ): void {
    this.#queue.add(this.#store.get(arrival) + this.#world.rttMs, (at) => {
      const seen = { members: this.#members, heartbeats: this.#heartbeats };
      const listed = this.#store.list(at, MAX_REPRESENTATIVES + this.#members);
      this.#queue.add(listed + this.#world.rttMs, (next) => then(next, seen));
    });
  }

  /** Obtains the fencing checks: observes again, and a representative sends a heartbeat. */
  #fence(arrival: number, publisher: Publisher): void {
    this.#observe(arrival, (at) => {
      if (!publisher.isRepresentative) return this.#publish(at, publisher);
      if (publisher.isFirst) this.#heartbeats++;
      this.#queue.add(
        this.#commitAt(at),
        (next) => this.#publish(next, publisher),
      );
    });
  }

  /** Reads the published state and compares; the entry that the commit checks is read first. */
  #publish(arrival: number, publisher: Publisher): void {
    const { rttMs, variables } = this.#world;
    const seen = this.#version;
    this.#queue.add(this.#store.get(arrival) + rttMs, (at) => {
      const listed = this.#store.list(at, variables);
      this.#queue.add(
        listed + rttMs,
        (next) =>
          seen > 0 ? this.#finish(next) : this.#commit(next, seen, publisher),
      );
    });
  }

  #commit(arrival: number, seen: number, publisher: Publisher): void {
    const { tries } = publisher;
    this.#commits++;
    const isFirst = seen === this.#version;
    if (isFirst) this.#version++;
    else this.#conflicts++;
    const done = this.#commitAt(arrival);
    if (isFirst) return this.#queue.add(done, (at) => this.#finish(at));
    if (tries === MAX_TRIES) return void this.#gaveUp++;
    this.#queue.add(
      done + this.#pauseMs(tries),
      (at) => this.#fence(at, { ...publisher, tries: tries + 1 }),
    );
  }

  #commitAt(at: number): number {
    return this.#store.commit(at) + this.#world.flushMs + this.#world.rttMs;
  }

  #finish(at: number): void {
    this.#endMs = Math.max(this.#endMs, this.#store.list(at, 1));
  }

  #pauseMs(tries: number): number {
    return this.#random() * Math.min(MAX_PAUSE_MS, 2 ** (tries - 1));
  }
}
