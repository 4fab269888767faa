import { assertEquals, assertThrows } from "@std/assert";
import { EventLog } from "../../../src/core/changes/event_log.ts";
import {
  checkApp,
  storeOfApp,
  storeOfPort,
} from "../../../src/core/store/app_store.ts";
import { kvStore } from "../../../src/engines/kv.ts";
import { batches } from "../../../src/core/store/commits.ts";
import { memoryStore } from "../../../src/engines/memory.ts";
import type { Store } from "../../../src/core/store/store.ts";
import { FakeClock } from "../../../tools/fake_clock.ts";
import { delegate } from "../../_store.ts";

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

Deno.test("each app and port has a part of a store, with values and checks of its own", async () => {
  const parts = partsOf(memoryStore());
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
});

Deno.test("storeOfApp() and storeOfPort() watch the keys of their own part only", () => {
  const watched: string[] = [];
  const store: Store = {
    ...delegate(memoryStore()),
    watch(key) {
      watched.push(String(key));
      return () => {};
    },
  };
  for (const part of partsOf(store)) part.watch(["head"], () => {});
  assertEquals(new Set(watched).size, partsOf(store).length);
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

for (const [length, fitting] of [[32, 239], [253, 65]] as const) {
  Deno.test(`a commit of as many changes as fit has room for an app's name of ${length} characters`, async () => {
    const store = storeOfApp(
      kvStore(await Deno.openKv(":memory:")),
      "a".repeat(length),
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
      const all = batches(changes, store.prefixBytes);
      assertEquals(all[0]?.length, fitting);
      for (const batch of all) {
        const state = await log.state();
        const options = { checks: [], afterId: 0, onCommit() {} };
        const appended = await log.append(batch, state, options);
        await log.compact(appended?.state ?? state);
      }
    }
    assertEquals((await log.state()).newest.size, 330);
    store.close();
  });
}

Deno.test("checkApp() accepts names that separate an app from every other and from a port", () => {
  const names = [
    undefined,
    "a",
    "Shop-2.x_y",
    "8080",
    "a".repeat(253),
    "[::1]",
  ];
  assertEquals(names.map(checkApp), names);
  for (
    const name of [
      "",
      "a/b",
      ":80",
      "-a",
      ".",
      "ä",
      "a b",
      "a".repeat(254),
      "[a/]",
    ]
  ) {
    assertThrows(
      () => checkApp(name),
      RangeError,
      "Cannot use app: expected a host, or 1 to 253 letters, digits, . _ and -, of which the first is a letter or a digit, got ",
    );
  }
});
