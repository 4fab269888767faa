import { assertEquals, assertRejects, assertStrictEquals } from "@std/assert";
import { noMetrics } from "../../../src/core/observe/metrics.ts";
import { CircuitBreaker } from "../../../src/core/store/circuit_breaker.ts";
import { memoryStore } from "../../../src/engines/memory.ts";
import {
  type Check,
  type Store,
  StoreIncompatibleError,
  StoreUnavailableError,
  type Write,
} from "../../../src/core/store/store.ts";
import { FakeClock } from "../../../tools/fake_clock.ts";
import { captureLog } from "../../_gateway.ts";
import { delegate, interceptedStore, OPERATIONS } from "../../_store.ts";

const BROKEN = "Cannot use the store: broken";
const PAUSED = "Cannot use the store: it has just failed: broken";
const TIMED_OUT = "Cannot use the store: no answer within 5000 ms";

type Kind = "read" | "write";

/** A circuit breaker on a store in memory, of which a test decides what fails, and what never answers. */
function setUp(inner: Store = memoryStore()) {
  const clock = new FakeClock();
  /** The operations that have reached the store. */
  const operations: string[] = [];
  /** The calls of `onChange`: an error message, or "up". */
  const changes: string[] = [];
  const measured: unknown[] = [];
  const setup = {
    clock,
    operations,
    changes,
    measured,
    /** What is thrown for each kind; nothing if it works. */
    failures: new Map<Kind, unknown>(),
    /** Operations wait for it. */
    answer: Promise.resolve() as Promise<unknown>,
    store: new CircuitBreaker(
      interceptedStore(inner, async (operation) => {
        operations.push(operation);
        const kind = operation === "commit" ? "write" : "read";
        await setup.answer;
        if (setup.failures.has(kind)) throw setup.failures.get(kind);
      }),
      {
        clock,
        metrics: {
          ...noMetrics,
          count: (...measurement) => void measured.push(measurement),
          record: (...measurement) => void measured.push(measurement),
        },
      },
    ),
    /** Lets one operation of a kind fail, and all later ones until it is {@linkcode mend}ed. */
    async fail(kind: Kind, error: unknown = new TypeError("broken")) {
      setup.failures.set(kind, error);
      return await assertRejects(
        () => OF_KIND[kind](setup.store),
        StoreUnavailableError,
      );
    },
    mend: () => setup.failures.clear(),
  };
  const leave = setup.store.listen((failure) =>
    void changes.push(failure?.message ?? "up")
  );
  return Object.assign(setup, { leave });
}

const OF_KIND: Record<Kind, (store: Store) => Promise<unknown>> = {
  read: (store) => store.get(["a"]),
  write: (store) => store.commit([], [{ key: ["a"], value: 1 }]),
};

async function rejectsAtOnce(setup: ReturnType<typeof setUp>, kind: Kind) {
  const before = setup.operations.length;
  const operation = () => OF_KIND[kind](setup.store);
  await assertRejects(operation, StoreUnavailableError, PAUSED);
  assertEquals(setup.operations.length, before);
}

Deno.test("CircuitBreaker forwards operations, hints, maxChecks and close() to the store", async () => {
  let isClosed = false;
  const { store } = setUp({
    ...delegate(memoryStore()),
    maxChecks: 7,
    close: () => void (isClosed = true),
  });
  const key = ["f", "a"];
  const hinted = Promise.withResolvers<void>();
  const stop = store.watch(key, hinted.resolve);
  const check = { key, version: null };
  const version = await store.commit([check], [{ key, value: 1 }]);
  const entry = { key, value: 1, version: String(version) };
  await hinted.promise;
  stop();
  assertEquals(await store.get<number>(key), entry);
  assertEquals(await store.getMany<number>([key]), [entry]);
  assertEquals(await store.list<number>(["f"]), [entry]);
  assertEquals(await store.list(["f"], { from: "b" }), []);
  assertEquals(await store.commit([check], []), undefined); // a conflict is no failure
  assertEquals([store.isAvailable, store.maxChecks], [true, 7]);
  store.close();
  assertEquals(isClosed, true);
});

// ---- failures

for (const [name, run] of Object.entries(OPERATIONS)) {
  Deno.test(`CircuitBreaker times out ${name}() after 5 s, and ignores a later result`, async () => {
    const setup = setUp();
    const { clock, store, changes } = setup;
    const late = Promise.withResolvers<void>();
    setup.answer = late.promise;
    const timedOut = assertRejects(
      () => run(store),
      StoreUnavailableError,
      TIMED_OUT,
    );
    await clock.tick(4_999);
    assertEquals([store.isAvailable, changes], [true, []]);
    await clock.tick(1);
    await timedOut;
    late.reject(new TypeError("late")); // an unhandled rejection would fail this test
    await clock.tick(0);
    assertEquals([store.isAvailable, changes], [false, [TIMED_OUT]]);
    store.close(); // it does not probe any longer
    await clock.tick(0);
    assertEquals(clock.waiting, 0);
  });
}

