import {
  assert,
  assertEquals,
  assertRejects,
  assertStrictEquals,
} from "@std/assert";
import { type Metrics, noMetrics } from "../../src/observe/metrics.ts";
import { CircuitBreaker } from "../../src/store/circuit_breaker.ts";
import { memoryStore } from "../../src/store/memory.ts";
import {
  type Check,
  type Store,
  StoreUnavailableError,
  type Write,
} from "../../src/store/store.ts";
import { FakeClock, settle } from "../../tools/fake_clock.ts";
import { delegate } from "../_store.ts";

/** A store whose operations are settled by the test; `operations` records their names. */
class ManualStore implements Store {
  readonly maxChecks = 7;
  readonly operations: string[] = [];
  readonly #pending: PromiseWithResolvers<never>[] = [];

  get = () => this.#run("get");
  getMany = () => this.#run("getMany");
  list = () => this.#run("list");
  commit = () => this.#run("commit");
  watch = () => () => {};
  close = () => void this.operations.push("close");

  #run(operation: string): Promise<never> {
    this.operations.push(operation);
    const pending = Promise.withResolvers<never>();
    this.#pending.push(pending);
    return pending.promise;
  }

  /** Resolves the oldest pending operation. */
  resolve(value?: unknown): void {
    this.#pending.shift()?.resolve(value as never);
  }

  /** Rejects the oldest pending operation. */
  reject(error: unknown): void {
    this.#pending.shift()?.reject(error);
  }
}

function breaker(
  inner: Store,
  clock: FakeClock,
  metrics: Metrics = noMetrics,
): CircuitBreaker {
  return new CircuitBreaker(inner, { clock, metrics });
}

interface TestBreaker {
  clock: FakeClock;
  inner: ManualStore;
  store: CircuitBreaker;
  /** The calls of `onChange`: an error message, or "up". */
  changes: string[];
}

function setUp(): TestBreaker {
  const clock = new FakeClock();
  const inner = new ManualStore();
  const changes: string[] = [];
  const store = breaker(inner, clock);
  store.onChange = (failure) => void changes.push(failure?.message ?? "up");
  return { clock, inner, changes, store };
}

Deno.test("CircuitBreaker accepts as many checks as the store", () => {
  assertEquals(setUp().store.maxChecks, 7);
});

const OPEN = "Cannot use the store: it has just failed: broken";
const TIMED_OUT = "Cannot use the store: no answer within 5000 ms";

/** Lets one operation fail, which opens its circuit. */
async function failAt(
  { inner, store }: TestBreaker,
  kind: "get" | "commit",
): Promise<void> {
  const operation = kind === "get" ? store.get([]) : store.commit([], []);
  inner.reject(new TypeError("broken"));
  await assertRejects(
    () => operation,
    StoreUnavailableError,
    "Cannot use the store: broken",
  );
}

/** Resolves the probe that precedes an operation after a failure, then the operation. */
async function resolveProbed(
  inner: ManualStore,
  value?: unknown,
): Promise<void> {
  inner.resolve();
  await settle();
  inner.resolve(value);
}

Deno.test("CircuitBreaker forwards operations to the store", async () => {
  const store = breaker(memoryStore(), new FakeClock());
  const version = await store.commit([{ key: ["f", "a"], version: null }], [{
    key: ["f", "a"],
    value: 1,
  }]);
  assert(version !== undefined);
  const entry = { key: ["f", "a"], value: 1, version };
  assertEquals(await store.get<number>(["f", "a"]), entry);
  assertEquals(await store.list<number>(["f"]), [entry]);
  assertEquals(await store.list(["f"], { from: "b" }), []);
  assertEquals(
    await store.commit([{ key: ["f", "a"], version: null }], []),
    undefined,
  );
  const { promise, resolve } = Promise.withResolvers<void>();
  const stop = store.watch(["f", "a"], resolve);
  await store.commit([], [{ key: ["f", "a"] }]);
  await promise;
  stop();
  store.close();
  assertStrictEquals(store.isAvailable, true);
});

Deno.test("CircuitBreaker closes the inner store", () => {
  const { inner, store } = setUp();
  store.close();
  assertEquals(inner.operations, ["close"]);
});

