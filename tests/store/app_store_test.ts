import { assert, assertEquals, assertThrows } from "@std/assert";
import { EventLog } from "../../src/changes/event_log.ts";
import { silentLog } from "../../src/observe/log.ts";
import {
  checkApp,
  storeOfApp,
  storeOfPort,
} from "../../src/store/app_store.ts";
import { kvStore } from "../../src/store/kv.ts";
import { memoryStore } from "../../src/store/memory.ts";
import { openStore } from "../../src/store/open.ts";
import type { Store } from "../../src/store/store.ts";
import { FakeClock } from "../../tools/fake_clock.ts";
import { findPostgres, PostgresServer } from "../../tools/postgres.ts";
import { FAST, MISSING } from "../_postgres.ts";

/** Every part that a store can have, the one of an app without a name first. */
function partsOf(store: Store): Store[] {
  return [
    store,
    storeOfApp(store, "a"),
    storeOfApp(store, "A"),
    storeOfApp(store, "a.b-c_1"),
    storeOfApp(store, "8080"),
    storeOfPort(store, 8080),
    storeOfPort(store, 80),
  ];
}

/** Writes the same keys in each part, and expects each to have its own values, checks and hints. */
async function checkParts(store: Store): Promise<void> {
  const parts = partsOf(store);
  for (const [index, part] of parts.entries()) {
    const check = { key: ["head"], version: null };
    const writes = ["head", "x", "y"].map((name) => ({
      key: name === "head" ? [name] : ["event", name],
      value: `${name} ${index}`,
    }));
    assertEquals(typeof await part.commit([check], writes), "string");
  }
  for (const [index, part] of parts.entries()) {
    const head = await part.get<string>(["head"]);
    assertEquals([head?.key, head?.value], [["head"], `head ${index}`]);
    const listed = await part.list<string>(["event"]);
    assertEquals(listed.map(({ key, value }) => [key, value]), [
      [["event", "x"], `x ${index}`],
      [["event", "y"], `y ${index}`],
    ]);
    const many = await part.getMany(listed.map(({ key }) => key));
    assertEquals<unknown>(many, listed);
  }
}

/** Expects hints of a part for writes to it, and none of another. */
async function checkHints(store: Store): Promise<void> {
  const [own, other] = [storeOfApp(store, "a"), storeOfApp(store, "b")];
  const hints = { own: 0, other: 0 };
  const stops = [
    own.watch(["head"], () => hints.own++),
    other.watch(["head"], () => hints.other++),
  ];
  for (let round = 1; round <= 10; round++) {
    while (hints.own < round) { // it may not listen yet
      await own.commit([], [{ key: ["head"], value: round }]);
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  }
  assert(hints.other < 5, `${hints.other} hints`); // none but when it begins to listen
  for (const stop of stops) stop();
}

async function check(store: Store): Promise<void> {
  try {
    await checkParts(store);
    await checkHints(store);
  } finally {
    store.close();
  }
}

const RULE = "has a part for each app and port, and none sees another's";

Deno.test(`memoryStore() ${RULE}`, () => check(memoryStore()));

Deno.test(`kvStore() ${RULE}`, async () => {
  await check(kvStore(await Deno.openKv(":memory:")));
});

const bin = await findPostgres();

Deno.test({
  name: bin === undefined
    ? `without ${MISSING}: openPostgresStore() ${RULE}`
    : `openPostgresStore() ${RULE}`,
  ignore: bin === undefined,
  async fn() {
    if (bin === undefined) return;
    await using server = await PostgresServer.create(bin, FAST);
    await check(await openStore(server.url(), silentLog));
  },
});

Deno.test("storeOfApp() leaves the keys of an app without a name as they are", async () => {
  const store = memoryStore();
  assertEquals(storeOfApp(store, undefined), store);
  await storeOfApp(store, "shop").commit([], [{ key: ["f", 1], value: 1 }]);
  assertEquals(await store.list(["f"]), []);
  assertEquals((await store.list(["shop/f"])).map(({ key }) => key), [
    ["shop/f", 1],
  ]);
});

Deno.test("a commit of as many changes as fit has room for the longest name of an app", async () => {
  const store = storeOfApp(
    kvStore(await Deno.openKv(":memory:")),
    "a".repeat(32),
  );
  const log = new EventLog(store, {
    clock: new FakeClock(),
    random: () => 0,
    keep: 1,
  });
  for (const value of ["1", "2"]) { // the second commit deletes old events as well
    const changes = Array.from({ length: 330 }, (_, index) => ({
      name: `${index}`.padEnd(70, "_"),
      value,
      leavesPublic: false,
    }));
    const options = { checks: [], afterId: 0, onCommit() {} };
    await log.append(changes, await log.state(), options);
  }
  assertEquals((await log.state()).events.size, 330);
  store.close();
});

Deno.test("checkApp() accepts names that separate an app from every other and from a port", () => {
  const names = [undefined, "a", "Shop-2.x_y", "8080", "a".repeat(32)];
  assertEquals(names.map(checkApp), names);
  for (
    const name of ["", "a/b", ":80", "-a", ".", "ä", "a b", "a".repeat(33)]
  ) {
    assertThrows(
      () => checkApp(name),
      RangeError,
      "Cannot use app: expected 1 to 32 letters, digits, . _ and -, of which the first is a letter or a digit, got ",
    );
  }
});