Deno.test("CircuitBreaker rethrows a StoreUnavailableError and wraps any other error", async () => {
  const own = new StoreUnavailableError("Cannot commit");
  assertStrictEquals(await setUp().fail("read", own), own);
  const cause = new TypeError("database or disk is full");
  const error = await setUp().fail("write", cause);
  assertEquals(
    [error.message, error.cause],
    ["Cannot use the store: database or disk is full", cause],
  );
  const { message } = await setUp().fail("read", "just text");
  assertEquals(message, "Cannot use the store: just text");
});

Deno.test("CircuitBreaker keeps a StoreIncompatibleError, also while it pauses", async () => {
  const setup = setUp();
  const error = new StoreIncompatibleError("no table");
  assertStrictEquals(await setup.fail("read", error), error);
  const paused = await assertRejects(() => setup.store.get(["a"]));
  assertStrictEquals(paused, error);
  assertEquals(setup.operations.length, 1);
});

Deno.test("CircuitBreaker treats a synchronous throw like a rejection", async () => {
  const store = new CircuitBreaker({
    ...delegate(memoryStore()),
    get() {
      throw new TypeError("closed");
    },
  }, { clock: new FakeClock(), metrics: noMetrics });
  const message = "Cannot use the store: closed";
  const read = () => store.get([]);
  await assertRejects(read, StoreUnavailableError, message);
  assertEquals(store.isAvailable, false);
});

Deno.test("CircuitBreaker rejects at once for 1 s after a failure", async () => {
  const setup = setUp();
  await setup.fail("read");
  setup.mend();
  await setup.clock.tick(999);
  await rejectsAtOnce(setup, "read");
  await setup.clock.tick(1);
  assertEquals(await setup.store.get(["a"]), undefined);
  assertEquals(setup.changes, [BROKEN, "up"]);
});

Deno.test("CircuitBreaker keeps reading from a store that cannot write, and writing to one that cannot read", async () => {
  for (const [kind, other] of [["read", "write"], ["write", "read"]] as const) {
    const setup = setUp();
    await setup.fail(kind);
    await rejectsAtOnce(setup, kind);
    await OF_KIND[other](setup.store);
    assertEquals(setup.store.isAvailable, false);
  }
});

Deno.test("CircuitBreaker reports several failures once, and knows the latest, and since when", async () => {
  const setup = setUp();
  const { store, changes, clock } = setup;
  clock.pass(60_000);
  const since = clock.now();
  setup.failures.set("read", new Error("shutting down"));
  const reads = Array.from({ length: 5 }, () => store.get([]));
  await Promise.allSettled(reads);
  setup.failures.set("read", new Error("refused"));
  await clock.tick(1_000);
  const { at, failure, isAvailable } = store.availability;
  assertEquals([isAvailable, at], [false, since]);
  assertEquals(failure?.message, "Cannot use the store: refused");
  assertEquals(changes, ["Cannot use the store: shutting down"]);
});

Deno.test("CircuitBreaker counts failures and records the duration of every operation by its kind", async () => {
  const setup = setUp();
  const slow = Promise.withResolvers<void>();
  setup.answer = slow.promise;
  const read = setup.store.get(["a"]);
  setup.clock.pass(250);
  slow.resolve();
  await read;
  await setup.fail("write");
  assertEquals(setup.measured, [
    ["rep.store.duration", 0.25, "read"],
    ["rep.store.errors", 1, "write"],
    ["rep.store.duration", 0, "write"],
  ]);
});

// ---- recovery

Deno.test("CircuitBreaker probes the store after a second, and rejects operations until it answers", async () => {
  const setup = setUp();
  const { clock, store, operations } = setup;
  await setup.fail("read");
  setup.mend();
  const slow = Promise.withResolvers<void>();
  setup.answer = slow.promise;
  await clock.tick(1_000);
  assertEquals(operations, ["get", "get"]);
  await rejectsAtOnce(setup, "read");
  await clock.tick(4_999);
  await rejectsAtOnce(setup, "read");
  slow.resolve();
  await clock.tick(0);
  assertEquals(await Promise.all([store.get([]), store.list([])]), [
    undefined,
    [],
  ]);
  assertEquals(operations, ["get", "get", "get", "list"]);
});