Deno.test("CircuitBreaker cancels its timer when the store answers", async () => {
  const { clock, inner, store } = setUp();
  const operation = store.get([]);
  assertEquals(clock.waiting, 1);
  inner.resolve();
  await operation;
  await clock.tick(0);
  assertEquals(clock.waiting, 0);
});

for (
  const [name, run] of Object.entries<(store: Store) => Promise<unknown>>({
    get: (store) => store.get([]),
    getMany: (store) => store.getMany([]),
    list: (store) => store.list([]),
    commit: (store) => store.commit([], []),
  })
) {
  Deno.test(`CircuitBreaker times out ${name}() after 5 s`, async () => {
    const { clock, store, changes } = setUp();
    const operation = assertRejects(
      () => run(store),
      StoreUnavailableError,
      TIMED_OUT,
    );
    await clock.tick(4_999);
    assertEquals([store.isAvailable, changes], [true, []]);
    await clock.tick(1);
    assertEquals([store.isAvailable, changes], [false, [TIMED_OUT]]);
    await operation;
  });
}

Deno.test("CircuitBreaker ignores results and errors after the timeout", async () => {
  const breakers = [setUp(), setUp()];
  for (const { clock, store } of breakers) {
    const operation = assertRejects(
      () => store.get([]),
      StoreUnavailableError,
      TIMED_OUT,
    );
    await clock.tick(5_000);
    await operation;
  }
  breakers[0]?.inner.reject(new TypeError("late")); // an unhandled rejection would fail this test
  breakers[1]?.inner.resolve("late");
  for (const { clock, store, changes } of breakers) {
    await clock.tick(0);
    assertEquals([store.isAvailable, changes], [false, [TIMED_OUT]]);
  }
});

Deno.test("CircuitBreaker rethrows a StoreUnavailableError and wraps any other error", async () => {
  const own = new StoreUnavailableError("Cannot commit");
  const first = setUp();
  const kept = first.store.get([]);
  first.inner.reject(own);
  assertStrictEquals(await assertRejects(() => kept), own);

  const cause = new TypeError("database or disk is full");
  const second = setUp();
  const wrapped = second.store.commit([], []);
  second.inner.reject(cause);
  const error = await assertRejects(() => wrapped, StoreUnavailableError);
  assertEquals([error.message, error.cause], [
    "Cannot use the store: database or disk is full",
    cause,
  ]);

  const third = setUp();
  const thrown = third.store.get([]);
  third.inner.reject("just text");
  await assertRejects(
    () => thrown,
    StoreUnavailableError,
    "Cannot use the store: just text",
  );
});

Deno.test("CircuitBreaker treats a synchronous throw like a rejection", async () => {
  const throwing: Store = {
    ...memoryStore(),
    get: () => {
      throw new TypeError("closed");
    },
  };
  const store = breaker(throwing, new FakeClock());
  await assertRejects(
    () => store.get([]),
    StoreUnavailableError,
    "Cannot use the store: closed",
  );
  assertEquals(store.isAvailable, false);
});

Deno.test("CircuitBreaker opens for 1 s after a failure", async () => {
  const breaker = setUp();
  await failAt(breaker, "get");
  await breaker.clock.tick(999);
  for (
    const run of [() => breaker.store.get([]), () => breaker.store.list([])]
  ) {
    await assertRejects(run, StoreUnavailableError, OPEN);
  }
  assertEquals(breaker.inner.operations, ["get"]);
});

Deno.test("CircuitBreaker probes the store once after the pause and rejects other operations meanwhile", async () => {
  const breaker = setUp();
  const { clock, inner, store, changes } = breaker;
  await failAt(breaker, "get");
  await clock.tick(1_000);
  const first = store.list([]);
  await assertRejects(() => store.get([]), StoreUnavailableError, OPEN);
  await clock.tick(4_999);
  await assertRejects(() => store.list([]), StoreUnavailableError, OPEN);
  assertEquals(inner.operations, ["get", "get"]);
  await resolveProbed(inner, []);
  assertEquals(await first, []);
  assertEquals(inner.operations, ["get", "get", "list"]);
  assertEquals([store.isAvailable, changes], [true, [
    "Cannot use the store: broken",
    "up",
  ]]);
});

