import { Process, World } from "./_world.ts";

/** What a play is about: `calm` without any fault but restarts, `rough` with short ones, `wild` with everything. */
export type Mood = "calm" | "rough" | "wild";

/** How the replicas of a deployment are replaced. */
type Style = "overlapping" | "in place" | "reload";

/** How long after the last event all have to agree: a period, four more until the dead are dead, and a failed try. */
export const BOUND_MS = 40_000;
const STYLES: readonly Style[] = ["overlapping", "in place", "reload"];

/** A deployment, what befalls it, and what has to hold. */
export class Play {
  readonly world: World;
  readonly #mood: Mood;
  readonly #style: Style;
  readonly #hasSlots: boolean;
  readonly #maxRepresentatives: number;
  readonly #replicas: Process[] = [];
  readonly #versions = ["v1"];
  #target = "v1";
  /** Nobody had it before the rollout that goes on. */
  #isFresh = true;

  constructor(seed: number, mood: Mood) {
    this.world = new World(seed);
    this.#mood = mood;
    this.#style = this.world.pick(STYLES);
    this.#hasSlots = this.#style !== "overlapping" && this.world.isHappening(0.5);
    const mayBeFew = mood !== "calm" && this.#style !== "reload"; // else all speakers may turn away at once
    this.#maxRepresentatives = mayBeFew && this.world.isHappening(0.5) ? 2 : 8;
    if (this.world.isHappening(0.5)) {
      this.world.weather.latencyMs = this.world.pick([5, 50, mood === "calm" ? 50 : 1_000]);
    }
    if (mood !== "calm" && this.world.isHappening(0.3)) this.world.weather.conflicts = 0.2;
  }

  /** @throws {Error} If anything happened that may not happen. */
  async perform(): Promise<void> {
    const replicas = this.world.pick([1, 2, 2, 3, 4]);
    for (let index = 0; index < replicas; index++) this.#replicas.push(this.#start(index));
    await this.world.pass(this.world.between(0, 10_000));
    for (let rollouts = this.world.between(1, this.#mood === "calm" ? 2 : 3); rollouts > 0; rollouts--) {
      if (this.#mood === "calm") await this.#calmRollout();
      else await this.#faultyRollout();
    }
    await this.#finish();
  }

  #start(index: number, hash = this.#target): Process {
    const instanceId = this.#hasSlots ? { instanceId: `:${index}` } : {};
    return new Process(this.world, { hash, maxRepresentatives: this.#maxRepresentatives, ...instanceId });
  }

  /** A new version, or one of old. */
  #chooseTarget(): string {
    const { world } = this;
    const old = this.#versions.filter((version) => version !== this.#target);
    this.#isFresh = old.length === 0 || world.isHappening(0.6);
    if (!this.#isFresh) return world.pick(old);
    const version = `v${this.#versions.length + 1}`;
    this.#versions.push(version);
    return version;
  }

  /** Every process goes from the old configuration to the new one, once and never back. */
  async #calmRollout(): Promise<void> {
    const { world } = this;
    const before = this.#target;
    const past = new Set(world.processes.filter(({ isAlive }) => !isAlive));
    const startedAt = world.now;
    const target = this.#chooseTarget();
    const isBroken = this.#replicas.length > 1 && world.isHappening(0.3);
    await this.#replace(target, isBroken ? world.between(1, this.#replicas.length - 1) : Infinity);
    if (isBroken) await this.#rollBack(before);
    await this.#agree();
    const path = isBroken ? [before, target, before] : [before, target];
    for (const process of world.processes) {
      const opinions = process.since(startedAt);
      if (!past.has(process) && !isWithin(opinions, path)) process.fail(`went ${opinions} and not ${path}`);
    }
    world.check();
  }

  /** Rollouts that are broken off by others, and all kinds of issues. */
  async #faultyRollout(): Promise<void> {
    const { world } = this;
    const isInOrder = world.isHappening(0.5); // else the rollout before may reach the store after this one
    if (isInOrder) await this.#agree();
    const count = world.isHappening(0.4) ? world.between(1, this.#replicas.length) : Infinity;
    const target = this.#chooseTarget();
    this.#isFresh &&= isInOrder;
    await this.#replace(target, count);
  }

  async #rollBack(version: string): Promise<void> {
    this.#isFresh = false;
    await this.#replace(version);
  }

  /** In the end, there is one more rollout, and it is in force. */
  async #finish(): Promise<void> {
    await this.#agree();
    await this.#replace(this.#chooseTarget());
    await this.#agree();
  }

