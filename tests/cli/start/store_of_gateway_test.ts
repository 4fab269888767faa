import { assertEquals } from "@std/assert";
import {
  sharesDefaultDatabase,
  storeOfGateway,
  type StoreOptions,
} from "../../../src/cli/options/read_start.ts";
import { memoryStore } from "../../../src/store/memory.ts";

const NONE: StoreOptions = { kv: undefined, app: undefined, port: 8080 };

/** Options, where a gateway with them keeps its entries, and whether others of the machine are there, too. */
const CASES: readonly (readonly [Partial<StoreOptions>, string, boolean])[] = [
  [{}, ":8080/head", false],
  [{ port: 80 }, ":80/head", false],
  [{ port: 0 }, "head", true],
  [{ app: "shop" }, "head", false],
  [{ app: "shop", port: 0 }, "head", false],
  [{ kv: "kv.sqlite3" }, "head", false],
  [{ kv: "kv.sqlite3", port: 0 }, "head", false],
];

for (const [options, expected, isShared] of CASES) {
  Deno.test(`with ${JSON.stringify(options)}, the entries of a gateway begin with ${expected}`, async () => {
    const database = memoryStore();
    const all = { ...NONE, ...options };
    const store = storeOfGateway(database, all);
    await store.commit([], [{ key: ["head"], value: 1 }]);
    const keys = (await database.list([])).map(({ key }) => key);
    assertEquals(keys, [[expected]]);
    assertEquals(sharesDefaultDatabase(all), isShared);
  });
}

Deno.test("on Deno Deploy, the default database is the application's own", () => {
  Deno.env.set("DENO_DEPLOY", "true");
  try {
    const database = memoryStore();
    assertEquals(storeOfGateway(database, NONE), database);
    assertEquals(sharesDefaultDatabase({ ...NONE, port: 0 }), false);
  } finally {
    Deno.env.delete("DENO_DEPLOY");
  }
});
