/** What gateways notice about others on their store: that they are of another app, or have another master key or clock. */
import { assertEquals, assertMatch, assertNotEquals } from "@std/assert";
import { STATES, type StoredState } from "../src/core/changes/event_log.ts";
import { sampleNames } from "../src/core/rollout/strangers.ts";
import type { Store } from "../src/core/store/store.ts";
import type { Clock } from "../src/core/values/clock.ts";
import { fromUtf8 } from "../src/core/values/utf8.ts";
import { pageOf, pageValues, shareStore } from "./_replicas.ts";
import type { TestGateway } from "./_gateway.ts";
import { readStatus } from "./_status.ts";

const MINUTE = 60_000;
const SHOP = { REP_PUBLIC_CART: "1", REP_PUBLIC_CURRENCY: "EUR" };
const BLOG = { REP_PUBLIC_POSTS: "10" };

/** Returns the published values. */
async function publishedIn(store: Store): Promise<Record<string, string>> {
  const entries = await store.list<StoredState>(STATES);
  const present = entries.filter(({ value }) => value.value !== undefined);
  const values = present.map(({ value: { name, value } }) =>
    [name, fromUtf8(value!)] as const
  );
  return Object.fromEntries(values);
}

async function problemsOf(gate: TestGateway): Promise<unknown> {
  const health = await (await gate.ask("/rep/health")).json();
  return health.problems ?? health.status;
}

/** Returns the problems, with the times at which they began. */
async function sinceOf(gate: TestGateway): Promise<unknown> {
  return (await (await gate.ask("/rep/health")).json()).problems_since;
}

function errorsOf({ lines }: TestGateway): unknown[] {
  return lines.filter(({ level }) => level === "ERROR").map(({ msg }) => msg);
}

Deno.test("of two apps without names on one store, the first goes on, the second stands apart, and after ten minutes both say so", async () => {
  await using shared = await shareStore();
  await using shop = await shared.start(SHOP, { instanceId: "a:1" });
  await using blog = await shared.start(BLOG, { instanceId: "b:1" });
  await shared.clock.tick(10 * MINUTE);
  for (const gate of [shop, blog]) {
    assertEquals([await problemsOf(gate), errorsOf(gate)], ["healthy", []]);
  }
  assertEquals(
    [shop, blog].map((gate) => gate.logged("rep.rollout.apart").length),
    [0, 1],
  );
  assertEquals(blog.logged("rep.rollout.apart")[0]?.place, "a:1");
  await shared.clock.tick(10_000);
  for (const [gate, place] of [[shop, "b:1"], [blog, "a:1"]] as const) {
    assertEquals(await problemsOf(gate), ["other_app"]);
    assertEquals(errorsOf(gate), ["rep.rollout.other_app"]);
    const detail =
      `the gateway at ${place} has the same store and no PUBLIC variable in common with this one: only the app that ` +
      "came first publishes; give each app a name (--app; in the module, app), or a store of its own";
    assertEquals((await readStatus(gate)).conflicts, [detail]);
    const line = gate.logged("rep.rollout.other_app")[0];
    assertEquals(line?.detail, detail);
  }
  const open = await shop.listen();
  await open.pull();
  await shop.set({ ...SHOP, REP_PUBLIC_CART: "2" });
  await blog.set({ ...BLOG, REP_PUBLIC_POSTS: "20" });
  await shared.clock.tick(30_000);
  assertEquals([await pageValues(shop), await pageValues(blog)], [
    { CART: "2", CURRENCY: "EUR" },
    { POSTS: "20" },
  ]);
  assertEquals(await open.takeChanges(1), [["CART", "2"]]);
  assertEquals(open.arrived(), []);
  await open.close();
  const text = await (await blog.ask("/rep/changes")).text();
  const reason = "the store may have the values of another app";
  assertEquals(text.includes(reason), true);
});

