import { assert, assertEquals } from "@std/assert";
import {
  EventLog,
  EVENTS_HEAD_KEY,
  STATES,
} from "../../../src/core/changes/event_log.ts";
import type { PublicTarget } from "../../../src/core/changes/plan_changes.ts";
import { batches } from "../../../src/core/store/commits.ts";
import type { Key, Store } from "../../../src/core/store/store.ts";
import { memoryStore } from "../../../src/engines/memory.ts";
import { FakeClock } from "../../../tools/fake_clock.ts";
import { saidBy, TestPublisher } from "../../_event_log.ts";
import { delegate, testWithStores } from "../../_store.ts";

function target(
  values: Record<string, string>,
  other: Partial<PublicTarget> = {},
): PublicTarget {
  return {
    public: new Map(Object.entries(values)),
    sensitive: new Map(),
    server: new Set(),
    ...other,
  };
}

interface TestLog {
  store: Store;
  log: EventLog;
  clock: FakeClock;
  put: (to: PublicTarget) => Promise<readonly unknown[]>;
  all: () => Promise<unknown[]>;
}

/** Registers a test for each store. */
function testLog(
  name: string,
  keep: number,
  run: (context: TestLog) => Promise<void>,
): void {
  testWithStores(name, async (store) => {
    const clock = new FakeClock(1000);
    const publisher = new TestPublisher(store, clock, keep);
    const { log } = publisher;
    const put = async (to: PublicTarget) =>
      (await publisher.publish(to)).map(saidBy);
    const all = async () => (await log.after(0, 100_000)).map(saidBy);
    await run({ store, log, clock, put, all });
  });
}

testLog(
  "Publisher appends new, changed and removed variables once",
  100,
  async ({ put, all, clock }) => {
    assertEquals(await put(target({ B: "1", A: "1" })), [{
      id: 1_000_000,
      name: "A",
      value: "1",
    }, {
      id: 1_001_000,
      name: "B",
      value: "1",
    }]);
    assertEquals(await put(target({ B: "1", A: "1" })), []);
    await clock.tick(500);
    assertEquals(await put(target({ B: "2" })), [{
      id: 1_500_000,
      name: "B",
      value: "2",
    }, { id: 1_501_000, name: "A" }]);
    assertEquals(await put(target({ B: "2" })), []);
    assertEquals(await all(), [
      { id: 1_000_000, name: "A", value: "1" },
      { id: 1_001_000, name: "B", value: "1" },
      { id: 1_500_000, name: "B", value: "2" },
      { id: 1_501_000, name: "A" },
    ]);
  },
);

testLog(
  "Publisher assigns increasing ids when the clock stands still or goes back",
  100,
  async ({ put, store }) => {
    await put(target({ A: "1" }));
    await put(target({ A: "2" }));
    const slow = new TestPublisher(store, new FakeClock(5));
    await slow.publish(target({ A: "3" }));
    assertEquals((await slow.log.after(0, 10)).map(({ id }) => id), [
      1_000_000,
      1_001_000,
      1_002_000,
    ]);
  },
);

testLog(
  "Publisher appends a change once if several processes publish it",
  100,
  async ({ store, clock, all }) => {
    const publications = [1, 2, 3].map(() =>
      new TestPublisher(store, clock).publish(target({ A: "1" }))
    );
    await clock.tickUntil(Promise.all(publications), 0);
    assertEquals(await all(), [{ id: 1_000_000, name: "A", value: "1" }]);
  },
);

testLog(
  "Publisher splits changes that exceed one commit",
  10_000,
  async ({ put, all }) => {
    const many = Object.fromEntries(
      Array.from(
        { length: 450 },
        (_, i) => [`N${String(i).padStart(3, "0")}`, "x"],
      ),
    );
    const long = Object.fromEntries(
      Array.from({ length: 100 }, (_, i) => [`M${i}`.padEnd(1_024, "m"), "z"]),
    );
    const large = Object.fromEntries(
      Array.from({ length: 12 }, (_, i) => [`L${i}`, "y".repeat(64_000)]),
    );
    await put(target({ ...many, ...long, ...large }));
    const events = await all() as { id: number; name: string; value: string }[];
    assertEquals(
      events.map(({ id }) => id),
      Array.from({ length: 562 }, (_, i) => (1_000 + i) * 1_000),
    );
    assertEquals(
      Object.fromEntries(events.map(({ name, value }) => [name, value])),
      { ...many, ...long, ...large },
    );
  },
);

testLog(
  "EventLog stores who and why with each event, except beside the longest values, which leave no room",
  10_000,
  async ({ log }) => {
    const cause = { by: "👩".repeat(128), why: "👩".repeat(512) };
    const change = (name: string, value: string) => ({
      name,
      value,
      leavesPublic: false,
      cause,
    });
    const many = Array.from({ length: 450 }, (_, i) => change(`N${i}`, "x"));
    const long = change("M".repeat(1_024), "y".repeat(60_000));
    const longest = change("L", "z".repeat(64_000));
    let state = await log.state();
    for (const batch of batches([...many, long, longest])) {
      const options = { checks: [], afterId: 0 };
      const appended = await log.append(batch, state, options);
      if (appended !== undefined) state = appended.state;
    }
    const events = await log.after(0, 1_000);
    assertEquals(
      events.map(({ cause }) => cause),
      [...[...many, long].map(({ cause }) => cause), undefined],
    );
    assertEquals(events.at(-1)?.value?.length, 64_000);
  },
);

testLog(
  "EventLog keeps the newest events and compacts older ones to the newest per variable",
  20,
  async ({ put, all, log }) => {
    await put(target({ OLD: "stays", GONE: "goes", HOT: "0" }));
    await put(target({ OLD: "stays", HOT: "0" }));
    for (let i = 1; i <= 60; i++) {
      await put(target({ OLD: "stays", HOT: String(i) }));
    }
    const events = await all() as {
      id: number;
      name: string;
      value?: string;
    }[];
    const recent = events.filter(({ name }) => name === "HOT");
    assert(
      recent.length >= 20 && recent.length <= 22,
      `${recent.length} events are kept`,
    );
    assertEquals(recent.at(-1)?.value, "60");
    assertEquals(events.filter(({ name }) => name !== "HOT"), [
      { id: 1_002_000, name: "OLD", value: "stays" },
      { id: 1_003_000, name: "GONE" },
    ]);
    assertEquals((await log.newest(1))[0]?.value, "60");
  },
);

testLog("Publisher preserves values", 100, async ({ put, all }) => {
  const values = {
    BOM: "\uFEFFx",
    NUL: "\0",
    EMPTY: "",
    LINES: "\r\n\u2028",
    EMOJI: "👩‍👧".repeat(2_000),
  };
  await put(target(values));
  const events = await all() as { name: string; value: string }[];
  assertEquals(
    Object.fromEntries(events.map(({ name, value }) => [name, value])),
    values,
  );
});

Deno.test("a state is read again if another one has the same version, as after a restore", async () => {
  const inner = memoryStore();
  const store: Store = {
    ...delegate(inner),
    async get<T>(key: Key) {
      const entry = await inner.get<T>(key);
      return entry && { ...entry, version: "1" };
    },
  };
  const log = new EventLog(store, {
    clock: new FakeClock(),
    random: () => 0,
    keep: 100,
  });
  for (const id of [1_000, 2_000]) {
    await inner.commit([], [
      { key: EVENTS_HEAD_KEY, value: { id, compactedUpTo: 0, recent: 1 } },
      { key: [...STATES, "A"], value: { id, name: "A" } },
    ]);
    assertEquals((await log.state()).newest.get("A")?.id, id);
  }
});
