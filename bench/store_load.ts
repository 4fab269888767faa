/**
 * The calls of the store: while idle, for a change, for a stream, for a session key. Counted, not timed: the
 * figures are the same on every machine.
 *
 *     deno task bench store_load --variables 50
 *
 * Two gateways over one store in memory, each counted separately, on a fake clock.
 */
import { createGateway } from "../src/gateway.ts";
import type { Gateway } from "../src/gateway_interface.ts";
import { memoryStore } from "../src/engines/memory.ts";
import type { Store } from "../src/core/store/store.ts";
import { FakeClock, settle } from "../tools/fake_clock.ts";
import { type Figure, figure, type Report } from "./_report.ts";

/** The sizes: PUBLIC variables. */
export const STORE_LOAD_SIZES = { variables: 50 };

/** Runs the count. */
export async function storeLoad(
  { variables }: typeof STORE_LOAD_SIZES,
): Promise<Report> {
  const clock = new FakeClock();
  const shared = memoryStore();
  const ours: Calls = new Map();
  const theirs: Calls = new Map();
  let value = "a";
  const options = {
    hotReload: true,
    variables: () => environment(variables, value),
    clock,
    random: () => 0.5,
  };
  await using gateway = await createGateway({
    ...options,
    store: counting(shared, ours),
  });
  await request(gateway, "/rep/session-key", "10.0.0.1"); // creates the master key
  await using other = await createGateway({
    ...options,
    store: counting(shared, theirs),
  });
  await clock.tick(5_000);

  const figures: Figure[] = [];
  function report(name: string, calls: Calls): void {
    for (const [method, count] of calls) {
      figures.push(figure(name, method, [count]));
    }
    if (calls.size === 0) figures.push(figure(name, "calls", [0]));
    calls.clear();
  }
  function forget(): void {
    ours.clear();
    theirs.clear();
  }

  forget();
  await clock.tick(60_000);
  report("one idle minute", theirs);

  forget();
  value = "b";
  await gateway.reload();
  await settle();
  report("a change, the process that publishes it", ours);
  report("a change, each other process", theirs);

  await other.reload();
  await settle();
  report("a reload that finds what is published already", theirs);

  await other.reload();
  await settle();
  report("a reload that finds nothing new", theirs);

  forget();
  await request(gateway, "/rep/changes", "10.0.0.1");
  await settle();
  report("a stream that is opened", ours);

  await request(gateway, "/rep/session-key", "10.0.0.2");
  await settle();
  report("a session key", ours);
  return { title: `store load: ${variables} PUBLIC variables`, figures };
}

function environment(count: number, first: string): Record<string, string> {
  const all: Record<string, string> = { REP_SENSITIVE_SECRET: "value" };
  for (let index = 0; index < count; index++) {
    all[`REP_PUBLIC_V${index}`] = "a";
  }
  return { ...all, REP_PUBLIC_V0: first };
}

async function request(
  gateway: Gateway,
  path: string,
  hostname: string,
): Promise<void> {
  const response = await gateway.fetch(
    new Request(`http://localhost${path}`),
    { remoteAddr: { transport: "tcp", hostname, port: 1 } },
  );
  await response.body?.cancel();
}

type Calls = Map<string, number>;

/** A store whose calls are counted by the names of the methods. */
function counting(store: Store, calls: Calls): Store {
  return new Proxy(store, {
    get(target, name: keyof Store) {
      const value = target[name];
      if (typeof value !== "function") return value;
      calls.set(name, (calls.get(name) ?? 0) + 1);
      return value.bind(target);
    },
  });
}
