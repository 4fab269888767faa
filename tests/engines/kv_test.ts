import { DatabaseSync } from "node:sqlite";
import {
  assertAlmostEquals,
  assertEquals,
  assertLess,
  assertMatch,
  assertRejects,
} from "@std/assert";
import { kvStore } from "../../src/engines/kv.ts";
import {
  type Store,
  StoreUnavailableError,
} from "../../src/core/store/store.ts";
import { FakeClock, settle } from "../../tools/fake_clock.ts";
import { TempDirectory } from "../_temp.ts";

/** Replaces one method of an object. */
function withMethod<T extends object>(
  target: T,
  replaced: string,
  method: (...args: never[]) => unknown,
) {
  return new Proxy(target, {
    get(_, name) {
      if (name === replaced) return method;
      const value = Reflect.get(target, name);
      return value instanceof Function ? value.bind(target) : value;
    },
  });
}

/** A store whose commits are rejected with an error. */
function failingStore(
  kv: Deno.Kv,
  error: () => Error | undefined,
  clock = new FakeClock(),
): Store {
  const atomic = () => {
    const failure = error();
    if (failure === undefined) return kv.atomic();
    return withMethod(kv.atomic(), "commit", () => Promise.reject(failure));
  };
  return kvStore(withMethod(kv, "atomic", atomic), { clock });
}

const WRITES = [{ key: ["a"], value: 1 }];
const LOCKED =
  "Cannot use the store: another process keeps the database locked; end its transaction, or the process";

Deno.test("kvStore() commits as soon as a locked database is free", async () => {
  using kv = await Deno.openKv(":memory:");
  const clock = new FakeClock();
  let attempts = 0;
  const locked = () =>
    attempts++ < 50 ? new TypeError("database is locked") : undefined;
  const store = failingStore(kv, locked, clock);
  const committed = store.commit([{ key: ["a"], version: null }], WRITES);
  assertMatch(String(await clock.tickUntil(committed, 100)), /^\w+$/);
  assertEquals((await store.get(["a"]))?.value, 1);
});

Deno.test("kvStore() fails if a database is locked for over 2 s, and tries again at the next commit", async () => {
  using kv = await Deno.openKv(":memory:");
  const clock = new FakeClock();
  let isLocked = true;
  const locked = () =>
    isLocked ? new TypeError("database is locked") : undefined;
  const store = failingStore(kv, locked, clock);
  const startedAt = clock.now();
  const commit = assertRejects(
    () => store.commit([], WRITES),
    StoreUnavailableError,
    LOCKED,
  );
  await clock.tickUntil(commit, 50);
  assertAlmostEquals(clock.now() - startedAt, 2_000, 100);
  const next = store.commit([], WRITES);
  await clock.tick(0);
  assertEquals(clock.waiting, 1); // it is tried again
  isLocked = false;
  await clock.tickUntil(next, 1);
});

Deno.test("a commit without checks does not keep other operations waiting while another program has locked the file", async () => {
  await using directory = await TempDirectory.make();
  const path = directory.at("kv.sqlite3");
  const store = kvStore(await Deno.openKv(path));
  await store.commit([], WRITES);
  using program = new DatabaseSync(path);
  program.exec("BEGIN EXCLUSIVE");
  const startedAt = performance.now();
  const commit = store.commit([], WRITES);
  assertEquals((await store.get(["a"]))?.value, 1);
  assertLess(performance.now() - startedAt, 4_000); // SQLite itself waits 5 s
  program.exec("ROLLBACK");
  await commit;
  store.close();
});

Deno.test("kvStore() rethrows any other error", async () => {
  using kv = await Deno.openKv(":memory:");
  for (
    const error of [
      new TypeError("disk I/O error"),
      new TypeError("database or disk is full"),
      new Error("database is locked"), // not what Deno throws
      new Deno.errors.BadResource("Bad resource ID"),
    ]
  ) {
    const store = failingStore(kv, () => error);
    const commit = () => store.commit([], WRITES);
    assertEquals(await assertRejects(commit), error);
  }
});

Deno.test("kvStore() prefixes all keys, so that it can share a database", async () => {
  using kv = await Deno.openKv(":memory:");
  await kv.set(["event", 1], "of the application");
  const store = kvStore(kv);
  assertEquals(await store.get(["event", 1]), undefined);
  await store.commit([], [{ key: ["event", 1], value: "ours" }]);
  const entries = await Array.fromAsync(kv.list({ prefix: [] }));
  assertEquals(entries.map(({ key }) => key), [["event", 1], [
    "rep",
    "event",
    1,
  ]]);
  assertEquals((await kv.get(["event", 1])).value, "of the application");
});

Deno.test("kvStore() closes its database", async () => {
  const kv = await Deno.openKv(":memory:");
  kvStore(kv).close();
  await assertRejects(() => kv.get(["a"]));
});

Deno.test("kvStore() calls nobody who stops a watch at the moment at which it reads", async () => {
  using kv = await Deno.openKv(":memory:");
  let write = () => {};
  const watch = () =>
    new ReadableStream({
      start: (controller) => void (write = () => controller.enqueue([])),
    });
  let hints = 0;
  const stop = kvStore(withMethod(kv, "watch", watch))
    .watch(["a"], () => hints++);
  await settle();
  write(); // to a reader that waits
  stop();
  await settle();
  assertEquals(hints, 0);
});

Deno.test("kvStore() ignores an error of a watch", async () => {
  using kv = await Deno.openKv(":memory:");
  const watch = () => ReadableStream.from(oneThenError());
  const broken = withMethod(kv, "watch", watch);
  const clock = new FakeClock();
  let hints = 0;
  const stop = kvStore(broken).watch(["a"], () => hints++);
  await clock.tick(0);
  stop();
  assertEquals(hints, 1);
});

async function* oneThenError() {
  yield await Promise.resolve([]);
  throw new TypeError("The server denies access");
}
