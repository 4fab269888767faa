/** What pages say about the build that they are of, and what they are told when another one replaces it. */
import { assert, assertEquals, assertNotEquals } from "@std/assert";
import type { GatewayOptions } from "../src/options.ts";
import { memoryStore } from "../src/engines/memory.ts";
import { FakeClock } from "../tools/fake_clock.ts";
import { setUp, type TestGateway } from "./_gateway.ts";
import { TempDirectory } from "./_temp.ts";
import { eventually } from "./_time.ts";

const T = 1_700_000_000_000;
/** The cursor of the first event. */
const FIRST = T * 1_000;
const VALUES = { REP_PUBLIC_A: "1" };

function pageOf(name: string): string {
  return `<head></head><script type="module" src="/assets/${name}.js"></script>`;
}

/** Directories with a build each, and gateways on one store and one clock. */
async function shareStore() {
  const clock = new FakeClock(T);
  const shared = { store: memoryStore(), clock, random: () => 0 };
  const files = await TempDirectory.make();
  for (const name of ["A", "B", "C"]) await Deno.mkdir(files.at(name));
  await files.write("A/index.html", pageOf("a"));
  await files.write("A/about.html", "<head></head>About");
  await files.write("B/index.html", pageOf("b"));
  return {
    clock,
    files,
    /** Starts a gateway that delivers the build in a directory. */
    start: (directory: string, options: GatewayOptions = {}) =>
      setUp(VALUES, {
        ...shared,
        staticDir: files.at(directory),
        ...options,
      }),
    [Symbol.asyncDispose]: () => files[Symbol.asyncDispose](),
  };
}

/** Returns the build that a page names, and its entity tag. */
async function readPage(gate: TestGateway, path = "/") {
  const headers = { accept: "text/html" };
  const response = await gate.ask(path, { headers });
  const html = await response.text();
  const build = / data-rep-build="([^"]*)"/.exec(html)?.[1] ?? "";
  return { build, etag: response.headers.get("etag") };
}

async function buildOf(gate: TestGateway): Promise<string> {
  return (await readPage(gate)).build;
}

/** Returns what a poll is told. */
async function poll(gate: TestGateway, query: string, headers = {}) {
  const response = await gate.ask(`/rep/changes?poll&${query}`, { headers });
  const text = await response.text();
  const message = /event: rep:build\n[^]*?\n\n/.exec(text)?.[0];
  return { message, caching: response.headers.get("cache-control") };
}

function messageOf(build: string, id?: number | string): string {
  const line = id === undefined ? "" : `id: ${id}\n`;
  return `event: rep:build\ndata: {"build":"${build}"}\n${line}\n`;
}

async function healthOf({ gateway }: TestGateway, path = "/rep/health") {
  const headers = { accept: "application/json" };
  const request = new Request(`http://localhost${path}`, { headers });
  return await (await gateway.fetchHealth(request)).json();
}

for (const hotReload of [true, false]) {
  Deno.test(`all pages of a build name it, in every gateway, hot reload: ${hotReload}`, async () => {
    await using shared = await shareStore();
    const { files } = shared;
    await using first = await shared.start("A", { hotReload });
    await using second = await shared.start("A", { hotReload, revision: "r" });
    await using other = await shared.start("B", { hotReload });
    const page = await readPage(first);
    assert(/^\w{20,}$/.test(page.build), page.build);
    for (const path of ["/about", "/a/route"]) {
      assertEquals((await readPage(first, path)).build, page.build);
    }
    assertEquals(await readPage(second), page);
    assertNotEquals(await buildOf(other), page.build);
    const report = await healthOf(first);
    assertEquals(report.build, page.build);
    const { build, builds } = await (await first.ask("/rep/health")).json();
    assertEquals([build, builds], [page.build, undefined]); // those of others are for operators
    await files.write("A/index.html", pageOf("c"));
    await shared.clock.tick(5_000);
    await eventually(async () => { // the file is read
      const changed = await healthOf(first);
      const about = await readPage(first, "/about");
      assertEquals(about.build, changed.build);
      assertNotEquals(about.build, page.build);
    });
    await files.write("A/index.html", pageOf("a"));
    await shared.clock.tick(5_000);
    await eventually(async () => assertEquals(await readPage(first), page));
  });
}

