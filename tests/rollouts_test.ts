import { assertEquals } from "@std/assert";
import { EVENTS, toEvents } from "../src/core/changes/event_log.ts";
import { setStoredVariables } from "../src/stored/set_stored_variables.ts";
import type { Store } from "../src/core/store/store.ts";
import { settle } from "../tools/fake_clock.ts";
import type { TestGateway } from "./_gateway.ts";
import { pageValues, shareStore } from "./_replicas.ts";
import type { SseReader } from "./_sse.ts";
import { delegate, fallibleStore } from "./_store.ts";

/** The pages of all gateways have these values. */
async function assertPages(
  gates: TestGateway[],
  values: Record<string, string>,
) {
  for (const gate of gates) assertEquals(await pageValues(gate), values);
}

/** What the stream of a gateway has delivered, as `NAME=value`. */
async function received(reader: SseReader, count: number): Promise<string[]> {
  const messages = await reader.take(count);
  return messages.map(({ data }) => `${data.key}=${data.value}`);
}

Deno.test("while old and new replicas run side by side, pages and streams of both have the new configuration", async () => {
  await using replicas = await shareStore();
  await using old = await replicas.start({
    REP_PUBLIC_A: "old",
    REP_PUBLIC_GONE: "1",
  });
  const reader = await old.listen();
  await using next = await replicas.start({ REP_PUBLIC_A: "new" });
  await replicas.clock.tick(5_000);
  assertEquals(await received(reader, 2), ["A=new", "GONE=undefined"]);
  await assertPages([old, next], { A: "new" });
  await old.gateway.reload(); // and does not restore its own values
  await replicas.clock.tick(30_000);
  await assertPages([old, next], { A: "new" });
  await reader.close();
});

Deno.test("the stream of a page from an inactive replica delivers every change after that page", async () => {
  await using replicas = await shareStore();
  await using old = await replicas.start({ REP_PUBLIC_A: "old" });
  await using next = await replicas.start({ REP_PUBLIC_A: "new 1" });
  await replicas.clock.tick(5_000);
  const html = await (await old.ask("/")).text();
  const query = /last_event_id=\d+/.exec(html)?.[0] ?? "";
  await next.set({ REP_PUBLIC_A: "new 2" });
  await replicas.clock.tick(1_000);
  const reader = await old.listen({}, `?${query}`);
  assertEquals(await reader.takeValues(1), ["new 2"]);
  await reader.close();
});

Deno.test("a `set` during a rollout does not bring the old configuration back, whichever replica reads it last", async () => {
  for (const lastToRead of ["old", "new"]) {
    await using replicas = await shareStore();
    const { clock, store } = replicas;
    await using old = await replicas.start({ REP_PUBLIC_THEME: "light" }, {
      random: () => lastToRead === "old" ? 0.9 : 0,
    });
    await using next = await replicas.start({ REP_PUBLIC_THEME: "light" }, {
      random: () => lastToRead === "new" ? 0.9 : 0,
    });
    const reader = await old.listen({}, "?last_event_id=0");
    assertEquals(await received(reader, 1), ["THEME=light"]);
    await next.set({ REP_PUBLIC_THEME: "dark" });
    await clock.tick(8_000);
    await setStoredVariables(store, { TICK: "1" }, { clock });
    for (let seconds = 0; seconds < 10; seconds++) await clock.tick(1_000);
    await assertPages([old, next], { THEME: "dark", TICK: "1" });
    assertEquals(await received(reader, 2), ["THEME=dark", "TICK=1"]);
    await reader.close();
  }
});

/** Returns all events in the store, as `NAME=value`. */
async function storedEvents(store: Store): Promise<string[]> {
  const events = toEvents(await store.list(EVENTS));
  return events.map(({ name, value }) => `${name}=${value}`);
}

Deno.test("a replica that is slow to read a `set` publishes nothing over a later one, and its pages have the published values meanwhile", async () => {
  await using replicas = await shareStore();
  const { clock, store } = replicas;
  let reading: Promise<unknown> = Promise.resolve();
  const variables = async () => {
    await reading;
    return { REP_PUBLIC_A: "1" };
  };
  await using slow = await replicas.start({}, { variables });
  await using fast = await replicas.start({ REP_PUBLIC_A: "1" });
  const read = Promise.withResolvers<void>();
  reading = read.promise;
  const events = ["A=1"];
  for (const tick of ["1", "2"]) {
    await setStoredVariables(store, { TICK: tick }, { clock });
    await clock.tick(1_000);
    await clock.tick(1_000);
    events.push(`TICK=${tick}`);
    assertEquals(await storedEvents(store), events);
    assertEquals(await pageValues(slow), { A: "1", TICK: tick });
  }
  read.resolve(); // of TICK=1
  for (let seconds = 0; seconds < 6; seconds++) {
    await clock.tick(1_000);
    await assertPages([slow, fast], { A: "1", TICK: "2" });
  }
  assertEquals(await storedEvents(store), events);
});

/** Starts a replica whose store fails until it is told to answer, and which reads its file until it is told to end. */
async function startInOutage(
  replicas: Awaited<ReturnType<typeof shareStore>>,
  file: Record<string, string>,
) {
  let isDown = true;
  const read = Promise.withResolvers<void>();
  const starting = replicas.start({}, {
    variables: () => read.promise.then(() => file),
    store: fallibleStore(replicas.store, () => isDown),
    startWithoutStore: true,
  });
  await settle();
  isDown = false;
  return {
    async ready() {
      await replicas.clock.tick(2_000); // until it asks the store again
      read.resolve();
      return await starting;
    },
  };
}