Deno.test("CircuitBreaker closes when the probe succeeds", async () => {
  const breaker = setUp();
  const { clock, inner, store } = breaker;
  await failAt(breaker, "get");
  await clock.tick(1_000);
  const first = store.get([]);
  await resolveProbed(inner);
  await first;
  const both = [store.get([]), store.list([])];
  inner.resolve();
  inner.resolve([]);
  assertEquals(await Promise.all(both), [undefined, []]);
});

Deno.test("CircuitBreaker opens for another second when the probe fails and does not report it again", async () => {
  const breaker = setUp();
  const { clock, inner, store, changes } = breaker;
  await failAt(breaker, "get");
  await clock.tick(1_000);
  await failAt(breaker, "get");
  await clock.tick(999);
  await assertRejects(() => store.get([]), StoreUnavailableError, OPEN);
  await clock.tick(1);
  const next = store.get([]);
  await resolveProbed(inner);
  await next;
  assertEquals(changes, ["Cannot use the store: broken", "up"]);
});

Deno.test("CircuitBreaker probes again after the first probe timed out", async () => {
  const breaker = setUp();
  const { clock, inner, store } = breaker;
  await failAt(breaker, "get");
  await clock.tick(1_000);
  const first = assertRejects(
    () => store.get([]),
    StoreUnavailableError,
    TIMED_OUT,
  );
  await clock.tick(5_000);
  await first;
  const open =
    "Cannot use the store: it has just failed: no answer within 5000 ms";
  await assertRejects(() => store.get([]), StoreUnavailableError, open);
  await clock.tick(1_000);
  const next = store.get([]);
  inner.reject(new Error("late result of the first probe"));
  await resolveProbed(inner, "result of the second operation");
  assertEquals(await next as unknown, "result of the second operation");
  assertEquals(store.isAvailable, true);
});

Deno.test("CircuitBreaker keeps reading from a store that cannot write", async () => {
  const breaker = setUp();
  const { inner, store } = breaker;
  await failAt(breaker, "commit");
  await assertRejects(() => store.commit([], []), StoreUnavailableError, OPEN);
  const reading = store.get([]);
  inner.resolve();
  assertEquals(await reading, undefined);
  assertEquals(store.isAvailable, false);
});

Deno.test("CircuitBreaker keeps writing to a store that cannot read", async () => {
  const breaker = setUp();
  const { inner, store } = breaker;
  await failAt(breaker, "get");
  const writing = store.commit([], []);
  inner.resolve("1");
  assertEquals(await writing, "1");
  assertEquals(store.isAvailable, false);
});

Deno.test("CircuitBreaker reports a failure once, and the recovery when both reads and writes work", async () => {
  const breaker = setUp();
  const { clock, inner, store, changes } = breaker;
  await failAt(breaker, "commit");
  await failAt(breaker, "get");
  assertEquals(changes, ["Cannot use the store: broken"]);
  await clock.tick(1_000);
  const reading = store.get([]);
  await resolveProbed(inner);
  await reading;
  assertEquals([store.isAvailable, changes], [false, [
    "Cannot use the store: broken",
  ]]);
  const writing = store.commit([], []);
  await resolveProbed(inner, "1");
  await writing;
  assertEquals([store.isAvailable, changes], [true, [
    "Cannot use the store: broken",
    "up",
  ]]);
});

Deno.test("CircuitBreaker knows the latest failure, and since when the store is unavailable", async () => {
  const { clock, inner, store, changes } = setUp();
  const since = clock.now();
  for (const reason of ["shutting down", "refused"]) {
    const read = store.get(["a"]);
    inner.reject(new Error(reason));
    await assertRejects(() => read);
    await clock.tick(1_000);
  }
  const { at, failure } = store.state;
  assertEquals([at, failure?.message], [
    since,
    "Cannot use the store: refused",
  ]);
  assertEquals(changes, ["Cannot use the store: shutting down"]);
});

Deno.test("CircuitBreaker reports several simultaneous failures once", async () => {
  const { inner, store, changes } = setUp();
  const all = Array.from(
    { length: 5 },
    () => assertRejects(() => store.get([]), StoreUnavailableError),
  );
  for (let count = 0; count < 5; count++) inner.reject(new Error("broken"));
  await Promise.all(all);
  assertEquals(changes, ["Cannot use the store: broken"]);
});