Deno.test("the entity tag of a page changes with the build alone, since its script does", async () => {
  await using shared = await shareStore();
  await using gate = await shared.start("A");
  const before = (await readPage(gate, "/about")).etag;
  await shared.files.write("A/index.html", pageOf("b"));
  await shared.clock.tick(5_000);
  assertNotEquals((await readPage(gate, "/about")).etag, before);
});

for (const revision of ["v1.2-3", undefined]) {
  Deno.test(`pages that a module renders name the revision ${revision}, and nothing else`, async () => {
    await using gate = await setUp(VALUES, revision ? { revision } : {});
    const response = new Response("<head></head>", {
      headers: { "content-type": "text/html" },
    });
    const html = await (await gate.gateway.inject(response)).text();
    const build = / data-rep-build="([^"]*)"/.exec(html)?.[1];
    assertEquals(build, revision);
    assert((await gate.gateway.configScript()).includes(build ?? "__rep__"));
    assertEquals((await healthOf(gate)).build, revision);
  });
}

Deno.test("a module that renders tells pages of its revision, also of one that HTML has to escape", async () => {
  const clock = new FakeClock(T);
  const options = { store: memoryStore(), clock, random: () => 0 };
  const old = await setUp(VALUES, { ...options, revision: '1"<&' });
  const html = await old.gateway.configScript();
  assert(html.includes(' data-rep-build="1&#34;&#60;&#38;"'), html);
  await using newer = await setUp(VALUES, { ...options, revision: "2" });
  const query = `last_event_id=${FIRST}&build=${encodeURIComponent('1"<&')}`;
  assertEquals((await poll(newer, query)).message, undefined);
  await old.gateway.close();
  await clock.tick(5_000);
  assertEquals((await poll(newer, query)).message, messageOf("2", FIRST));
});

Deno.test("a page is told at each connection, with its own cursor or none, as a stream and as a poll that nobody stores", async () => {
  await using shared = await shareStore();
  const old = await shared.start("A");
  const a = await buildOf(old);
  await using newer = await shared.start("B");
  const b = await buildOf(newer);
  const known = `last_event_id=${FIRST}&build=${a}`;
  assertEquals((await poll(newer, known)).message, undefined);
  await old.gateway.close();
  await shared.clock.tick(5_000);
  const table: [query: string, headers: HeadersInit, message?: string][] = [
    [known, {}, messageOf(b, FIRST)],
    [`build=${a}`, { "last-event-id": `${FIRST}` }, messageOf(b, FIRST)],
    // The log does not know these: the client gets the whole state, and keeps its cursor until then.
    [`last_event_id=12&build=${a}`, {}, messageOf(b)],
    [`last_event_id=x&build=${a}`, {}, messageOf(b)],
    // No page of ours.
    [`build=${a}`, {}],
    [`last_event_id=${FIRST}`, {}],
    [`last_event_id=${FIRST}&build=`, {}],
    [`${known}&format=ofrep`, {}],
    [`last_event_id=${FIRST}&build=${b}`, {}],
  ];
  for (const [query, headers, message] of table) {
    const answer = await poll(newer, query, headers);
    assertEquals(answer.message, message, query);
    assertEquals(answer.caching, "no-cache, no-store, no-transform");
  }
  for (const _ of ["the first connection", "the next one"]) {
    const stream = await newer.listen({}, `?${known}&heartbeat=event`);
    await stream.pull();
    assertEquals(
      stream.text(),
      `retry: 2000\n: connected\nid: ${FIRST}\n\nevent: rep:heartbeat\ndata: {}\n\n` +
        messageOf(b, FIRST),
    );
    await stream.close();
  }
});