Deno.test("what a replica began to read while the store failed is not published over a newer edit", async () => {
  await using replicas = await shareStore();
  const file = { REP_PUBLIC_A: "old" };
  const starting = await startInOutage(replicas, file);
  await using fast = await replicas.start({ REP_PUBLIC_A: "new" });
  await using slow = await starting.ready();
  assertEquals(await storedEvents(replicas.store), ["A=new"]);
  file.REP_PUBLIC_A = "new";
  await replicas.clock.tick(6_000);
  assertEquals(await storedEvents(replicas.store), ["A=new"]);
  await assertPages([slow, fast], { A: "new" });
});

Deno.test("what was deployed while the store failed becomes active once it has been read again", async () => {
  await using replicas = await shareStore();
  await using old = await replicas.start({ REP_PUBLIC_A: "old" });
  const starting = await startInOutage(replicas, { REP_PUBLIC_A: "new" });
  await using next = await starting.ready();
  await replicas.clock.tick(6_000);
  assertEquals(await storedEvents(replicas.store), ["A=old", "A=new"]);
  await assertPages([old, next], { A: "new" });
});

Deno.test("a replica that rejects a variable in the store publishes nothing, and its pages have the published values", async () => {
  await using replicas = await shareStore();
  const { clock, store } = replicas;
  const manifest = JSON.stringify({
    version: "0.1.0",
    variables: { LIMIT: { tier: "public", type: "number" } },
  });
  await using old = await replicas.start({ REP_PUBLIC_A: "old" }, { manifest });
  const next = await replicas.start({ REP_PUBLIC_A: "new" });
  await clock.tick(5_000);
  await setStoredVariables(store, { LIMIT: "none" }, { clock });
  await clock.tick(2_000);
  await next.gateway.close();
  for (let seconds = 0; seconds < 12; seconds++) await clock.tick(1_000);
  assertEquals(await pageValues(old), { A: "new", LIMIT: "none" });
  await setStoredVariables(store, { LIMIT: "7" }, { clock });
  await clock.tick(2_000);
  assertEquals(await pageValues(old), { A: "old", LIMIT: "7" });
});

/** What a superseded replica may read while its heartbeats fail. */
const READ_IN_AN_OUTAGE: Readonly<
  Record<string, (old: TestGateway, store: Store) => Promise<unknown>>
> = {
  "a `set`": (_old, store) => setStoredVariables(store, { TICK: "1" }),
  "an edit": (old) => old.set({ REP_PUBLIC_A: "edited", REP_SERVER_B: "s" }),
};

for (const [what, read] of Object.entries(READ_IN_AN_OUTAGE)) {
  Deno.test(`pages of a superseded replica leave nothing out, and report nothing but an edit as waiting, while it cannot announce ${what}`, async () => {
    await using replicas = await shareStore();
    const { clock, store } = replicas;
    let isFull = false;
    await using old = await replicas.start({
      REP_PUBLIC_A: "old",
      REP_SERVER_B: "s",
    }, {
      store: fallibleStore(store, () => isFull, { operations: ["commit"] }),
    });
    await using next = await replicas.start({
      REP_PUBLIC_A: "new",
      REP_PUBLIC_B: "public",
    });
    await clock.tick(5_000);
    isFull = true;
    await read(old, store);
    for (let seconds = 0; seconds < 3; seconds++) await clock.tick(1_000);
    const { B } = await pageValues(old);
    assertEquals(B, "public");
    const isEdit = what === "an edit";
    const [line] = old.logged("rep.config.not_published");
    assertEquals(line?.level, isEdit ? "ERROR" : "DEBUG");
    const health = await (await old.ask("/rep/health")).json();
    const problems: unknown[] = health.problems ?? [];
    assertEquals(problems.includes("change_waiting"), isEdit);
    assertEquals(await pageValues(next), await pageValues(old));
  });
}

Deno.test("a configuration that is active again, but cannot be published, is a change that waits", async () => {
  await using replicas = await shareStore();
  const { clock, store } = replicas;
  let isFull = false;
  await using old = await replicas.start({ REP_PUBLIC_A: "old" }, {
    store: {
      ...delegate(store),
      commit: (checks, writes) =>
        isFull && writes.some(({ key }) => key[0] === "event")
          ? Promise.reject(new Error("full"))
          : store.commit(checks, writes),
    },
  });
  const next = await replicas.start({ REP_PUBLIC_A: "new" });
  await clock.tick(5_000);
  isFull = true;
  await next.gateway.close();
  for (let seconds = 0; seconds < 10; seconds++) await clock.tick(1_000);
  const { problems } = await (await old.ask("/rep/health")).json();
  assertEquals(problems, ["store_unavailable", "change_waiting"]);
  const levels = old.logged("rep.config.not_published").map(({ level }) =>
    level
  );
  assertEquals(levels.indexOf("ERROR"), 0);
  isFull = false;
  for (let seconds = 0; seconds < 6; seconds++) await clock.tick(1_000);
  assertEquals((await storedEvents(store)).at(-1), "A=old");
});