Deno.test("CircuitBreaker does not treat a conflict as a failure", async () => {
  const { inner, store, changes } = setUp();
  const conflict = store.commit([], []);
  inner.resolve(undefined);
  assertEquals(await conflict, undefined);
  assertEquals([store.isAvailable, changes], [true, []]);
});

Deno.test("probe() does nothing while the store is available", async () => {
  const { inner, store } = setUp();
  await store.probe();
  assertEquals(inner.operations, []);
});

Deno.test("probe() detects whether reads and writes work again", async () => {
  const breaker = setUp();
  const { clock, inner, store, changes } = breaker;
  await failAt(breaker, "get");
  await failAt(breaker, "commit");
  await store.probe(); // too early: both circuits are open
  assertEquals([store.isAvailable, inner.operations], [false, [
    "get",
    "commit",
  ]]);
  await clock.tick(1_000);
  const first = store.probe();
  inner.resolve();
  inner.reject(new TypeError("broken"));
  await first;
  assertEquals([store.isAvailable, changes], [false, [
    "Cannot use the store: broken",
  ]]);
  await clock.tick(1_000);
  const second = store.probe();
  inner.resolve("1");
  await second;
  assertEquals([store.isAvailable, changes], [true, [
    "Cannot use the store: broken",
    "up",
  ]]);
  assertEquals(inner.operations, ["get", "commit", "get", "commit", "commit"]);
});

Deno.test("CircuitBreaker does not stay open for longer when the clock is set back", async () => {
  const clock = new FakeClock();
  let isBroken = true;
  const inner = memoryStore();
  const get: Store["get"] = (key) =>
    isBroken ? Promise.reject(new Error("down")) : inner.get(key);
  const store = breaker({ ...delegate(inner), get }, clock);
  await assertRejects(() => store.get(["a"]), StoreUnavailableError);
  isBroken = false;
  clock.jump(-3_600_000);
  clock.pass(1_000);
  assertEquals(await store.get(["a"]), undefined);
  assertEquals(store.isAvailable, true);
});

Deno.test("CircuitBreaker counts failures and records the duration of every operation by its kind", async () => {
  const clock = new FakeClock();
  const inner = new ManualStore();
  const measured: unknown[] = [];
  const metrics = {
    ...noMetrics,
    count: (...measurement: unknown[]) => void measured.push(measurement),
    record: (...measurement: unknown[]) => void measured.push(measurement),
  };
  const store = breaker(inner, clock, metrics);
  const read = store.get(["a"]);
  clock.pass(250);
  inner.resolve();
  await read;
  const write = store.commit([], []);
  clock.pass(500);
  inner.reject(new TypeError("broken"));
  await assertRejects(() => write, StoreUnavailableError);
  assertEquals(measured, [
    ["rep.store.duration", 0.25, "read"],
    ["rep.store.errors", 1, "write"],
    ["rep.store.duration", 0.5, "write"],
  ]);
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

Deno.test("probe() writes 60,000 bytes, since a disk that is full has room for less, and leaves nothing", async () => {
  const clock = new FakeClock();
  const inner = limitedStore();
  const store = breaker(inner, clock);
  const changes: (string | undefined)[] = [];
  store.onChange = (failure) => void changes.push(failure?.message);
  await assertRejects(() => store.commit([], [{ key: ["a"], value: "x" }]));
  const outcomes: boolean[] = [];
  for (const room of [1_000, 59_999, 60_000]) {
    inner.room = room;
    await clock.tick(1_000);
    await store.probe();
    outcomes.push(store.isAvailable);
  }
  assertEquals(outcomes, [false, false, true]);
  assertEquals(changes, ["Cannot use the store: full", undefined]);
  assertEquals(await store.get(["probe"]), undefined);
});

Deno.test("a commit that succeeds does not end the outage that another one began meanwhile", async () => {
  const { inner, store } = setUp();
  const [failing, succeeding] = [store.commit([], []), store.commit([], [])];
  inner.reject(new TypeError("broken"));
  inner.resolve("1");
  await assertRejects(() => failing, StoreUnavailableError);
  assertEquals([await succeeding, store.isAvailable], ["1", false]);
});