Deno.test("open streams are told within 10 s, once for each build; those that do not ask get the bytes of before", async () => {
  await using shared = await shareStore();
  const { clock } = shared;
  const old = await shared.start("A");
  const a = await buildOf(old);
  const newer = await shared.start("B");
  const b = await buildOf(newer);
  const stream = await newer.listen({}, `?last_event_id=${FIRST}&build=${a}`);
  const plain = await newer.listen({}, `?last_event_id=${FIRST}`);
  await stream.pull();
  await plain.pull();
  const opening = plain.text();
  assertEquals(stream.text(), opening);
  old.gateway.beginShutdown(); // --stop-delay
  await clock.tick(9_000);
  assertEquals(await poll(newer, `last_event_id=${FIRST}&build=${a}`), {
    message: undefined,
    caching: "no-cache, no-store, no-transform",
  });
  await old.gateway.close();
  const next = stream.pull();
  const nextOfPlain = plain.pull();
  await clock.tick(10_000);
  await next;
  const heartbeat = `: heartbeat\nid: ${FIRST}\n\n`;
  const text = () => stream.text().replaceAll(heartbeat, "");
  assertEquals(text(), opening + messageOf(b, FIRST));
  const nothing = stream.pull();
  await clock.tick(20_000);
  await Promise.all([nothing, nextOfPlain]); // heartbeats
  assertEquals(text(), opening + messageOf(b, FIRST));
  assertEquals(plain.text().replaceAll(heartbeat, ""), opening);
  await stream.close();
  await plain.close();
  await newer.gateway.close();
});

Deno.test("a page hears of the build of a single process that has restarted with a store in memory, whatever its cursor", async () => {
  await using shared = await shareStore();
  const old = await shared.start("A", { store: memoryStore() });
  const a = await buildOf(old);
  await old.gateway.close();
  await shared.clock.tick(1_000);
  await using newer = await shared.start("B", {
    store: memoryStore(),
    random: () => 0.5,
  });
  const b = await buildOf(newer);
  const query = `last_event_id=${FIRST}&build=`;
  assertEquals((await poll(newer, query + a)).message, messageOf(b));
  assertEquals((await poll(newer, query + b)).message, undefined);
});

Deno.test("a build that replaces another under a running gateway is announced before its first page, so that no replica takes it for gone", async () => {
  await using shared = await shareStore();
  const { files, clock } = shared;
  await files.write("C/index.html", pageOf("a"));
  await using changing = await shared.start("A");
  await using other = await shared.start("C");
  await clock.tick(4_000);
  await files.write("A/index.html", pageOf("b"));
  await clock.pass(1_000);
  const b = await buildOf(changing);
  const query = `last_event_id=${FIRST}&build=${b}`;
  assertEquals((await poll(other, query)).message, undefined);
  const both = [await buildOf(other), b].sort();
  assertEquals((await healthOf(other)).builds, both);
  const { rollout } = await healthOf(other, "/status");
  const shown = rollout.map(({ build }: { build: string }) => build);
  assertEquals(shown.sort(), both);
});

Deno.test("without hot reload there are no messages", async () => {
  await using shared = await shareStore();
  await using gate = await shared.start("A", { hotReload: false });
  const response = await gate.ask(`/rep/changes?last_event_id=1&build=x`);
  await response.body?.cancel();
  assertEquals(response.status, 404);
  assertEquals((await healthOf(gate)).builds, [await buildOf(gate)]);
});

Deno.test("a script that asks for the page gets it, with its build; other requests of scripts get a fragment", async () => {
  await using shared = await shareStore();
  await using gate = await shared.start("A");
  const headers = {
    "accept": "text/html",
    "sec-fetch-dest": "empty",
    "sec-fetch-mode": "cors",
  };
  for (const path of ["/", "/a/route", "/a/route.with.dots"]) {
    const asked = { ...headers, "rep-page": "1" };
    const page = await gate.ask(path, { headers: asked });
    assert((await page.text()).includes(" data-rep-build="), path);
  }
  const fragment = await (await gate.ask("/", { headers })).text();
  assertEquals(fragment.includes("data-rep-build"), false);
});