Deno.test("a restart of the first app does not hand the store to the second, which gets it a minute after the first has stopped", async () => {
  await using shared = await shareStore();
  const shop = await shared.start(SHOP);
  await using blog = await shared.start(BLOG);
  await shared.clock.tick(20_000);
  await shop.gateway.close();
  await shared.clock.tick(8_000);
  const restarted = await shared.start(SHOP);
  await shared.clock.tick(MINUTE);
  await restarted.set({ ...SHOP, REP_PUBLIC_CART: "2" });
  assertEquals(await publishedIn(shared.store), { CART: "2", CURRENCY: "EUR" });
  assertEquals(blog.logged("rep.config.changed"), []);
  await restarted.gateway.close();
  await shared.clock.tick(50_000);
  assertEquals(blog.logged("rep.config.changed"), []);
  const stream = await blog.listen();
  await stream.pull();
  for (let passed = 0; passed < 40_000; passed += 5_000) {
    await shared.clock.tick(5_000);
  }
  assertEquals(await publishedIn(shared.store), { POSTS: "10" });
  await using late = await shared.start(SHOP);
  await shared.clock.tick(10_000);
  assertEquals(late.logged("rep.rollout.apart").length, 1);
  assertEquals(await publishedIn(shared.store), { POSTS: "10" });
  await stream.close();
});

for (const isReload of [true, false]) {
  const how = isReload ? "by a reload" : "at the moment at which it joins";
  Deno.test(`pages of a process that stood apart lose what is removed ${how}`, async () => {
    await using shared = await shareStore();
    const shop = await shared.start(SHOP);
    let variables: Record<string, string> = { ...BLOG, REP_PUBLIC_DRAFTS: "1" };
    await using blog = await shared.start(variables, {
      variables: () => variables,
    });
    assertEquals(await pageValues(blog), { POSTS: "10", DRAFTS: "1" });
    variables = BLOG;
    if (isReload) await blog.gateway.reload();
    await shop.gateway.close();
    for (let passed = 0; passed < 90_000; passed += 5_000) {
      await shared.clock.tick(5_000);
    }
    assertEquals(await publishedIn(shared.store), { POSTS: "10" });
    const deletions = blog.logged("rep.config.changed")
      .filter(({ action }) => action === "delete");
    assertEquals(deletions.map(({ key }) => key).sort(), [
      "CART",
      "CURRENCY",
      "DRAFTS",
    ]);
  });
}

/** Writes the entry of a gateway of ebbde15d, which is a member although it stands apart, and its next heartbeats. */
async function beatOf(
  { store, clock }: Awaited<ReturnType<typeof shareStore>>,
  names: string[],
  rank: number,
) {
  const member = {
    hash: `sha256-${names}`,
    rank,
    heartbeatAt: clock.now(),
    names: sampleNames(names),
    newestWrite: 0,
  };
  const highest = await store.get<number>(["rollout"]);
  await store.commit([], [
    { key: ["member", "~older"], value: member },
    { key: ["rollout"], value: Math.max(rank, highest?.value ?? 0) },
  ]);
}

Deno.test("if both apps are members, the one with the higher rank leaves, whichever looks first", async () => {
  for (const rank of [1, 9]) {
    await using shared = await shareStore();
    const pause = async () => {
      for (let beats = 0; beats < 3; beats++) {
        await beatOf(shared, ["POSTS"], rank);
        await shared.clock.tick(5_000);
      }
    };
    if (rank === 1) {
      await shared.store.commit([], [{ key: ["rollout"], value: 1 }]);
    }
    await using shop = await shared.start(SHOP); // gets the rank 1, or 2
    await pause();
    const isApart = shop.logged("rep.rollout.apart").length === 1;
    assertEquals(isApart, rank === 1);
    await shop.set({ ...SHOP, REP_PUBLIC_CART: "2" });
    const { CART } = await publishedIn(shared.store);
    assertEquals(CART, isApart ? "1" : "2");
    assertEquals(await pageValues(shop), { CART: "2", CURRENCY: "EUR" });
    const members = await shared.store.list(["member"]);
    assertEquals(members.length, isApart ? 1 : 2);
  }
});

Deno.test("a single process that renames all its variables and restarts at its place is no other app", async () => {
  await using shared = await shareStore();
  const before = await shared.start(SHOP, { instanceId: "a:1" });
  await before.gateway.close();
  await using after = await shared.start(BLOG, { instanceId: "a:1" });
  assertEquals(after.logged("rep.rollout.apart"), []);
  assertEquals(await publishedIn(shared.store), { POSTS: "10" });
});