  async #replace(target: string, count = Infinity): Promise<void> {
    const { world } = this;
    this.#target = target;
    for (const [index, replica] of this.#replicas.entries()) {
      if (index >= count) return;
      await world.pass(this.#pause());
      if (replica.hash !== target || !replica.isAlive) await this.#replaceOne(index, replica);
      if (world.isHappening(this.#mood === "calm" ? 0.2 : 0.5)) await this.#incident();
      if (world.isHappening(0.05)) await this.#agree();
    }
  }

  #pause(): number {
    return (this.#mood === "calm" ? 500 : 0) +
      this.world.pick([0, this.world.between(0, 1_000), this.world.between(0, 15_000)]);
  }

  async #replaceOne(index: number, replica: Process): Promise<void> {
    if (this.#style === "reload" && replica.isAlive) return replica.reload(this.#target);
    if (this.#style === "overlapping") {
      this.#replicas[index] = this.#start(index);
      await this.world.pass(this.#pause());
      await this.#end(replica);
    } else {
      await this.#end(replica);
      await this.world.pass(this.world.between(0, 3_000));
      this.#replicas[index] = this.#start(index);
      await this.#isAtOnceInForce(this.#replicas[index]);
    }
  }

  /** A process alone does not wait, if it knows that it is: by its instanceId. */
  async #isAtOnceInForce(process: Process | undefined): Promise<void> {
    if (this.#replicas.length > 1 || !this.#hasSlots || this.#mood !== "calm") return;
    await this.world.pass(10 * this.world.weather.latencyMs);
    if (!process?.rollout.isActive) process?.fail("had to wait");
  }

  async #end(process: Process): Promise<void> {
    if (this.world.isHappening(0.4)) process.kill();
    else await process.stop();
  }

  async #incident(): Promise<void> {
    const { world } = this;
    world.pick(world.living)?.jump(world.between(-30_000, 30_000));
    if (this.#mood === "calm") return await this.#restart(world.between(0, 9_000));
    const worst = this.#mood === "rough" ? 8_000 : 150_000;
    const ms = world.isHappening(0.5) ? world.between(0, worst) : world.between(0, worst / 10);
    const victim = world.pick(world.living);
    const incidents = [
      () => victim?.stall(ms),
      () => victim?.cut(ms),
      () => world.fell("silent", ms),
      () => world.fell("full", ms),
      () => this.#restart(ms),
      () => this.#restart(ms),
    ];
    await world.pick(incidents)();
  }

  /** One process ends and comes back with what it had; calm ones without a goodbye, which would hand over to the others. */
  async #restart(gapMs: number): Promise<void> {
    const { world } = this;
    const index = world.between(0, this.#replicas.length - 1);
    const replica = this.#replicas[index] as Process;
    if (this.#mood === "calm") replica.kill();
    else await this.#end(replica);
    await world.pass(gapMs);
    this.#replicas[index] = this.#start(index, replica.hash);
  }

  /** When all is well for a while, everybody has the same in force, and it is what it should be. */
  async #agree(): Promise<void> {
    this.world.heal();
    await this.world.pass(BOUND_MS);
    const expected = this.#expected() ?? await this.world.newest();
    for (const process of this.world.living) {
      if (process.rollout.active !== expected) {
        process.fail(`has ${process.rollout.active} in force, not ${expected}`);
      }
    }
    this.world.check();
  }

  /** What has to be in force, from what was done alone; nothing if that leaves it open. */
  #expected(): string | undefined {
    const hashes = this.world.living.map(({ hash }) => hash);
    if (hashes.every((hash) => hash === this.#target)) return this.#target;
    return this.#isFresh && this.#mood !== "wild" && hashes.includes(this.#target) ? this.#target : undefined;
  }
}

/** Whether some go the whole path or a part of it, and never back. */
function isWithin(opinions: readonly string[], path: readonly string[]): boolean {
  let at = 0;
  return opinions.every((opinion) => {
    at = path.indexOf(opinion, at);
    return at++ >= 0;
  });
}
