import { assert, assertEquals } from "@std/assert";
import type { LogEvent } from "../../src/changes/event_log.ts";
import { kvStore } from "../../src/store/kv.ts";
import { systemClock } from "../../src/values/clock.ts";
import { seededRandom } from "../../tools/seeded_random.ts";
import { type RunningCommand, startCommand } from "../_command.ts";
import { TempDirectory } from "../_temp.ts";
import { EventSourceClient, type Network } from "./_event_source.ts";
import { createEventLog } from "../_event_log.ts";

/** How many runs; `deno task model` makes 200. */
const RUNS = Number(Deno.env.get("MODEL_RUNS") ?? 2);

/** Repeats a single run. */
const onlySeed = Deno.env.get("MODEL_RUN");
const seeds = onlySeed === undefined
  ? Array.from({ length: RUNS }, (_, seed) => seed)
  : [Number(onlySeed)];

/** Clients reconnect so many times sooner than they are told to. */
const HURRY = 50;
const TIMEOUT_MS = 30_000;

/** One or two gateways as processes on one database, and a client. */
class Run implements AsyncDisposable {
  readonly #directory: TempDirectory;
  readonly #random: () => number;
  readonly #commands: (RunningCommand | undefined)[] = [];
  readonly #timers = new Set<ReturnType<typeof setTimeout>>();
  readonly #lost = new Map<RunningCommand, Set<() => void>>();
  readonly client: EventSourceClient;
  readonly #variables = new Map<string, string>();
  #count = 0;
  #failure: Error | undefined;

