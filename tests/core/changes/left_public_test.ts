/**
 * No name that is SENSITIVE or SERVER now has a value in the log, nor in what any process sends: for every way there, in
 * one process, over restarts, and where another replica holds the tail.
 */
import { assertEquals } from "@std/assert";
import type { Entry, Store } from "../../../src/core/store/store.ts";
import { memoryStore } from "../../../src/engines/memory.ts";
import {
  EVENTS,
  STATES,
  type StoredEvent,
} from "../../../src/core/changes/event_log.ts";
import { FakeClock, settle } from "../../../tools/fake_clock.ts";
import { setUp, type TestGateway } from "../../_gateway.ts";
import { delegate } from "../../_store.ts";

/** What A is at some time. */
const KINDS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  absent: {},
  public: { REP_PUBLIC_A: "leaked-1" },
  changed: { REP_PUBLIC_A: "leaked-2" },
  sensitive: { REP_SENSITIVE_A: "secret" },
  server: { REP_SERVER_A: "secret" },
};

/** So that no tier loses all its variables, which would be rejected. */
const KEPT = { REP_PUBLIC_P: "1", REP_SENSITIVE_Q: "1", REP_SERVER_R: "1" };

function variablesOf(kind: string): Record<string, string> {
  return { ...KEPT, ...KINDS[kind] };
}

/** Returns all sequences of four kinds that end with a tier that is not PUBLIC. */
function sequences(): string[][] {
  const kinds = Object.keys(KINDS);
  const result: string[][] = [];
  for (const first of kinds) {
    for (const second of kinds) {
      for (const third of kinds) {
        for (const last of ["sensitive", "server"]) {
          result.push([first, second, third, last]);
        }
      }
    }
  }
  return result;
}

/** Returns the values of A in the log. */
async function valuesInLog(store: Store): Promise<string[]> {
  const entries: Entry<StoredEvent>[] = [
    ...await store.list<StoredEvent>(EVENTS),
    ...await store.list<StoredEvent>(STATES),
  ];
  const values = entries
    .filter(({ value }) => value.name === "A")
    .map(({ value }) => value.value)
    .filter((value) => value !== undefined);
  return values.map((value) => new TextDecoder().decode(value));
}

/** Returns a page of a gateway. */
async function pageOf({ gateway }: TestGateway) {
  const html = new Response("<head>", {
    headers: { "content-type": "text/html" },
  });
  return await (await gateway.inject(html)).text();
}

/**
 * Returns all events that a gateway sends to a client that has none yet.
 *
 * @param publisher The gateway that publishes this event.
 */
async function replayOf(
  gate: TestGateway,
  last: string,
  publisher = gate,
) {
  const reader = await gate.listen({ "last-event-id": "0" });
  await publisher.set({ ...variablesOf(last), REP_PUBLIC_END: "1" });
  while (!reader.text().includes("END")) await reader.pull();
  await reader.close();
  return reader.text();
}

function leaksIn(text: string): string[] {
  return [...new Set(text.match(/leaked-\d/g) ?? [])];
}

const NONE = { log: [], sent: [] };

Deno.test("in one process, a name that becomes SENSITIVE or SERVER loses its PUBLIC value", async () => {
  for (const kinds of sequences()) {
    const store = memoryStore();
    const [first = "", ...rest] = kinds;
    await using gate = await setUp(variablesOf(first), {
      clock: new FakeClock(),
      store,
    });
    for (const kind of rest) await gate.set(variablesOf(kind));
    const log = await valuesInLog(store);
    const replay = await replayOf(gate, kinds.at(-1) ?? "");
    const sent = leaksIn(replay + await pageOf(gate));
    assertEquals({ log, sent }, NONE, kinds.join(", "));
  }
});

Deno.test("a name that becomes SENSITIVE or SERVER while no gateway runs has no value any more", async () => {
  for (const kinds of sequences()) {
    const store = memoryStore();
    const options = { clock: new FakeClock(), store: keepOpen(store) };
    for (const kind of kinds.slice(0, -1)) {
      await using _gate = await setUp(variablesOf(kind), options);
    }
    const last = kinds.at(-1) ?? "";
    await using gate = await setUp(variablesOf(last), options);
    const log = await valuesInLog(store);
    const sent = leaksIn(await replayOf(gate, last) + await pageOf(gate));
    assertEquals({ log, sent }, NONE, kinds.join(", "));
  }
});

Deno.test("a name that becomes SENSITIVE or SERVER in one replica has no value in the tail of another", async () => {
  const fromPublic = sequences().filter(([first]) => first === "public");
  for (const kinds of fromPublic) {
    const store = memoryStore();
    const options = { clock: new FakeClock(), store: keepOpen(store) };
    const [first = "", ...rest] = kinds;
    const last = kinds.at(-1) ?? "";
    await using one = await setUp(variablesOf(first), options);
    await using other = await setUp(variablesOf(first), options);
    for (const kind of rest) {
      await one.set(variablesOf(kind));
      await settle(); // the other one reads the log
    }
    const log = await valuesInLog(store);
    const sent = leaksIn(await replayOf(other, last, one));
    assertEquals({ log, sent }, NONE, kinds.join(", "));
  }
});

Deno.test("a page of events that was read from the store for a replay does not outlive the tier of its variables", async () => {
  const store = memoryStore();
  const options = { clock: new FakeClock(), store: keepOpen(store) };
  {
    await using gate = await setUp(variablesOf("public"), options);
    for (let index = 0; index < 600; index++) { // more than a process reads at its start
      await gate.set({ ...variablesOf("absent"), REP_PUBLIC_N: String(index) });
    }
  }
  await using gate = await setUp(variablesOf("absent"), options);
  const before = await replayOf(gate, "absent");
  const after = await replayOf(gate, "sensitive");
  assertEquals([leaksIn(before), leaksIn(after)], [["leaked-1"], []]);
});

/** Returns the store for several gateways, each of which would close it. */
function keepOpen(store: Store) {
  return { ...delegate(store), close() {} };
}
