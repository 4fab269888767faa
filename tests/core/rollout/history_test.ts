import { assertEquals } from "@std/assert";
import {
  addRollout,
  describeRollback,
  findRollback,
  type History,
} from "../../../src/core/rollout/history.ts";

/** Returns the history of rollouts of these configurations, a second after each other, with the ranks 1, 2 and so on. */
function historyOf(names: string, isReload = false): History {
  let history: History = [];
  for (const [index, name] of names.split(" ").entries()) {
    const self = {
      id: "1",
      hash: `sha256-${name}`,
      revision: `v-${name}`,
      instanceId: "vm:8080",
      newestWrite: 0,
    };
    const since = 1_000 * index;
    history = addRollout(history, self, { rank: index + 1, since, isReload });
  }
  return history;
}

/** Returns until when the active configuration was active before, and which one it replaces. */
function rollbackIn(history: History, active: string) {
  const rollback = findRollback(history, `sha256-${active}`);
  return rollback && [rollback.lastActive, rollback.replaced.revision];
}

Deno.test("findRollback() finds a configuration that began once more, and one that is left over", () => {
  assertEquals(rollbackIn(historyOf("a b a"), "a"), [1_000, "v-b"]);
  assertEquals(rollbackIn(historyOf("a b c a"), "a"), [1_000, "v-c"]);
  assertEquals(rollbackIn(historyOf("a b"), "a"), [1_000, "v-b"]);
  assertEquals(rollbackIn(historyOf("a b c"), "a"), [1_000, "v-c"]);
  assertEquals(rollbackIn(historyOf("a b a"), "b"), [2_000, "v-a"]);
});

Deno.test("findRollback() finds none in a newer configuration, a restart, the newest one, or one without a rollout", () => {
  assertEquals(rollbackIn(historyOf("a"), "a"), undefined);
  assertEquals(rollbackIn(historyOf("a b"), "b"), undefined);
  assertEquals(rollbackIn(historyOf("a b b"), "b"), undefined);
  assertEquals(rollbackIn(historyOf("a b a c"), "c"), undefined);
  assertEquals(rollbackIn(historyOf("a b"), "unknown"), undefined);
});

Deno.test("findRollback() understands records of ebbde15d, which are in the order in which configurations became active", () => {
  const fields = { place: "vm:8080", isReload: false };
  const [a, b, c] = [["a", 1], ["b", 2], ["c", 3]].map(([name, rank]) => ({
    hash: `sha256-${name}`,
    revision: `v-${name}`,
    rank: Number(rank),
    since: 1_000 * Number(rank),
    isRollback: false,
    ...fields,
  }));
  const leftOver = { ...a!, since: 5_000, isRollback: true, lastActive: 2_000 };
  assertEquals(rollbackIn([b!, leftOver], "a"), [2_000, "v-b"]);
  assertEquals(rollbackIn([b!, leftOver], "b"), undefined);
  assertEquals(rollbackIn([leftOver, b!, c!], "c"), undefined);
  const again = { ...leftOver, rank: 3 };
  assertEquals(rollbackIn([b!, again], "a"), [undefined, "v-b"]);
});

Deno.test("addRollout() keeps the last fifty rollouts, which fit into a value of a store with the longest texts", () => {
  let history: History = [];
  for (let rank = 1; rank <= 60; rank++) {
    const self = {
      id: "1",
      hash: `sha256-${String(rank).padStart(44, "0")}`,
      revision: "r".repeat(128),
      instanceId: "p".repeat(255),
      newestWrite: 0,
    };
    history = addRollout(history, self, { rank, since: rank, isReload: true });
  }
  assertEquals(history.map(({ rank }) => rank).slice(0, 2), [11, 12]);
  assertEquals(history.length, 50);
  const bytes = JSON.stringify(history).length;
  assertEquals(bytes < 60_000, true, `${bytes} bytes`);
});

Deno.test("describeRollback() says from which configuration to which, when that was last active, and what to do", () => {
  const describe = (history: History) => {
    const rollback = findRollback(history, "sha256-a");
    return rollback && describeRollback(rollback);
  };
  const name =
    "rollback from b (v-b) to a (v-a), last active until 1970-01-01T00:00:01.000Z; if not intended, ";
  assertEquals(
    describe(historyOf("a b a")),
    `${name}stop the gateway at vm:8080 and all others that have it`,
  );
  assertEquals(
    describe(historyOf("a b a", true)),
    `${name}correct the variables of the gateway at vm:8080`,
  );
  assertEquals(
    describe(historyOf("a b")),
    `${name}start the processes of the former again`,
  );
});
