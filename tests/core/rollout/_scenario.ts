import { Process } from "./_process.ts";
import { Simulation } from "./_simulation.ts";

/** The faults of a scenario: `low` has restarts only, `medium` also short outages, `high` long ones. */
export type FaultLevel = "low" | "medium" | "high";

/** The time for all to agree after the last event: a period, four more to detect a death, and a failed attempt. */
const AGREEMENT_MS = 40_000;
/** How the replicas of a deployment are replaced. */
const STYLES = ["overlapping", "in place", "reload"] as const;

/**
 * Runs a deployment with rollouts and faults.
 *
 * @throws {Error} If an invariant was violated.
 */
export async function runScenario(seed: number, level: FaultLevel) {
  const simulation = new Simulation(seed);
  const style = simulation.pick(STYLES);
  const allowsFew = level !== "low" && style !== "reload"; // otherwise all representatives may reload at once
  const maxRepresentatives = allowsFew && simulation.chance(0.5) ? 2 : 8;
  if (simulation.chance(0.5)) {
    simulation.conditions.latencyMs = simulation.pick([
      5,
      50,
      level === "low" ? 50 : 1_000,
    ]);
  }
  if (level !== "low" && simulation.chance(0.3)) {
    simulation.conditions.conflicts = 0.2;
  }
  const count = simulation.pick([1, 2, 2, 3, 4]);
  const replicas: Process[] = [];
  const versions = ["v1"];
  let target = "v1";
  /** No process had the target before the current rollout. */
  let isNew = true;

  function start(hash = target): Process {
    return new Process(simulation, { hash, maxRepresentatives });
  }

  /** Returns a new version or an earlier one. */
  function chooseTarget(): string {
    const earlier = versions.filter((version) => version !== target);
    isNew = earlier.length === 0 || simulation.chance(0.6);
    if (!isNew) return simulation.pick(earlier);
    const version = `v${versions.length + 1}`;
    versions.push(version);
    return version;
  }

  /** Every process switches from the old configuration to the new one once and never back. */
  async function rollOutWithoutFaults() {
    const before = target;
    const dead = new Set(
      simulation.processes.filter(({ isAlive }) => !isAlive),
    );
    const startedAt = simulation.now;
    const chosen = chooseTarget();
    const wasNew = isNew;
    const isAborted = replicas.length > 1 && simulation.chance(0.3);
    await replace(
      chosen,
      isAborted ? simulation.between(1, replicas.length - 1) : Infinity,
    );
    if (isAborted) {
      isNew = false;
      await replace(before);
    }
    await agree();
    const path = isAborted ? [before, chosen, before] : [before, chosen];
    for (const process of simulation.processes) {
      const activations = process.since(startedAt);
      if (!dead.has(process) && !isSubsequence(activations, path)) {
        process.fail(`switched through ${activations} instead of ${path}`);
      }
    }
    for (const process of simulation.living) {
      if (!wasNew) continue;
      const isKnown = process.rollout.rollback !== undefined;
      const hasSeen = process.since(startedAt).includes(chosen);
      if (isAborted && hasSeen && !isKnown) process.fail("saw no rollback");
      if (!isAborted && isKnown) process.fail(`takes ${chosen} for a rollback`);
    }
    simulation.check();
  }

  /** Rollouts that are interrupted by others, with all kinds of faults. */
  async function rollOutWithFaults() {
    const isInOrder = simulation.chance(0.5); // otherwise the previous rollout may reach the store after this one
    if (isInOrder) await agree();
    const count = simulation.chance(0.4)
      ? simulation.between(1, replicas.length)
      : Infinity;
    const chosen = chooseTarget();
    isNew &&= isInOrder;
    await replace(chosen, count);
  }

  async function replace(chosen: string, count = Infinity) {
    target = chosen;
    for (const [index, replica] of replicas.entries()) {
      if (index >= count) return;
      await simulation.advance(pause());
      if (replica.hash !== target || !replica.isAlive) {
        await replaceOne(index, replica);
      }
      if (simulation.chance(level === "low" ? 0.2 : 0.5)) {
        await injectFault();
      }
      if (simulation.chance(0.05)) await agree();
    }
  }

  function pause(): number {
    return (level === "low" ? 500 : 0) +
      simulation.pick([
        0,
        simulation.between(0, 1_000),
        simulation.between(0, 15_000),
      ]);
  }

  async function replaceOne(index: number, replica: Process) {
    if (style === "reload" && replica.isAlive) {
      return replica.reload(target);
    }
    if (style === "overlapping") {
      replicas[index] = start();
      await simulation.advance(pause());
      await end(replica);
    } else {
      await end(replica);
      await simulation.advance(simulation.between(0, 3_000));
      replicas[index] = start();
    }
  }

  async function end(process: Process) {
    if (simulation.chance(0.4)) process.kill();
    else await process.stop();
  }

  async function injectFault() {
    simulation.pick(simulation.living)?.setClock(
      simulation.between(-30_000, 30_000),
    );
    if (level === "low") {
      return await restart(simulation.between(0, 9_000));
    }
    const maxMs = level === "medium" ? 8_000 : 150_000;
    const ms = simulation.chance(0.5)
      ? simulation.between(0, maxMs)
      : simulation.between(0, maxMs / 10);
    const victim = simulation.pick(simulation.living);
    const faults = [
      () => victim?.stall(ms),
      () => victim?.disconnect(ms),
      () => simulation.failStore("paused", ms),
      () => simulation.failStore("full", ms),
      () => restart(ms),
      () => restart(ms),
    ];
    await simulation.pick(faults)();
  }

  /**
   * Restarts a process with its configuration. At the low level it is killed, since leaving would hand over to others.
   */
  async function restart(gapMs: number) {
    const index = simulation.between(0, replicas.length - 1);
    const replica = replicas[index] as Process;
    if (level === "low") replica.kill();
    else await end(replica);
    await simulation.advance(gapMs);
    replicas[index] = start(replica.hash);
  }

  /** Heals everything, waits, and checks that the expected configuration is active for all processes. */
  async function agree() {
    simulation.heal();
    await simulation.advance(AGREEMENT_MS);
    const expected = determined() ?? await simulation.newestHash();
    for (const process of simulation.living) {
      if (process.rollout.active !== expected) {
        process.fail(
          `considers ${process.rollout.active} active, not ${expected}`,
        );
      }
    }
    simulation.check();
  }

  /** Returns the configuration that has to be active, or `undefined` if the history does not determine it. */
  function determined() {
    const hashes = simulation.living.map(({ hash }) => hash);
    const isDetermined = hashes.every((hash) => hash === target) ||
      isNew && level !== "high" && hashes.includes(target);
    return isDetermined ? target : undefined;
  }

  for (let index = 0; index < count; index++) {
    replicas.push(start());
  }
  await simulation.advance(simulation.between(0, 10_000));
  for (
    let rollouts = simulation.between(1, level === "low" ? 2 : 3);
    rollouts > 0;
    rollouts--
  ) {
    if (level === "low") await rollOutWithoutFaults();
    else await rollOutWithFaults();
  }
  await agree();
  await replace(chooseTarget()); // which becomes active
  await agree();
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