Deno.test("CircuitBreaker probes again a second after a probe has failed or timed out, and does not report it again", async () => {
  const setup = setUp();
  const { clock, store, changes, operations } = setup;
  await setup.fail("read");
  await clock.tick(1_000);
  assertEquals(operations, ["get", "get"]);
  setup.answer = new Promise(() => {});
  await clock.tick(1_000);
  await clock.tick(5_000);
  setup.answer = Promise.resolve();
  setup.mend();
  const read = () => store.get([]);
  const paused = /it has just failed: no answer within 5000 ms/;
  const { message } = await assertRejects(read, StoreUnavailableError);
  assertEquals(paused.test(message), true);
  await clock.tick(999);
  assertEquals(operations, ["get", "get", "get"]);
  await clock.tick(1);
  assertEquals(await read(), undefined);
  assertEquals(changes, [BROKEN, "up"]);
});

Deno.test("CircuitBreaker probes once for several failures, and reports when reads and writes both work again", async () => {
  const setup = setUp();
  const { clock, store, changes, operations } = setup;
  setup.failures.set("read", new Error("broken"));
  await Promise.allSettled([store.get([]), store.get([])]);
  await setup.fail("write");
  assertEquals(operations, ["get", "get", "commit"]);
  setup.failures.delete("read");
  await clock.tick(1_000);
  assertEquals([store.isAvailable, changes], [false, [BROKEN]]);
  setup.mend();
  await clock.tick(1_000);
  assertEquals([store.isAvailable, changes], [true, [BROKEN, "up"]]);
  assertEquals(operations.slice(3), ["get", "commit", "commit"]);
  await clock.tick(10_000);
  assertEquals(operations.length, 6);
});

/** A memory store that is full for commits of more than `room` bytes. */
function limitedStore() {
  const inner = memoryStore();
  const limited = {
    ...delegate(inner),
    room: 0,
    commit(checks: readonly Check[], writes: readonly Write[]) {
      const sizes = writes.map(({ value }) =>
        (value as Uint8Array | undefined)?.length ?? 0
      );
      return Math.max(...sizes) > limited.room
        ? Promise.reject(new TypeError("full"))
        : inner.commit(checks, writes);
    },
  };
  return limited;
}

Deno.test("CircuitBreaker probes with 60,000 bytes, since a disk that is full has room for less, and leaves nothing", async () => {
  const inner = limitedStore();
  const { clock, store, changes } = setUp(inner);
  await assertRejects(() => store.commit([], [{ key: ["a"], value: "x" }]));
  const outcomes: boolean[] = [];
  for (const room of [1_000, 59_999, 60_000]) {
    inner.room = room;
    await clock.tick(1_000);
    outcomes.push(store.isAvailable);
  }
  assertEquals(outcomes, [false, false, true]);
  assertEquals(changes, ["Cannot use the store: full", "up"]);
  assertEquals(await store.get(["probe"]), undefined);
});

Deno.test("a commit that succeeds does not end the outage that another one began meanwhile", async () => {
  const setup = setUp();
  const slow = Promise.withResolvers<void>();
  setup.answer = slow.promise;
  const succeeding = setup.store.commit([], []);
  setup.answer = Promise.resolve();
  await setup.fail("write");
  setup.mend();
  slow.resolve();
  assertEquals(await succeeding, "1");
  assertEquals(setup.store.isAvailable, false);
});

Deno.test("CircuitBreaker stops probing after the last of those who use it has left", async () => {
  const setup = setUp();
  const { clock, operations } = setup;
  const leave = setup.store.listen(() => {});
  await setup.fail("read");
  await clock.tick(1_000);
  assertEquals(operations.length, 2);
  leave();
  await clock.tick(1_000);
  assertEquals(operations.length, 3); // setUp() itself listens
  setup.leave();
  await clock.tick(10_000);
  assertEquals([operations.length, clock.waiting], [3, 0]);
});

Deno.test("CircuitBreaker logs an outage and its end once, however many use it", async () => {
  const { log, lines } = captureLog();
  const clock = new FakeClock();
  let isBroken = true;
  const inner = interceptedStore(memoryStore(), () => {
    if (isBroken) throw new TypeError("broken");
    return Promise.resolve();
  });
  const store = new CircuitBreaker(inner, { clock, metrics: noMetrics, log });
  const heard: unknown[] = [];
  for (const name of ["a", "b"]) {
    store.listen((failure) => heard.push([name, failure === undefined]));
  }
  await assertRejects(() => store.get(["a"]));
  isBroken = false;
  await clock.tick(1_000);
  assertEquals(lines.map(({ msg, detail }) => [msg, detail]), [
    [
      "rep.store.down",
      "limits are counted in memory, changes wait: Cannot use the store: broken",
    ],
    ["rep.store.up", "the store is available again"],
  ]);
  assertEquals(heard, [["a", false], ["b", false], ["a", true], ["b", true]]);
});
