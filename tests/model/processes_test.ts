import { assert, assertEquals, equal } from "@std/assert";
import { kvStore } from "../../src/engines/kv.ts";
import { systemClock } from "../../src/core/values/clock.ts";
import { SeededChoices } from "../../tools/seeded_random.ts";
import { type RunningCommand, startCommand } from "../_command.ts";
import { runSeeds, seedsOf } from "../_seeds.ts";
import { TempDirectory } from "../_temp.ts";
import { type Network, openEventSource } from "./_event_source.ts";
import { createEventLog } from "../_event_log.ts";

/** How many runs; `deno task model` makes 200. */
const RUNS = Number(Deno.env.get("MODEL_RUNS") ?? 2);

const seeds = seedsOf(RUNS, "MODEL_RUN");

/** Clients reconnect so many times sooner than they are told to. */
const HURRY = 50;
const TIMEOUT_MS = 30_000;

/** Runs one or two gateways as processes on one database, and a client. */
async function runScenario(seed: number) {
  const choices = new SeededChoices(seed);
  const variables = new Map<string, string>();
  const lost = new Map<RunningCommand, Set<() => void>>();
  let count = 0;
  let failure: Error | undefined;
  await using directory = await TempDirectory.make();
  const path = directory.at("app.env");
  const commands: (RunningCommand | undefined)[] = [undefined];
  if (choices.chance(0.5)) commands.push(undefined);
  const timers = new Set<ReturnType<typeof setTimeout>>();
  await using end = new AsyncDisposableStack();
  end.defer(async () => {
    for (const timer of timers) clearTimeout(timer);
    for (const it of commands) await it?.[Symbol.asyncDispose]();
  });

  function after(ms: number, callback: () => void) {
    const timer = setTimeout(() => {
      timers.delete(timer);
      callback();
    }, ms);
    timers.add(timer);
    return () => clearTimeout(timer);
  }

  function sleep(ms: number) {
    return new Promise<void>((resolve) => void after(ms, resolve));
  }

  const network: Network = {
    random: choices.random,
    fail: (reason) => failure ??= new Error(reason),
    async fetch({ url, headers }, onLost) {
      const running = commands.filter((command) => command !== undefined);
      if (running.length === 0) throw new TypeError("connection refused");
      const command = choices.pick(running);
      lost.set(command, (lost.get(command) ?? new Set()).add(onLost));
      const { pathname, search } = new URL(url);
      return await fetch(`${command.url}${pathname}${search}`, { headers });
    },
    time: {
      after: (ms, callback) => after(ms / HURRY, callback),
      sleep: (ms) => sleep(ms / HURRY),
    },
  };
  const client = openEventSource(network, {
    name: "the client",
    query: "",
    lastEventId: "0",
    onConnected: () => {},
  });
  end.defer(() => client.close());

  function hup() {
    for (const command of commands) command?.signal("SIGHUP");
  }

  async function write() {
    for (const name of ["A", "B", "C"]) {
      if (choices.chance(0.2)) variables.delete(name);
      else if (choices.chance(0.5)) variables.set(name, `${++count}`);
    }
    variables.set("LAST", `${++count}`);
    const lines = [...variables].map(([name, value]) =>
      `REP_PUBLIC_${name}=${value}\n`
    );
    await Deno.rename(await directory.write("new", lines.join("")), path);
  }

  async function publish() {
    await write();
    hup();
  }

  /** With an invalid file it does not start. */
  async function start(index: number) {
    const flags = ["--hot-reload", "--drain=100ms", "--env-file", path];
    commands[index] ??= await startCommand([
      ...flags,
      "--kv",
      directory.at("kv"),
    ]).catch(() => undefined);
  }

  async function startAll() {
    await write();
    for (const index of commands.keys()) await start(index);
  }

  async function kill(index: number, signal: Deno.Signal) {
    const command = commands[index];
    commands[index] = undefined;
    if (command === undefined) return;
    command.signal(signal);
    await command.ended();
    for (const onLost of lost.get(command) ?? []) onLost();
  }

  async function act() {
    const index = choices.between(0, commands.length - 1);
    const random = choices.random();
    if (random < 0.35) await publish();
    else if (random < 0.5) {
      for (let times = 0; times < 8; times++) {
        await publish();
        await sleep(choices.between(0, 20));
      }
    } else if (random < 0.6) {
      await Deno.writeTextFile(path, "REP_PUBLIC_X=1\nREP_SERVER_X=1\n");
      hup();
    } else if (random < 0.8) await kill(index, "SIGKILL");
    else if (random < 0.85) await kill(index, "SIGTERM");
    else client.disconnect(random < 0.92 ? "now" : "later");
    if (choices.chance(0.7)) await start(index);
    await sleep(choices.between(0, 100));
  }

  /** Waits until the client has the newest value of every variable. */
  async function settle() {
    const deadline = Date.now() + TIMEOUT_MS;
    for (;;) {
      const values = new Map<string, string>();
      for (const { name, value } of client.events) {
        if (value === undefined) values.delete(name);
        else values.set(name, value);
      }
      if (equal(values, variables)) return;
      if (Date.now() > deadline) assertEquals(values, variables);
      await sleep(20);
    }
  }

  await startAll();
  for (let step = choices.between(4, 8); step > 0; step--) await act();
  await startAll();
  hup();
  await settle();
  client.close();
  for (const index of commands.keys()) await kill(index, "SIGKILL");
  const store = kvStore(await Deno.openKv(directory.at("kv")));
  const clock = { ...systemClock, after: () => () => {} };
  const log = await createEventLog(store, clock).after(0, Infinity);
  store.close();
  assert(log.length > 0);
  assertEquals(
    client.events.map(({ id, name, value }) => ({ id, name, value })),
    log.map(({ id, name, value }) => ({ id, name, value })),
  );
  if (failure) throw failure;
}

Deno.test(`a client receives every event once from real processes that are killed, in ${seeds.length} runs`, async () => {
  await runSeeds(seeds, "MODEL_RUN", runScenario);
});
