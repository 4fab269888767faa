import { assertEquals, assertThrows } from "@std/assert";
import { LineQueue } from "../../../src/command/start/line_queue.ts";
import { FakeClock } from "../../../tools/fake_clock.ts";

/** What a write does: it writes some bytes, or fails. */
type Outcome = number | "error";

/** A descriptor whose writes wait until the test ends them. */
class SlowSink {
  readonly writes: string[] = [];
  #size = 0;
  #end: PromiseWithResolvers<number> | undefined;

  write(bytes: Uint8Array): Promise<number> {
    this.writes.push(new TextDecoder().decode(bytes));
    this.#size = bytes.length;
    this.#end = Promise.withResolvers();
    return this.#end.promise;
  }

  /** Ends the write that waits: by default, all of it is written. */
  async end(outcome: Outcome = this.#size): Promise<void> {
    if (outcome === "error") this.#end?.reject(new Error("No space left"));
    else this.#end?.resolve(outcome);
    await settle();
  }
}

async function settle(): Promise<void> {
  for (let turn = 0; turn < 20; turn++) await Promise.resolve();
}

function setUp() {
  const clock = new FakeClock();
  const sink = new SlowSink();
  return { clock, sink, queue: new LineQueue(sink, clock) };
}

Deno.test("LineQueue writes what has been added in the meantime with one write", async () => {
  const { sink, queue } = setUp();
  for (const line of ["a", "b", "c"]) queue.add(line);
  await sink.end();
  await sink.end();
  await queue.flush();
  assertEquals(sink.writes, ["a\n", "b\nc\n"]);
});

Deno.test("LineQueue writes whole lines of up to 4,096 bytes together, and a longer one alone", async () => {
  const { sink, queue } = setUp();
  const sizes = [10, 2_000, 2_095, 1, 70_000, 4_097, 1];
  for (const size of sizes) queue.add("ä".repeat(size / 2).padEnd(size / 2));
  const expected = [[5], [1_000, 1_047], [0], [35_000], [2_048], [0]];
  for (const _ of expected) await sink.end();
  assertEquals(
    sink.writes.map((text) =>
      text.slice(0, -1).split("\n").map((it) => it.length)
    ),
    expected,
  );
});

Deno.test("LineQueue writes the rest of a line before anything else, also after errors", async () => {
  const { clock, sink, queue } = setUp();
  queue.add("0123456789");
  queue.add("next");
  await sink.end(4);
  await sink.end("error");
  assertEquals(sink.writes.length, 2);
  await clock.tick(20);
  await sink.end(0);
  await sink.end("error");
  await clock.tick(20);
  await sink.end(3);
  await sink.end();
  await sink.end();
  await queue.flush();
  assertEquals(sink.writes, [
    "0123456789\n",
    ...Array(4).fill("456789\n"),
    "789\n",
    "next\n",
  ]);
});

Deno.test("LineQueue drops lines beyond 1 MiB, and says how many once it is half empty", async () => {
  const { sink, queue } = setUp();
  const reports: number[] = [];
  queue.onRoom = (dropped) => {
    reports.push(dropped);
    queue.add(`dropped ${dropped}`);
  };
  const line = "x".repeat(99_999);
  for (let index = 0; index < 11; index++) queue.add(line);
  for (let index = 0; index < 3; index++) {
    assertThrows(() => queue.add("lost"), Error, "Cannot log");
  }
  for (let index = 0; index < 5; index++) await sink.end();
  assertEquals([queue.dropped, reports], [3, []]); // 600,000 bytes wait
  await sink.end();
  assertEquals(reports, [3]);
  for (let index = 0; index < 6; index++) await sink.end();
  await queue.flush();
  assertEquals(sink.writes.at(-1), "dropped 3\n");
  assertEquals([queue.dropped, reports], [3, [3]]);
});

Deno.test("LineQueue accepts a line of any size while there is room", async () => {
  const { sink, queue } = setUp();
  queue.add("short");
  queue.add("x".repeat(3 << 20));
  assertThrows(() => queue.add("lost"));
  await sink.end();
  await sink.end();
  assertEquals(sink.writes.map(({ length }) => length), [6, (3 << 20) + 1]);
});
