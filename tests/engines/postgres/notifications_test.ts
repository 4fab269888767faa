import { assertEquals } from "@std/assert";
import type {
  PooledClient,
  PostgresPool,
  Row,
} from "../../../src/engines/postgres/connection.ts";
import { receiveNotifications } from "../../../src/engines/postgres/notifications.ts";
import { FakeClock } from "../../../tools/fake_clock.ts";
import { captureLog } from "../../_gateway.ts";

type Listener = (notification: { payload?: string }) => void;

/** A pool of a connection that listens and one that sends, with or without a pooler between, which delivers nothing. */
function setUp() {
  const clock = new FakeClock();
  const { log, lines } = captureLog();
  const closing = new AbortController();
  const setup = {
    clock,
    lines,
    hints: [] as string[],
    /** How many connections have listened. */
    connections: 0,
    delivers: true,
    sends: true,
    /** Ends the connection that listens. */
    end: () => {},
    /** Delivers a notification. */
    notify: (_payload: string) => {},
    close: async () => {
      closing.abort();
      setup.end();
      await clock.tick(0);
      assertEquals(clock.waiting, 0);
    },
  };
  let isTaken = false;
  function connect() {
    const listeners = new Map<string, Listener>();
    setup.connections++;
    setup.end = () => listeners.get("end")?.({});
    setup.notify = (payload) => listeners.get("notification")?.({ payload });
    const client = {
      on: (event: string, listener: Listener) =>
        void listeners.set(event, listener),
      query: () => Promise.resolve({ rows: [] }),
      release: () => void (isTaken = false),
    };
    isTaken = true;
    return Promise.resolve(client as unknown as PooledClient);
  }
  async function query(statement: string): Promise<Row[]> {
    await Promise.resolve(); // a connection that is not kept has been released by now
    if (!setup.sends || !isTaken) throw new Error("down, or over the same");
    const [, , , payload = ""] = statement.split("'");
    if (setup.delivers) setup.notify(payload);
    return [];
  }
  const pool = { closed: closing.signal, connect, query };
  void receiveNotifications(
    pool as unknown as PostgresPool,
    "channel",
    new Set([{ name: "-a", hint: () => void setup.hints.push("a") }]),
    { clock, random: () => 1, log },
  );
  return setup;
}

Deno.test("a connection that gets the notification that its process sends to itself is not warned about", async () => {
  const setup = setUp();
  await setup.clock.tick(60_000);
  setup.notify("-a");
  setup.notify("-b");
  assertEquals([setup.lines, setup.hints], [[], ["a", "a"]]); // once as it begins to listen
  await setup.close();
});

Deno.test("a connection without notifications, as through a pooler in transaction mode, is warned about once, after 10 s", async () => {
  const setup = setUp();
  setup.delivers = false;
  await setup.clock.tick(0);
  setup.notify("another process's");
  await setup.clock.tick(9_999);
  assertEquals(setup.lines, []);
  await setup.clock.tick(1);
  await setup.clock.tick(600_000);
  assertEquals(setup.lines.map(({ level, msg }) => [level, msg]), [
    ["WARN", "rep.store.no_notifications"],
  ]);

  setup.end();
  await setup.clock.tick(0);
  await setup.clock.tick(1_000 + 10_000);
  assertEquals([setup.connections, setup.lines.length], [2, 2]);
  await setup.close();
});

Deno.test("neither a connection that ended nor a notification that could not be sent is warned about", async () => {
  const setup = setUp();
  setup.delivers = false;
  await setup.clock.tick(9_000);
  setup.sends = false; // as during an outage
  setup.end();
  await setup.clock.tick(0);
  await setup.clock.tick(60_000);
  assertEquals([setup.connections, setup.lines], [2, []]);
  await setup.close();
});
