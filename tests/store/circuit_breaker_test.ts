import { assert, assertEquals, assertRejects, assertStrictEquals } from "@std/assert";
import { FakeClock } from "../../tools/fake_clock.ts";
import { type CircuitBreakerStore, withCircuitBreaker } from "../../src/store/circuit_breaker.ts";
import { memoryStore } from "../../src/store/memory.ts";
import { type Store, StoreUnavailableError } from "../../src/store/store.ts";

/** A store whose operations end when, and as, the test says; each is a line in `asked`. */
class PuppetStore implements Store {
  readonly asked: string[] = [];
  readonly #pending: PromiseWithResolvers<never>[] = [];

  get = () => this.#ask("get");
  list = () => this.#ask("list");
  commit = () => this.#ask("commit");
  watch = () => () => {};
  close = () => void this.asked.push("close");

  #ask(operation: string): Promise<never> {
    this.asked.push(operation);
    const pending = Promise.withResolvers<never>();
    this.#pending.push(pending);
    return pending.promise;
  }

  /** Ends the oldest operation that is under way. */
  answer(value?: unknown): void {
    this.#pending.shift()?.resolve(value as never);
  }

  fail(error: unknown): void {
    this.#pending.shift()?.reject(error);
  }
}

interface GuardStage {
  clock: FakeClock;
  puppet: PuppetStore;
  store: CircuitBreakerStore;
  /** What `onChange` was told: a message, or "up". */
  changes: string[];
}

function stage(): GuardStage {
  const clock = new FakeClock();
  const puppet = new PuppetStore();
  const changes: string[] = [];
  const onChange = (failure?: Error) => void changes.push(failure?.message ?? "up");
  return { clock, puppet, changes, store: withCircuitBreaker(puppet, { clock, onChange }) };
}

const FAILED = "Cannot use the store: it has just failed";
const LATE = "Cannot use the store: no answer within 5000 ms";

/** Brings a store to fail at something. */
async function failAt({ puppet, store }: GuardStage, kind: "get" | "commit"): Promise<void> {
  const operation = kind === "get" ? store.get([]) : store.commit([], []);
  puppet.fail(new TypeError("broken"));
  await assertRejects(() => operation, StoreUnavailableError, "Cannot use the store: broken");
}

Deno.test("withCircuitBreaker() passes on what the store does", async () => {
  const store = withCircuitBreaker(memoryStore(), { clock: new FakeClock() });
  const version = await store.commit([{ key: ["f", "a"], version: null }], [{ key: ["f", "a"], value: 1 }]);
  assert(version !== undefined);
  const entry = { key: ["f", "a"], value: 1, version };
  assertEquals(await store.get<number>(["f", "a"]), entry);
  assertEquals(await store.list<number>(["f"]), [entry]);
  assertEquals(await store.list(["f"], { from: "b" }), []);
  assertEquals(await store.commit([{ key: ["f", "a"], version: null }], []), undefined);
  const { promise, resolve } = Promise.withResolvers<void>();
  const stop = store.watch(["f", "a"], resolve);
  await store.commit([], [{ key: ["f", "a"] }]);
  await promise;
  stop();
  store.close();
  assertStrictEquals(store.isAvailable, true);
});

Deno.test("withCircuitBreaker() closes the store it guards", () => {
  const { puppet, store } = stage();
  store.close();
  assertEquals(puppet.asked, ["close"]);
});

Deno.test("withCircuitBreaker() leaves no timer behind when the store answers", async () => {
  const { clock, puppet, store } = stage();
  const operation = store.get([]);
  assertEquals(clock.waiting, 1);
  puppet.answer();
  await operation;
  await clock.tick(0);
  assertEquals(clock.waiting, 0);
});

for (
  const [name, ask] of Object.entries<(store: Store) => Promise<unknown>>({
    get: (store) => store.get([]),
    list: (store) => store.list([]),
    commit: (store) => store.commit([], []),
  })
) {
  Deno.test(`withCircuitBreaker() gives up on ${name}() after 5 s, and not before`, async () => {
    const { clock, store, changes } = stage();
    const operation = assertRejects(() => ask(store), StoreUnavailableError, LATE);
    await clock.tick(4_999);
    assertEquals([store.isAvailable, changes], [true, []]);
    await clock.tick(1);
    assertEquals([store.isAvailable, changes], [false, [LATE]]);
    await operation;
  });
}

