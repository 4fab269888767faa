import { Process } from "./_process.ts";
import { Simulation } from "./_simulation.ts";

/** The faults of a scenario: `low` has restarts only, `medium` also short outages, `high` long ones. */
export type FaultLevel = "low" | "medium" | "high";

/** How the replicas of a deployment are replaced. */
type Style = "overlapping" | "in place" | "reload";

/** The time for all to agree after the last event: a period, four more to detect a death, and a failed attempt. */
const AGREEMENT_MS = 40_000;
/** A period until the first observation, and two more until a predecessor is late. */
const LATE_MS = 15_000;
const STYLES: readonly Style[] = ["overlapping", "in place", "reload"];

/** A deployment with rollouts and faults, and the invariants that have to hold. */
export class Scenario {
  readonly #simulation: Simulation;
  readonly #level: FaultLevel;
  readonly #style: Style;
  readonly #hasInstanceIds: boolean;
  /** All processes have one instance ID by mistake. */
  readonly #hasSameInstanceId: boolean;
  readonly #maxRepresentatives: number;
  readonly #replicas: Process[] = [];
  readonly #versions = ["v1"];
  #target = "v1";
  /** No process had the target before the current rollout. */
  #isNew = true;

  constructor(seed: number, level: FaultLevel) {
    this.#simulation = new Simulation(seed);
    this.#level = level;
    this.#style = this.#simulation.pick(STYLES);
    this.#hasInstanceIds = this.#style !== "overlapping" &&
      this.#simulation.chance(0.5);
    this.#hasSameInstanceId = level === "low" && !this.#hasInstanceIds &&
      this.#simulation.chance(0.3);
    const allowsFew = level !== "low" && this.#style !== "reload"; // otherwise all representatives may reload at once
    this.#maxRepresentatives = allowsFew && this.#simulation.chance(0.5)
      ? 2
      : 8;
    if (this.#simulation.chance(0.5)) {
      this.#simulation.conditions.latencyMs = this.#simulation.pick([
        5,
        50,
        level === "low" ? 50 : 1_000,
      ]);
    }
    if (level !== "low" && this.#simulation.chance(0.3)) {
      this.#simulation.conditions.conflicts = 0.2;
    }
  }

  /** @throws {Error} If an invariant was violated. */
  async run(): Promise<void> {
    const replicas = this.#simulation.pick([1, 2, 2, 3, 4]);
    for (let index = 0; index < replicas; index++) {
      this.#replicas.push(this.#start(index));
    }
    await this.#simulation.advance(this.#simulation.between(0, 10_000));
    for (
      let rollouts = this.#simulation.between(1, this.#level === "low" ? 2 : 3);
      rollouts > 0;
      rollouts--
    ) {
      if (this.#level === "low") await this.#rollOutWithoutFaults();
      else await this.#rollOutWithFaults();
    }
    await this.#finish();
  }

  #start(index: number, hash = this.#target): Process {
    const ownId = this.#hasInstanceIds ? `:${index}` : undefined;
    const instanceId = this.#hasSameInstanceId ? "same" : ownId;
    return new Process(this.#simulation, {
      hash,
      maxRepresentatives: this.#maxRepresentatives,
      instanceId,
    });
  }

  /** Returns a new version or an earlier one. */
  #chooseTarget(): string {
    const simulation = this.#simulation;
    const earlier = this.#versions.filter((version) =>
      version !== this.#target
    );
    this.#isNew = earlier.length === 0 || simulation.chance(0.6);
    if (!this.#isNew) return simulation.pick(earlier);
    const version = `v${this.#versions.length + 1}`;
    this.#versions.push(version);
    return version;
  }

  /** Every process switches from the old configuration to the new one once and never back. */
  async #rollOutWithoutFaults(): Promise<void> {
    const simulation = this.#simulation;
    const before = this.#target;
    const dead = new Set(
      simulation.processes.filter(({ isAlive }) => !isAlive),
    );
    const startedAt = simulation.now;
    const target = this.#chooseTarget();
    const isNew = this.#isNew;
    const isAborted = this.#replicas.length > 1 && simulation.chance(0.3);
    await this.#replace(
      target,
      isAborted ? simulation.between(1, this.#replicas.length - 1) : Infinity,
    );
    if (isAborted) await this.#rollBack(before);
    await this.#agree();
    const path = isAborted ? [before, target, before] : [before, target];
    for (const process of simulation.processes) {
      const activations = process.since(startedAt);
      if (!dead.has(process) && !isSubsequence(activations, path)) {
        process.fail(`switched through ${activations} instead of ${path}`);
      }
    }
    for (const process of simulation.living) {
      if (!isNew) continue;
      const isKnown = process.rollout.rollback !== undefined;
      const hasSeen = process.since(startedAt).includes(target);
      if (isAborted && hasSeen && !isKnown) process.fail("saw no rollback");
      if (!isAborted && isKnown) process.fail(`takes ${target} for a rollback`);
    }
    simulation.check();
  }

  /** Rollouts that are interrupted by others, with all kinds of faults. */
  async #rollOutWithFaults(): Promise<void> {
    const simulation = this.#simulation;
    const isInOrder = simulation.chance(0.5); // otherwise the previous rollout may reach the store after this one
    if (isInOrder) await this.#agree();
    const count = simulation.chance(0.4)
      ? simulation.between(1, this.#replicas.length)
      : Infinity;
    const target = this.#chooseTarget();
    this.#isNew &&= isInOrder;
    await this.#replace(target, count);
  }

  async #rollBack(version: string): Promise<void> {
    this.#isNew = false;
    await this.#replace(version);
  }

  /** Ends with one more rollout, which becomes active. */
  async #finish(): Promise<void> {
    await this.#agree();
    await this.#replace(this.#chooseTarget());
    await this.#agree();
  }

  async #replace(target: string, count = Infinity): Promise<void> {
    const simulation = this.#simulation;
    this.#target = target;
    for (const [index, replica] of this.#replicas.entries()) {
      if (index >= count) return;
      await simulation.advance(this.#pause());
      if (replica.hash !== target || !replica.isAlive) {
        await this.#replaceOne(index, replica);
      }
      if (simulation.chance(this.#level === "low" ? 0.2 : 0.5)) {
        await this.#injectFault();
      }
      if (simulation.chance(0.05)) await this.#agree();
    }
  }

  #pause(): number {
    return (this.#level === "low" ? 500 : 0) +
      this.#simulation.pick([
        0,
        this.#simulation.between(0, 1_000),
        this.#simulation.between(0, 15_000),
      ]);
  }

  async #replaceOne(index: number, replica: Process): Promise<void> {
    if (this.#style === "reload" && replica.isAlive) {
      return replica.reload(this.#target);
    }
    if (this.#style === "overlapping") {
      this.#replicas[index] = this.#start(index);
      await this.#simulation.advance(this.#pause());
      await this.#end(replica);
    } else {
      await this.#end(replica);
      await this.#simulation.advance(this.#simulation.between(0, 3_000));
      this.#replicas[index] = this.#start(index);
      await this.#checkSoonActive(this.#replicas[index]);
    }
  }

  /** A single process waits only until its predecessor, which has its instance ID, is late. */
  async #checkSoonActive(process: Process | undefined): Promise<void> {
    if (
      this.#replicas.length > 1 || !this.#hasInstanceIds ||
      this.#level !== "low"
    ) return;
    await this.#simulation.advance(
      LATE_MS + 10 * this.#simulation.conditions.latencyMs,
    );
    if (!process?.rollout.isActive) {
      process?.fail(
        "had to wait for longer than until its predecessor was late",
      );
    }
  }

  async #end(process: Process): Promise<void> {
    if (this.#simulation.chance(0.4)) process.kill();
    else await process.stop();
  }

  async #injectFault(): Promise<void> {
    const simulation = this.#simulation;
    simulation.pick(simulation.living)?.setClock(
      simulation.between(-30_000, 30_000),
    );
    if (this.#level === "low") {
      return await this.#restart(simulation.between(0, 9_000));
    }
    const maxMs = this.#level === "medium" ? 8_000 : 150_000;
    const ms = simulation.chance(0.5)
      ? simulation.between(0, maxMs)
      : simulation.between(0, maxMs / 10);
    const victim = simulation.pick(simulation.living);
    const faults = [
      () => victim?.stall(ms),
      () => victim?.disconnect(ms),
      () => simulation.failStore("paused", ms),
      () => simulation.failStore("full", ms),
      () => this.#restart(ms),
      () => this.#restart(ms),
    ];
    await simulation.pick(faults)();
  }

  /**
   * Restarts a process with its configuration. At the low level it is killed, since leaving would hand over to others.
   */
  async #restart(gapMs: number): Promise<void> {
    const simulation = this.#simulation;
    const index = simulation.between(0, this.#replicas.length - 1);
    const replica = this.#replicas[index] as Process;
    if (this.#level === "low") replica.kill();
    else await this.#end(replica);
    await simulation.advance(gapMs);
    this.#replicas[index] = this.#start(index, replica.hash);
  }

  /** Heals everything, waits, and checks that the expected configuration is active for all processes. */
  async #agree(): Promise<void> {
    this.#simulation.heal();
    await this.#simulation.advance(AGREEMENT_MS);
    const expected = this.#expected() ?? await this.#simulation.newestHash();
    const recorded = await this.#simulation.recordedHash();
    for (const process of this.#simulation.living) {
      if (process.rollout.active !== expected) {
        process.fail(
          `considers ${process.rollout.active} active, not ${expected}`,
        );
      }
      if (recorded !== expected) {
        process.fail(`found ${recorded} recorded as active, not ${expected}`);
      }
    }
    this.#simulation.check();
  }

  /** Returns the configuration that has to be active, or `undefined` if the history does not determine it. */
  #expected(): string | undefined {
    const hashes = this.#simulation.living.map(({ hash }) => hash);
    if (hashes.every((hash) => hash === this.#target)) return this.#target;
    return this.#isNew && this.#level !== "high" &&
        hashes.includes(this.#target)
      ? this.#target
      : undefined;
  }
}

/** Returns whether the activations follow the path, with gaps but never back. */
function isSubsequence(
  activations: readonly string[],
  path: readonly string[],
) {
  let at = 0;
  return activations.every((hash) => {
    at = path.indexOf(hash, at);
    return at++ >= 0;
  });
}