Deno.test("replicas of both apps agree, and when one app has left, the other goes on normally", async () => {
  await using shared = await shareStore();
  await using shop1 = await shared.start(SHOP);
  await using shop2 = await shared.start(SHOP);
  const blogs = [await shared.start(BLOG), await shared.start(BLOG)];
  await shared.clock.tick(11 * MINUTE);
  for (const gate of [shop1, shop2, ...blogs]) {
    assertEquals(await problemsOf(gate), ["other_app"]);
  }
  for (const blog of blogs) {
    assertEquals(await pageValues(blog), { POSTS: "10" });
    await blog.gateway.close();
  }
  await shared.clock.tick(6_000);
  for (const gate of [shop1, shop2]) {
    assertEquals(await problemsOf(gate), "healthy");
    const { msg, type } = gate.logged("rep.rollout.conflict_ended")[0] ?? {};
    assertEquals([msg, type], ["rep.rollout.conflict_ended", "other_app"]);
  }
  const stream = await shop2.listen();
  const NEXT = { ...SHOP, REP_PUBLIC_CART: "2" };
  const reloads = Promise.all([shop1.set(NEXT), shop2.set(NEXT)]);
  await shared.clock.tickUntil(reloads, 1_000); // their commits may conflict, and are repeated after a pause
  assertEquals(await stream.takeChanges(1), [["CART", "2"]]);
  await stream.close();
});

Deno.test("an app that restarts again and again is noticed all the same, and its pages never get the values of the other", async () => {
  await using shared = await shareStore();
  await using shop = await shared.start(SHOP);
  for (let restart = 0; restart < 8; restart++) {
    await using blog = await shared.start(BLOG);
    assertEquals(await pageValues(blog), { POSTS: "10" });
    await shared.clock.tick(90_000);
    assertEquals([await pageValues(blog), await pageValues(shop)], [
      { POSTS: "10" },
      { CART: "1", CURRENCY: "EUR" },
    ]);
    await blog.gateway.close();
    await shared.clock.tick(15_000);
  }
  await using _blog = await shared.start(BLOG);
  await shared.clock.tick(5_000);
  assertEquals(await problemsOf(shop), ["other_app"]);
});

/** Deployments that follow each other as old and new ones. */
const ROLLOUTS: Readonly<
  Record<string, readonly [Record<string, string>, Record<string, string>]>
> = {
  "with common names": [SHOP, { REP_PUBLIC_CART: "2", REP_PUBLIC_NEW: "1" }],
  "that renames the only variable": [
    { REP_PUBLIC_API: "https://api.example" },
    { REP_PUBLIC_API_URL: "https://api.example" },
  ],
  "that adds the first variable": [{ REP_SENSITIVE_KEY: "k" }, SHOP],
  "that removes the last variable": [SHOP, { REP_SENSITIVE_KEY: "k" }],
};

for (const [name, [before, after]] of Object.entries(ROLLOUTS)) {
  Deno.test(`a rollout ${name} is quiet, and publishes the new values`, async () => {
    await using shared = await shareStore();
    const old = [await shared.start(before), await shared.start(before)];
    await shared.clock.tick(MINUTE);
    await using first = await shared.start(after);
    await shared.clock.tick(3 * MINUTE);
    await old[0]?.gateway.close();
    await using second = await shared.start(after);
    await shared.clock.tick(3 * MINUTE);
    await old[1]?.gateway.close();
    await shared.clock.tick(20 * MINUTE);
    for (const gate of [...old, first, second]) {
      assertEquals(errorsOf(gate), []);
    }
    assertEquals([await problemsOf(first), await problemsOf(second)], [
      "healthy",
      "healthy",
    ]);
    const state = await shared.store.list<{ value?: string }>(["state"]);
    const published = state.filter(({ value }) => value.value !== undefined);
    assertEquals(
      new Set(published.map(({ key }) => `REP_PUBLIC_${key[1]}`)),
      new Set(Object.keys(after).filter((it) => it.startsWith("REP_PUBLIC_"))),
    );
  });
}

Deno.test("gateways with SENSITIVE variables only are quiet, whatever their names are", async () => {
  await using shared = await shareStore();
  await using first = await shared.start({ REP_SENSITIVE_A: "1" });
  await using second = await shared.start({ REP_SENSITIVE_B: "2" });
  await using third = await shared.start(SHOP);
  await shared.clock.tick(60 * MINUTE);
  for (const gate of [first, second, third]) {
    assertEquals([await problemsOf(gate), errorsOf(gate)], ["healthy", []]);
  }
});