Deno.test("withCircuitBreaker() takes other times, too", async () => {
  const clock = new FakeClock();
  const puppet = new PuppetStore();
  const store = withCircuitBreaker(puppet, { clock, timeoutMs: 20, pauseMs: 7 });
  const operation = assertRejects(() => store.get([]), StoreUnavailableError, "no answer within 20 ms");
  await clock.tick(20);
  await operation;
  await clock.tick(6);
  await assertRejects(() => store.get([]), StoreUnavailableError, FAILED);
  await clock.tick(1);
  const probe = store.get([]);
  puppet.answer("late");
  puppet.answer();
  assertEquals(await probe, undefined);
});

Deno.test("withCircuitBreaker() swallows what a store says after its time, good or bad", async () => {
  const stages = [stage(), stage()];
  for (const { clock, store } of stages) {
    const operation = assertRejects(() => store.get([]), StoreUnavailableError, LATE);
    await clock.tick(5_000);
    await operation;
  }
  stages[0]?.puppet.fail(new TypeError("late")); // nobody listens any more: unhandled, it would end this test
  stages[1]?.puppet.answer("late");
  for (const { clock, store, changes } of stages) {
    await clock.tick(0);
    assertEquals([store.isAvailable, changes], [false, [LATE]]);
  }
});

Deno.test("withCircuitBreaker() keeps a StoreUnavailableError and gives any other error as the cause", async () => {
  const own = new StoreUnavailableError("Cannot commit");
  const first = stage();
  const kept = first.store.get([]);
  first.puppet.fail(own);
  assertStrictEquals(await assertRejects(() => kept), own);

  const cause = new TypeError("database or disk is full");
  const second = stage();
  const wrapped = second.store.commit([], []);
  second.puppet.fail(cause);
  const error = await assertRejects(() => wrapped, StoreUnavailableError);
  assertEquals([error.message, error.cause], ["Cannot use the store: database or disk is full", cause]);

  const third = stage();
  const odd = third.store.get([]);
  third.puppet.fail("just text");
  await assertRejects(() => odd, StoreUnavailableError, "Cannot use the store: just text");
});

Deno.test("withCircuitBreaker() treats a store that throws like one that rejects", async () => {
  const throwing: Store = {
    ...memoryStore(),
    get: () => {
      throw new TypeError("closed");
    },
  };
  const store = withCircuitBreaker(throwing, { clock: new FakeClock() });
  await assertRejects(() => store.get([]), StoreUnavailableError, "Cannot use the store: closed");
  assertEquals(store.isAvailable, false);
});

Deno.test("withCircuitBreaker() leaves a store alone for 1 s that has failed", async () => {
  const set = stage();
  await failAt(set, "get");
  await set.clock.tick(999);
  for (const ask of [() => set.store.get([]), () => set.store.list([])]) {
    await assertRejects(ask, StoreUnavailableError, FAILED);
  }
  assertEquals(set.puppet.asked, ["get"]);
});

Deno.test("withCircuitBreaker() sends one to see whether the store works again, and refuses the others meanwhile", async () => {
  const set = stage();
  const { clock, puppet, store, changes } = set;
  await failAt(set, "get");
  await clock.tick(1_000);
  const probe = store.get([]);
  await assertRejects(() => store.get([]), StoreUnavailableError, FAILED);
  await clock.tick(4_999);
  await assertRejects(() => store.list([]), StoreUnavailableError, FAILED);
  assertEquals(puppet.asked, ["get", "get"]);
  puppet.answer();
  assertEquals(await probe, undefined);
  assertEquals([store.isAvailable, changes], [true, ["Cannot use the store: broken", "up"]]);
});

Deno.test("withCircuitBreaker() asks all at once again when the one that was sent has come back", async () => {
  const set = stage();
  const { clock, puppet, store } = set;
  await failAt(set, "get");
  await clock.tick(1_000);
  const probe = store.get([]);
  puppet.answer();
  await probe;
  const both = [store.get([]), store.list([])];
  puppet.answer();
  puppet.answer([]);
  assertEquals(await Promise.all(both), [undefined, []]);
});

Deno.test("withCircuitBreaker() waits another second when the one that was sent fails, and tells nobody twice", async () => {
  const set = stage();
  const { clock, puppet, store, changes } = set;
  await failAt(set, "get");
  await clock.tick(1_000);
  await failAt(set, "get");
  await clock.tick(999);
  await assertRejects(() => store.get([]), StoreUnavailableError, FAILED);
  await clock.tick(1);
  const probe = store.get([]);
  puppet.answer();
  await probe;
  assertEquals(changes, ["Cannot use the store: broken", "up"]);
});

