import { assertEquals } from "@std/assert";
import {
  activate,
  type Activations,
  type Active,
  describeRollback,
  findRollback,
  rejoin,
} from "../../../src/core/rollout/activations.ts";

/** A configuration that becomes active, as `name rank`. */
type Step = `${string} ${number}`;

function activeOf(step: Step): Active {
  const [name = "", rank] = step.split(" ");
  const hash = `sha256-${name}`;
  return { hash, revision: `v-${name}`, rank: Number(rank), place: "vm:8080" };
}

/** Returns the activations after several configurations have become active, a second after each other. */
function history(...steps: readonly Step[]): Activations {
  let activations: Activations = [];
  for (const [index, step] of steps.entries()) {
    activations = activate(activations, activeOf(step), 1_000 * index);
  }
  return activations;
}

/** Returns when and instead of which configuration the last one became active again. */
function rollbackOf(...steps: readonly Step[]) {
  const rollback = findRollback(history(...steps));
  if (rollback === undefined) return undefined;
  const { activation: { hash, lastActive }, replaced } = rollback;
  return [hash, lastActive, replaced.hash];
}

Deno.test("activate() finds a rollback in a new rank of a configuration that was active before, and in a lower rank", () => {
  const again = ["sha256-a", 1_000, "sha256-b"];
  assertEquals(rollbackOf("a 1", "b 2", "a 3"), again, "it was started again");
  assertEquals(rollbackOf("a 1", "b 2", "a 1"), again, "the newer one ended");
  assertEquals(rollbackOf("a 1", "b 2", "c 3", "a 4"), [
    "sha256-a",
    1_000,
    "sha256-c",
  ]);
});

Deno.test("activate() finds no rollback in a newer configuration, a restart, or the newest one that was out of reach", () => {
  assertEquals(rollbackOf("a 1"), undefined);
  assertEquals(rollbackOf("a 1", "b 2"), undefined);
  assertEquals(rollbackOf("a 1", "b 2", "b 3"), undefined);
  assertEquals(rollbackOf("a 1", "b 2", "a 1", "b 2"), undefined);
  assertEquals(rollbackOf("a 1", "b 2", "a 3", "c 4"), undefined);
});

Deno.test("activate() keeps when each configuration was last active, and the last fifty of them", () => {
  const activations = history("a 1", "b 2", "a 3", "c 4");
  const found = activations.map((
    { hash, since, until },
  ) => [hash, since, until]);
  assertEquals(found, [
    ["sha256-b", 1_000, 2_000],
    ["sha256-a", 2_000, 3_000],
    ["sha256-c", 3_000, undefined],
  ]);
  const steps = Array.from(
    { length: 60 },
    (_, index): Step => `n${index} ${index + 1}`,
  );
  assertEquals(history(...steps).length, 50);
  assertEquals(history(...steps).at(-1)?.hash, "sha256-n59");
});

Deno.test("activate() fits into a value of a store with the longest revisions and places", () => {
  let activations: Activations = [];
  for (let rank = 1; rank <= 60; rank++) {
    const hash = `sha256-${String(rank).padStart(44, "0")}`;
    const active = { rank, revision: "r".repeat(128), place: "p".repeat(255) };
    activations = activate(activations, { hash, ...active }, rank);
  }
  const bytes = JSON.stringify(activations).length;
  assertEquals(bytes < 60_000, true, `${bytes} bytes`);
});

Deno.test("rejoin() keeps the rank and the revision of the last start", () => {
  const activations = history("a 1", "b 2");
  const joined = { ...activeOf("b 5"), revision: "v-next" };
  const { rank, revision, since } = rejoin(activations, joined).at(-1)!;
  assertEquals([rank, revision, since], [5, "v-next", 1_000]);
  assertEquals(rejoin(activations, activeOf("b 2")), activations);
  const unknown = { ...activeOf("b 2"), revision: undefined };
  assertEquals(rejoin(activations, unknown), activations);
  const rebuilt = { ...activeOf("b 2"), revision: "v-rebuilt" };
  assertEquals(rejoin(activations, rebuilt).at(-1)?.revision, "v-rebuilt");
});

Deno.test("describeRollback() says from which configuration to which, when that was last active, and what to do", () => {
  const describe = (step: Step, more: Partial<Active> = {}) => {
    const active = { ...activeOf(step), ...more };
    const rollback = findRollback(
      activate(history("a 1", "b 2"), active, 9_000),
    );
    return rollback && describeRollback(rollback);
  };
  const name =
    "rollback from b (v-b) to a (v-a), last active until 1970-01-01T00:00:01.000Z; if not intended, ";
  assertEquals(
    describe("a 3"),
    `${name}stop the gateway at vm:8080 and all others that have it`,
  );
  assertEquals(
    describe("a 3", { isReload: true }),
    `${name}correct the variables of the gateway at vm:8080`,
  );
  assertEquals(
    describe("a 1"),
    `${name}start the processes of the former again`,
  );
});
