import { sampleNames } from "../../../src/core/rollout/strangers.ts";
import { Process } from "./_process.ts";
import { Simulation } from "./_simulation.ts";

/** Enough to notice a death, and for a failed attempt. */
const AGREEMENT_MS = 40_000;
/** Enough for an entry to be forgotten after that. */
const FORGOTTEN_MS = 100_000;

/** One of two apps without a PUBLIC variable in common. */
class App {
  readonly #simulation: Simulation;
  readonly #name: string;
  readonly processes: Process[] = [];
  #version = 1;

  constructor(simulation: Simulation, name: string) {
    this.#simulation = simulation;
    this.#name = name;
  }

  get #hash(): string {
    return `${this.#name}-${this.#version}`;
  }

  start() {
    const process = new Process(this.#simulation, {
      hash: this.#hash,
      names: [this.#name],
      maxRepresentatives: this.#simulation.pick([1, 8]),
    });
    this.processes.push(process);
  }

  /** Edits the file of all its processes. */
  edit() {
    this.#version++;
    for (const process of this.processes) process.reload(this.#hash);
  }

  async end() {
    for (const process of this.processes.splice(0)) {
      if (this.#simulation.chance(0.5)) process.kill();
      else await process.stop();
    }
  }

  async restart() {
    const count = this.processes.length;
    await this.end();
    await this.#simulation.advance(this.#simulation.between(0, 8_000));
    for (let index = 0; index < count; index++) this.start();
  }

  /** Whether all its processes stand apart, or none of them. */
  check(standsApart: boolean) {
    for (const process of this.processes) {
      if ((process.rollout.role === "apart") !== standsApart) {
        process.fail(standsApart ? "does not stand apart" : "stands apart");
      }
    }
    this.#simulation.check();
  }
}

/**
 * Runs two apps on one store. The second may be a gateway of ebbde15d, which has an entry in any case.
 *
 * @throws {Error} If the app that came first does not go on, or the other one does not stand apart until it has ended.
 */
export async function runTwoApps(seed: number) {
  const simulation = new Simulation(seed);
  if (simulation.chance(0.3)) simulation.conditions.conflicts = 0.2;
  const [first, second] = [
    new App(simulation, "first"),
    new App(simulation, "second"),
  ];
  let isOlderAlive = simulation.chance(0.3);
  const names = sampleNames(["older"]);

  function startAll(app: App) {
    const count = simulation.between(1, 3);
    for (let index = 0; index < count; index++) app.start();
  }

  /** Sends the heartbeats of a gateway of ebbde15d. */
  function beat() {
    if (!isOlderAlive) return;
    const heartbeatAt = Math.floor(1_700_000_000_000 + simulation.now);
    const member = { hash: "older", rank: 1_000, heartbeatAt, names };
    void simulation.beatOfOlder(member);
    simulation.after(4_500, beat);
  }

  let hasEnded = false;
  simulation.isAdmitted = (hash) => hasEnded || !hash.startsWith("second");
  startAll(first);
  await simulation.advance(2_000);
  if (isOlderAlive) beat();
  else startAll(second);
  await simulation.advance(AGREEMENT_MS);
  for (let events = simulation.between(1, 4); events > 0; events--) {
    const actions = [
      () => isOlderAlive ? undefined : first.edit(),
      () => first.restart(),
      () => second.restart(),
      () => second.edit(),
    ];
    await simulation.pick(actions)();
    await simulation.advance(AGREEMENT_MS);
    first.check(false);
    second.check(true);
  }
  if (isOlderAlive) startAll(second);
  await first.end();
  isOlderAlive = false;
  await simulation.advance(AGREEMENT_MS);
  hasEnded = true;
  await simulation.advance(FORGOTTEN_MS);
  second.check(false);
  startAll(first);
  await simulation.advance(AGREEMENT_MS);
  first.check(true);
  second.check(false);
}