Deno.test("withCircuitBreaker() sends the next one when the one that was sent got no answer", async () => {
  const set = stage();
  const { clock, puppet, store } = set;
  await failAt(set, "get");
  await clock.tick(1_000);
  const probe = assertRejects(() => store.get([]), StoreUnavailableError, LATE);
  await clock.tick(5_000);
  await probe;
  await assertRejects(() => store.get([]), StoreUnavailableError, FAILED);
  await clock.tick(1_000);
  const next = store.get([]);
  puppet.fail(new Error("the first one's answer, late"));
  puppet.answer("the second one's");
  assertEquals(await next as unknown, "the second one's");
  assertEquals(store.isAvailable, true);
});

Deno.test("withCircuitBreaker() goes on reading from a store that cannot write", async () => {
  const set = stage();
  const { puppet, store } = set;
  await failAt(set, "commit");
  await assertRejects(() => store.commit([], []), StoreUnavailableError, FAILED);
  const reading = store.get([]);
  puppet.answer();
  assertEquals(await reading, undefined);
  assertEquals(store.isAvailable, false);
});

Deno.test("withCircuitBreaker() goes on writing to a store that cannot read", async () => {
  const set = stage();
  const { puppet, store } = set;
  await failAt(set, "get");
  const writing = store.commit([], []);
  puppet.answer("1");
  assertEquals(await writing, "1");
  assertEquals(store.isAvailable, false);
});

Deno.test("withCircuitBreaker() tells of a failure once, and of the recovery when both reading and writing work", async () => {
  const set = stage();
  const { clock, puppet, store, changes } = set;
  await failAt(set, "commit");
  await failAt(set, "get");
  assertEquals(changes, ["Cannot use the store: broken"]);
  await clock.tick(1_000);
  const reading = store.get([]);
  puppet.answer();
  await reading;
  assertEquals([store.isAvailable, changes], [false, ["Cannot use the store: broken"]]);
  const writing = store.commit([], []);
  puppet.answer("1");
  await writing;
  assertEquals([store.isAvailable, changes], [true, ["Cannot use the store: broken", "up"]]);
});

Deno.test("withCircuitBreaker() tells once of many that fail together", async () => {
  const { puppet, store, changes } = stage();
  const all = Array.from({ length: 5 }, () => assertRejects(() => store.get([]), StoreUnavailableError));
  for (let count = 0; count < 5; count++) puppet.fail(new Error("broken"));
  await Promise.all(all);
  assertEquals(changes, ["Cannot use the store: broken"]);
});

Deno.test("withCircuitBreaker() does not take a conflict for a failure", async () => {
  const { puppet, store, changes } = stage();
  const conflict = store.commit([], []);
  puppet.answer(undefined);
  assertEquals(await conflict, undefined);
  assertEquals([store.isAvailable, changes], [true, []]);
});

Deno.test("probe() asks a store that works nothing", async () => {
  const { puppet, store } = stage();
  await store.probe();
  assertEquals(puppet.asked, []);
});

Deno.test("probe() finds out by itself that reading and writing work again, or do not", async () => {
  const set = stage();
  const { clock, puppet, store, changes } = set;
  await failAt(set, "get");
  await failAt(set, "commit");
  await store.probe(); // too early: it is left alone
  assertEquals([store.isAvailable, puppet.asked], [false, ["get", "commit"]]);
  await clock.tick(1_000);
  const first = store.probe();
  puppet.answer();
  puppet.fail(new TypeError("broken"));
  await first;
  assertEquals([store.isAvailable, changes], [false, ["Cannot use the store: broken"]]);
  await clock.tick(1_000);
  const second = store.probe();
  puppet.answer("1");
  await second;
  assertEquals([store.isAvailable, changes], [true, ["Cannot use the store: broken", "up"]]);
  assertEquals(puppet.asked, ["get", "commit", "get", "commit", "commit"]);
});

Deno.test("withCircuitBreaker() does not leave a store alone for longer when the clock is set back", async () => {
  const clock = new FakeClock();
  let isBroken = true;
  const inner = memoryStore();
  const get: Store["get"] = (key) => isBroken ? Promise.reject(new Error("away")) : inner.get(key);
  const store = withCircuitBreaker({
    get,
    list: inner.list.bind(inner),
    commit: inner.commit.bind(inner),
    watch: () => () => {},
    close() {},
  }, { clock });
  await assertRejects(() => store.get(["a"]), StoreUnavailableError);
  isBroken = false;
  clock.jump(-3_600_000);
  assertEquals(await store.get(["a"]), undefined);
  assertEquals(store.isAvailable, true);
});