  constructor(directory: TempDirectory, seed: number) {
    this.#directory = directory;
    this.#random = seededRandom(seed);
    const network: Network = {
      random: this.#random,
      fail: (reason) => this.#failure ??= new Error(reason),
      fetch: (request, onLost) => this.#fetch(request, onLost),
      time: {
        after: (ms, callback) => this.#after(ms / HURRY, callback),
        sleep: (ms) =>
          new Promise((resolve) => void this.#after(ms / HURRY, resolve)),
      },
    };
    const options = {
      name: "the client",
      query: "",
      lastEventId: "0",
      onConnected: () => {},
    };
    this.client = new EventSourceClient(network, options);
  }

  async run() {
    const processes = this.#random() < 0.5 ? 1 : 2;
    await this.#write();
    for (let index = 0; index < processes; index++) await this.#start(index);
    for (let step = 4 + Math.floor(this.#random() * 5); step > 0; step--) {
      await this.#act(processes);
    }
    await this.#write();
    for (let index = 0; index < processes; index++) await this.#start(index);
    for (const command of this.#commands) command?.signal("SIGHUP");
    await this.#settle();
    this.client.close();
    await this.#verify();
    if (this.#failure) throw this.#failure;
  }

  async #act(processes: number) {
    const index = Math.floor(this.#random() * processes);
    const random = this.#random();
    if (random < 0.35) await this.#publish();
    else if (random < 0.5) await this.#publishOften();
    else if (random < 0.6) {
      await Deno.writeTextFile(this.#path, "REP_PUBLIC_X=1\nREP_SERVER_X=1\n")
        .then(() => this.#hup());
    } else if (random < 0.8) await this.#kill(index, "SIGKILL");
    else if (random < 0.85) await this.#kill(index, "SIGTERM");
    else this.client.disconnect(random < 0.92 ? "now" : "later");
    if (this.#random() < 0.7) await this.#start(index);
    await new Promise<void>((resolve) =>
      void this.#after(this.#random() * 100, resolve)
    );
  }

  async #publish() {
    await this.#write();
    this.#hup();
  }

  /** Kills a process while it publishes. */
  async #publishOften() {
    for (let times = 0; times < 8; times++) {
      await this.#publish();
      await new Promise<void>((resolve) =>
        void this.#after(this.#random() * 20, resolve)
      );
    }
  }

  #hup() {
    for (const command of this.#commands) command?.signal("SIGHUP");
  }

  get #path() {
    return this.#directory.at("app.env");
  }

  async #write() {
    for (const name of ["A", "B", "C"]) {
      if (this.#random() < 0.2) this.#variables.delete(name);
      else if (this.#random() < 0.5) {
        this.#variables.set(name, `${++this.#count}`);
      }
    }
    this.#variables.set("LAST", `${++this.#count}`);
    const lines = [...this.#variables].map(([name, value]) =>
      `REP_PUBLIC_${name}=${value}\n`
    );
    await Deno.writeTextFile(this.#directory.at("new"), lines.join(""));
    await Deno.rename(this.#directory.at("new"), this.#path);
  }

  async #start(index: number) {
    if (this.#commands[index] !== undefined) return;
    const flags = [
      "--hot-reload",
      "--env-file",
      this.#path,
      "--kv",
      this.#directory.at("kv"),
      "--drain",
      "100ms",
    ];
    // With an invalid file it does not start.
    this.#commands[index] = await startCommand(flags).catch(() => undefined);
  }

  async #kill(index: number, signal: Deno.Signal) {
    const command = this.#commands[index];
    this.#commands[index] = undefined;
    if (command === undefined) return;
    command.signal(signal);
    await command.ended();
    for (const onLost of this.#lost.get(command) ?? []) onLost();
  }

  async #fetch(request: Request, onLost: () => void) {
    const running = this.#commands.filter((command) => command !== undefined);
    const command = running[Math.floor(this.#random() * running.length)];
    if (command === undefined) throw new TypeError("connection refused");
    this.#lost.set(command, (this.#lost.get(command) ?? new Set()).add(onLost));
    const { pathname, search } = new URL(request.url);
    return await fetch(`${command.url}${pathname}${search}`, {
      headers: request.headers,
    });
  }

  #after(ms: number, callback: () => void) {
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      callback();
    }, ms);
    this.#timers.add(timer);
    return () => clearTimeout(timer);
  }

  /** Waits until the client has the newest value of every variable. */
  async #settle() {
    const deadline = Date.now() + TIMEOUT_MS;
    while (!this.#isUpToDate()) {
      if (Date.now() > deadline) {
        throw new Error(
          `The client has ${JSON.stringify([...this.#values()])}`,
        );
      }
      await new Promise<void>((resolve) => void this.#after(20, resolve));
    }
  }

  #isUpToDate() {
    const values = this.#values();
    return values.size === this.#variables.size &&
      [...values].every(([name, it]) => this.#variables.get(name) === it);
  }

  #values() {
    const values = new Map<string, string>();
    for (const { name, value } of this.client.events) {
      if (value === undefined) values.delete(name);
      else values.set(name, value);
    }
    return values;
  }

  /** Compares what the client has received with the log in the database. */
  async #verify() {
    const commands = this.#commands.splice(0).filter((command) =>
      command !== undefined
    );
    for (const command of commands) command.signal("SIGKILL");
    await Promise.all(commands.map((command) => command.ended()));
    const store = kvStore(await Deno.openKv(this.#directory.at("kv")));
    const clock = { ...systemClock, after: () => () => {} };
    const log = await createEventLog(store, clock).after(0, Infinity);
    store.close();
    const received = this.client.events.map(({ id, name, value }) => ({
      id,
      name,
      value,
    }));
    const committed = log.map(({ id, name, value }: LogEvent) => ({
      id,
      name,
      value,
    }));
    assert(committed.length > 0);
    assertEquals(received, committed.slice(0, received.length));
    assertEquals(committed.length, received.length);
  }

  async [Symbol.asyncDispose]() {
    this.client.close();
    for (const timer of this.#timers) clearTimeout(timer);
    for (const command of this.#commands) {
      await command?.[Symbol.asyncDispose]();
    }
  }
}

Deno.test(`a client receives every event once from real processes that are killed, in ${seeds.length} runs`, async () => {
  for (const seed of seeds) {
    await using directory = await TempDirectory.make();
    await using run = new Run(directory, seed);
    try {
      await run.run();
    } catch (cause) {
      throw new Error(`Run ${seed} failed; repeat it with MODEL_RUN=${seed}`, {
        cause,
      });
    }
  }
});