Deno.test("a variable in the store, which both apps have, does not make them one", async () => {
  await using shared = await shareStore();
  await using shop = await shared.start(SHOP);
  const { setStoredVariables } = await import(
    "../src/stored/set_stored_variables.ts"
  );
  await setStoredVariables(shared.store, { BANNER: "x" }, {
    environment: {},
    clock: shared.clock,
    random: () => 0,
  });
  await using blog = await shared.start(BLOG);
  await shared.clock.tick(11 * MINUTE);
  assertEquals([await problemsOf(shop), await problemsOf(blog)], [
    ["other_app"],
    ["other_app"],
  ]);
});

// ---- the master key

const SECRET = { ...SHOP, REP_SENSITIVE_KEY: "k" };
const KEYS = [1, 2].map((byte) => new Uint8Array(32).fill(byte));

async function askForKey(gate: TestGateway, page: TestGateway) {
  const { _meta } = await pageOf(page);
  const response = await gate.ask(_meta.key_endpoint ?? "", {
    headers: { origin: "http://gateway.test" },
  });
  const { detail } = await response.json();
  return [response.status, detail];
}

function rejectionsOf({ lines }: TestGateway): unknown[] {
  return lines.filter(({ msg }) => msg === "rep.session_key.rejected")
    .map(({ reason }) => reason);
}

for (
  const [what, masterKey] of [["another", KEYS[1]], ["no", undefined]] as const
) {
  Deno.test(`a replica with ${what} master key is a problem of both, and its pages are not told to reload`, async () => {
    await using shared = await shareStore();
    const places = [{ instanceId: "a:1" }, { instanceId: "b:1" }];
    await using first = await shared.start(SECRET, {
      ...places[0],
      masterKey: KEYS[0],
    });
    await using second = await shared.start(SECRET, {
      ...places[1],
      masterKey,
    });
    await shared.clock.tick(10_000);
    for (const [gate, place] of [[first, "b:1"], [second, "a:1"]] as const) {
      assertEquals(await problemsOf(gate), ["other_master_key"]);
      assertEquals(errorsOf(gate), ["rep.rollout.other_master_key"]);
      assertEquals((await readStatus(gate)).conflicts, [
        `the gateway at ${place} has another master key, and neither can issue keys for the other's pages: expected the ` +
        "same master key for all replicas, or none for any",
      ]);
    }
    assertEquals(await askForKey(first, second), [
      503,
      "Cannot issue a session key: the page is from a gateway with another master key; a retry may reach that one",
    ]);
    assertEquals(rejectionsOf(first), ["other_master_key"]);
    const since = await sinceOf(first);
    assertEquals(since, { other_master_key: "2023-11-14T22:13:25.000Z" }); // the first heartbeat after 5 s
    await shared.clock.tick(MINUTE);
    assertEquals(await sinceOf(first), since);
    assertEquals((await askForKey(first, first))[0], 200);
  });
}

Deno.test("a page of a master key that no living replica has is 410, and has to be reloaded", async () => {
  await using shared = await shareStore();
  const before = await shared.start(SECRET, { masterKey: KEYS[0] });
  const { _meta } = await pageOf(before);
  await before.gateway.close();
  await using after = await shared.start(SECRET, { masterKey: KEYS[1] });
  await shared.clock.tick(10_000);
  const response = await after.ask(_meta.key_endpoint ?? "", {
    headers: { origin: "http://gateway.test" },
  });
  assertEquals([response.status, (await response.json()).detail], [
    410,
    "Cannot issue a session key: the page is from a gateway with another master key; reload it, and if that does not help, " +
    "its values and its keys come from two gateways, which need the same master key",
  ]);
  assertEquals(rejectionsOf(after), ["unknown_master_key"]);
  assertEquals(await problemsOf(after), "healthy");
});

Deno.test("different master keys are no problem without SENSITIVE variables, and between apps", async () => {
  await using shared = await shareStore();
  await using first = await shared.start(SHOP, { masterKey: KEYS[0] });
  await using second = await shared.start(SHOP, { masterKey: KEYS[1] });
  await using blog = await shared.start(
    { ...BLOG, REP_SENSITIVE_B: "b" },
    { masterKey: KEYS[1] },
  );
  await shared.clock.tick(MINUTE);
  for (const gate of [first, second, blog]) {
    assertEquals(await problemsOf(gate), "healthy");
  }
});

