import { assert, assertEquals } from "@std/assert";
import { ReplayPages } from "../../src/changes/replay_pages.ts";
import { memoryStore } from "../../src/store/memory.ts";
import type { ListOptions, Store } from "../../src/store/store.ts";
import { FakeClock } from "../../tools/fake_clock.ts";
import { delegate } from "../_store.ts";
import { appendUpdates, createEventLog } from "../_event_log.ts";

const CHUNK_BYTES = 64 << 10;

/** A log with events from 1,000 to `count` thousand, and how many of them have been read from its store. */
async function setUp(count: number, valueBytes: number) {
  const clock = new FakeClock(1);
  const inner = memoryStore();
  const log = createEventLog(inner, clock);
  const reads = { events: 0, lists: 0 };
  let beforeAnswer = () => Promise.resolve();
  const store: Store = {
    ...delegate(inner),
    async list<T>(prefix: readonly (string | number)[], options?: ListOptions) {
      const entries = await inner.list<T>(prefix, options);
      reads.events += entries.length;
      reads.lists++;
      await beforeAnswer();
      return entries;
    },
  };
  const changes = Array.from({ length: count }, (_, index) => {
    return { name: `V${index}`, value: `${index}`.padEnd(valueBytes, "x") };
  });
  await appendUpdates(log, changes);
  const pages = new ReplayPages(createEventLog(store, clock));
  return {
    pages,
    reads,
    onRead: (hook: () => Promise<void>) => void (beforeAnswer = hook),
  };
}

/** The ids of all events after a cursor, in thousands, chunk by chunk. */
async function idsAfter(pages: ReplayPages, cursor: number): Promise<number[]> {
  const ids: number[] = [];
  for (;;) {
    const frames = await pages.after(
      (ids.at(-1) ?? cursor) * 1_000,
      CHUNK_BYTES,
    );
    if (frames.length === 0) return ids;
    ids.push(...frames.map(({ id }) => id / 1_000));
  }
}

function range(first: number, last: number): number[] {
  return Array.from({ length: last - first + 1 }, (_, index) => first + index);
}

Deno.test("ReplayPages shares what it reads between streams, at the same time and later", async () => {
  const { pages, reads } = await setUp(300, 10_000);
  const cursors = [0, 0, 3, 7, 0];
  const replays = await Promise.all(
    cursors.map((cursor) => idsAfter(pages, cursor)),
  );
  assertEquals(replays, cursors.map((cursor) => range(cursor + 1, 300)));
  assertEquals(await idsAfter(pages, 0), range(1, 300));
  assert(
    reads.events < 2 * 300,
    `${reads.events} events were read for six streams`,
  );
});

Deno.test("ReplayPages keeps at most 16 MiB and 64 pages", async () => {
  for (const [count, bytes] of [[500, 60_000], [7_000, 1]] as const) {
    const { pages, reads } = await setUp(count, bytes);
    await idsAfter(pages, 0);
    const before = reads.events;
    await pages.after((count - 50) * 1_000, CHUNK_BYTES);
    assertEquals(reads.events, before, "the newest pages are kept");
    await pages.after(0, CHUNK_BYTES);
    assert(reads.events > before, "the oldest pages are dropped");
  }
});

Deno.test("ReplayPages does not keep values that were deleted, not even if they were being read", async () => {
  const { pages, reads, onRead } = await setUp(10, 10);
  await pages.after(0, CHUNK_BYTES);
  pages.clear();
  onRead(() => {
    onRead(() => Promise.resolve());
    pages.clear();
    return Promise.resolve();
  });
  await pages.after(0, CHUNK_BYTES);
  assertEquals(reads.lists, 3); // the first, the one that was under way, and that one again
});