// ---- clocks

/** A clock that is off by this many milliseconds. */
function offBy(ms: number, clock: Clock): Clock {
  return {
    now: () => clock.now() + ms,
    monotonic: () => clock.monotonic(),
    after: (delay, callback, isBackground) =>
      clock.after(delay, callback, isBackground),
  };
}

for (
  const [direction, opposite, offMs] of [
    ["ahead of", "behind", 60 * MINUTE],
    ["behind", "ahead of", -60 * MINUTE],
  ] as const
) {
  Deno.test(`a clock that is an hour ${direction} the others is a problem that says so`, async () => {
    await using shared = await shareStore();
    const off = offBy(offMs, shared.clock);
    await using right = await shared.start(SECRET, { instanceId: "a:1" });
    await using wrong = await shared.start(SECRET, {
      instanceId: "b:1",
      clock: off,
    });
    await shared.clock.tick(15_000);
    const found = [];
    for (const gate of [right, wrong]) {
      assertEquals(await problemsOf(gate), ["clock_skew"]);
      assertEquals(errorsOf(gate), ["rep.rollout.clock_skew"]);
      const [detail = ""] = (await readStatus(gate)).conflicts;
      found.push(detail.replace(/\d{4} s/, "N s"));
    }
    const detail = (place: string, is: string) =>
      `the clock of the gateway at ${place} is at least N s ${is} this one's: expected at most 60 s; synchronize the ` +
      "clocks of both machines (NTP)";
    assertEquals(found, [detail("b:1", direction), detail("a:1", opposite)]);
    const [early, late] = offMs > 0 ? [right, wrong] : [wrong, right];
    assertEquals(await askForKey(early, late), [
      503,
      "Cannot issue a session key: the page is from a gateway whose clock differs; a retry may reach that one",
    ]);
    assertEquals(rejectionsOf(early), ["clock_skew"]);
  });
}

Deno.test("clocks that differ by less than a minute are no problem", async () => {
  await using shared = await shareStore();
  const starts = [-29_000, 0, 29_000].map((ms) =>
    shared.start(SECRET, { clock: offBy(ms, shared.clock) })
  );
  const gates = await shared.clock.tickUntil(Promise.all(starts), 100);
  await shared.clock.tick(5 * MINUTE);
  for (const gate of gates) {
    assertEquals([await problemsOf(gate), errorsOf(gate)], ["healthy", []]);
    await gate.gateway.close();
  }
});

Deno.test("a clock that was off is no problem any more once it is set", async () => {
  await using shared = await shareStore();
  let offMs = 10 * MINUTE;
  const clock: Clock = {
    ...offBy(0, shared.clock),
    now: () => shared.clock.now() + offMs,
  };
  await using right = await shared.start(SHOP);
  await using _wrong = await shared.start(SHOP, { clock });
  await shared.clock.tick(15_000);
  assertEquals(await problemsOf(right), ["clock_skew"]);
  const since = await sinceOf(right);
  await shared.clock.tick(MINUTE);
  assertEquals(await sinceOf(right), since);
  offMs = 0;
  await shared.clock.tick(20_000);
  assertEquals(await problemsOf(right), "healthy");
  offMs = 10 * MINUTE;
  await shared.clock.tick(MINUTE);
  assertNotEquals(await sinceOf(right), since);
  assertEquals(await problemsOf(right), ["clock_skew"]);
});

Deno.test("a process that stands apart is in no list of members, and is named even if nobody has said where it runs", async () => {
  await using shared = await shareStore();
  await using shop = await shared.start(SHOP);
  await using blog = await shared.start(BLOG);
  await shared.clock.tick(11 * MINUTE);
  const [shown, ...more] = (await readStatus(shop)).rollout;
  assertEquals([shown?.state, more], ["this process", []]);
  const seen = (await readStatus(blog)).rollout;
  assertEquals(seen.map(({ hash }) => hash), [shown?.hash]);
  const [conflict] = (await readStatus(shop)).conflicts;
  assertMatch(String(conflict), /^the gateway at [0-9a-f-]{36} has /);
});
