import { ConfigurationError } from "../../src/config/variables/snapshot.ts";
import { writeVariables } from "../../src/config/stored/stored_variables.ts";
import type { Payload } from "../../src/pages/config_script.ts";
import { type Beginning, Client, describe, isEqual } from "./_client.ts";
import { Process } from "./_process.ts";
import type { Simulation } from "./_simulation.ts";
import { appendUpdates, createEventLog } from "../_event_log.ts";
import { type Positions, STORED_PREFIX } from "./_write_order.ts";

const NAMES = ["A", "B", "C", "D", "E"];
/** A variable that every version of the file sets to another value. */
const VERSION = "VERSION";
/** A variable of the file that the store may override. */
const OVERRIDDEN = "OVERRIDDEN";
/** Enough for dead processes to be noticed, and for two polls of every client for which there is no room. */
const AGREEMENT_MS = 150_000;
/** How clients ask for the changes: as the specification says, or as our client does where no stream arrives. */
const PARAMETERS = [
  "",
  "",
  "&heartbeat=event",
  "&poll",
  "&poll&heartbeat=event",
];
const HTML = "<!doctype html><html><head></head><body></body></html>";

/** A random history of a service with one to three gateways, and of its clients. */
export class Scenario {
  readonly #simulation: Simulation;
  readonly #clients: Client[] = [];
  /** The variables of the file, without prefix; a value of `undefined` stands for a variable that is SENSITIVE. */
  readonly #file = new Map<string, string | undefined>([["KEPT", "1"]]);
  readonly #stored = new Map<string, string>();
  readonly #hasLargeValues: boolean;
  #issue: string | undefined;
  #count = 0;

  constructor(simulation: Simulation) {
    this.#simulation = simulation;
    this.#hasLargeValues = simulation.chance(0.1);
    simulation.file.copy = () => this.#copyFile();
  }

  /** @throws {Error} If an event was lost or repeated, or if a client or a process ends with wrong values. */
  async run(): Promise<void> {
    const simulation = this.#simulation;
    if (simulation.chance(0.1)) await this.#prefill();
    this.#edit();
    for (
      let processes = simulation.pick([1, 1, 2, 3]);
      processes > 0;
      processes--
    ) this.#startProcess();
    await simulation.advance(simulation.pick([0, 2_000]));
    for (let step = simulation.between(5, 25); step > 0; step--) {
      await this.#act();
      await simulation.advance(
        simulation.pick([
          0,
          0,
          simulation.between(0, 50),
          simulation.between(0, 8_000),
        ]),
      );
    }
    await this.#finish();
  }

  /** Fills the log with more events than a process reads when it starts. */
  async #prefill(): Promise<void> {
    const { store, time } = this.#simulation;
    const log = createEventLog(store, {
      now: () => 1_000 + time.now,
      monotonic: () => time.now,
      after: () => () => {},
    });
    const bytes = this.#hasLargeValues ? 20_000 : 1;
    const changes = Array.from({ length: 700 }, (_, index) => {
      return {
        name: this.#simulation.pick(NAMES),
        value: `prefilled ${index}`.padEnd(bytes),
      };
    });
    await appendUpdates(log, changes);
  }

  async #act(): Promise<void> {
    const simulation = this.#simulation;
    const actions:
      (readonly [weight: number, action: () => void | Promise<void>])[] = [
        [6, () => this.#publish()],
        [2, () => this.#publishOften()],
        [4, () => this.#writeStored()],
        [2, () => this.#slowDown(simulation.pick(simulation.living))],
        [1, () => this.#breakFile()],
        [4, () => this.#connect()],
        [
          3,
          () =>
            simulation.pick(this.#clients)?.source.disconnect(
              simulation.pick(["now", "later"]),
            ),
        ],
        [2, () => this.#togglePause()],
        [1, () => simulation.pick(simulation.living)?.kill()],
        [1, () => this.#stopProcess()],
        [2, () => this.#startProcess()],
        [
          1,
          () =>
            simulation.pick(simulation.living)?.jump(
              simulation.between(-60_000, 60_000),
            ),
        ],
        [2, () => this.#failStore()],
      ];
    const all = actions.flatMap(([weight, action]) =>
      Array<typeof action>(weight).fill(action)
    );
    await simulation.pick(all)();
  }

  #startProcess(): void {
    const simulation = this.#simulation;
    if (simulation.living.length >= 3) return;
    const name = `process ${simulation.processes.length + 1}`;
    simulation.note(`${name} starts`);
    simulation.processes.push(new Process(simulation, name));
  }

  #stopProcess(): void {
    const simulation = this.#simulation;
    const process = simulation.pick(simulation.ready);
    if (process === undefined) return;
    simulation.note(`${process.name} stops`);
    void process.stop(simulation.pick([0, 3_000]));
  }

  #failStore(): void {
    const simulation = this.#simulation;
    simulation.setStore(
      simulation.pick(["failing", "silent", "ambiguous", "full"]),
    );
    simulation.time.after(
      simulation.between(100, 20_000),
      () => simulation.setStore("up"),
    );
  }

  /** Makes a process read slowly, or not any more. */
  #slowDown(process: Process | undefined): void {
    const maxMs = this.#simulation.pick([0, 100, 1_000, 5_000]);
    this.#simulation.note(`${process?.name} takes up to ${maxMs} ms to read`);
    process?.slowDown(maxMs);
  }

  #togglePause(): void {
    const client = this.#simulation.pick(this.#clients);
    if (client !== undefined) client.source.isPaused = !client.source.isPaused;
  }

  #publish(): void {
    this.#edit();
    for (const process of this.#simulation.living) {
      this.#simulation.time.after(
        this.#simulation.pick([0, 50, 3_000]),
        () => void process.reload(),
      );
    }
  }

  async #publishOften(): Promise<void> {
    for (let times = this.#simulation.between(2, 12); times > 0; times--) {
      this.#publish();
      await this.#simulation.advance(this.#simulation.pick([0, 1, 100]));
    }
  }

  /** Sets, deletes or hides some variables. */
  #edit(): void {
    const simulation = this.#simulation;
    this.#issue = undefined;
    for (let changes = simulation.between(1, 3); changes > 0; changes--) {
      const name = simulation.pick(NAMES);
      const kind = simulation.pick(["set", "set", "set", "delete", "hide"]);
      if (kind === "delete") this.#file.delete(name);
      else this.#file.set(name, kind === "hide" ? undefined : this.#newValue());
    }
    if (simulation.chance(0.2)) this.#file.set(OVERRIDDEN, this.#newValue());
    this.#file.set(VERSION, this.#newValue());
  }

  #newValue(): string {
    const padding = this.#hasLargeValues
      ? this.#simulation.pick([0, 1_000, 30_000])
      : 0;
    return `${++this.#count}`.padEnd(padding, "é");
  }

  #breakFile(): void {
    this.#issue = this.#simulation.pick([
      "unreadable",
      "collision",
      "surrogate",
    ]);
    this.#simulation.note(`the file is invalid: ${this.#issue}`);
    for (const process of this.#simulation.living) void process.reload();
  }

  /** Returns a function that reads the file as it is now. */
  #copyFile(): () => Record<string, string> {
    if (this.#issue === "unreadable") {
      return () => {
        throw new ConfigurationError(["Cannot read the file"]);
      };
    }
    const variables = [...this.#file].map(([name, value]) =>
      value === undefined
        ? [`REP_SENSITIVE_${name}`, "hidden"]
        : [`REP_PUBLIC_${name}`, value]
    );
    variables.push(["REP_SENSITIVE_ALSO_KEPT", "1"]); // a tier that has lost all its variables is rejected
    if (this.#issue === "collision") {
      variables.push(["REP_PUBLIC_X", "1"], ["REP_SERVER_X", "1"]);
    }
    if (this.#issue === "surrogate") variables.push(["REP_PUBLIC_X", "\ud800"]);
    const copy = Object.fromEntries(variables);
    return () => copy;
  }

  /** Writes a variable to the store, as `variables set` does; it overrides the file. */
  async #writeStored(): Promise<void> {
    const { store, time, random } = this.#simulation;
    const clock = {
      now: () => time.now,
      monotonic: () => time.now,
      after: time.after.bind(time),
    };
    const options = { clock, random, ifId: undefined };
    const name = this.#simulation.chance(0.2)
      ? OVERRIDDEN
      : `${STORED_PREFIX}${this.#simulation.pick(NAMES)}`;
    const isUnset = this.#simulation.chance(0.3);
    if (isUnset) this.#stored.delete(name);
    else this.#stored.set(name, this.#newValue());
    const value = this.#stored.get(name);
    const write = value === undefined
      ? writeVariables(store, new Map([[name, undefined]]), options)
      : writeVariables(store, new Map([[name, value]]), options);
    await this.#simulation.wait(write); // a conflict with another write is retried after a pause
  }

  async #connect(): Promise<void> {
    const simulation = this.#simulation;
    const zero: Beginning = {
      query: "?last_event_id=0",
      cursor: 0,
      values: new Map(),
    };
    const unknown: Beginning = {
      query: "?last_event_id=nonsense",
      cursor: 0,
      values: new Map(),
    };
    const resumed: Beginning = {
      query: "",
      lastEventId: "0",
      cursor: 0,
      values: new Map(),
    };
    const { id = 0 } = simulation.pick(simulation.events) ?? {};
    const foreign: Beginning = {
      ...unknown,
      query: `?last_event_id=${id + 1}`,
    }; // of a log with another tag
    const openPage = () => this.#openPage();
    const beginnings = [
      () => zero,
      () => unknown,
      () => foreign,
      () => resumed,
      () => ({ query: "" }),
      openPage,
      openPage,
    ];
    const beginning = await simulation.pick(beginnings)();
    if (beginning === undefined) return;
    const name = `client ${this.#clients.length + 1}`;
    const parameters = simulation.pick(PARAMETERS);
    const query = `${beginning.query || "?"}${parameters}`;
    const client = new Client(simulation, name, { ...beginning, query });
    this.#clients.push(client);
  }

  /** Loads a page, if there is a process that answers. */
  async #openPage(): Promise<Beginning | undefined> {
    const simulation = this.#simulation;
    const payload = await payloadOf(
      simulation,
      simulation.pick(simulation.ready),
    );
    if (payload === undefined) return undefined;
    const query =
      new URL(payload._meta.hot_reload ?? "", "http://gateway.test").search;
    const cursor = Number(new URLSearchParams(query).get("last_event_id"));
    return {
      query,
      cursor,
      values: new Map(Object.entries<string>(payload.public)),
    };
  }

  /** Ends all faults, and checks the outcome. */
  async #finish(): Promise<void> {
    const simulation = this.#simulation;
    simulation.setStore("up");
    for (const { source } of this.#clients) source.isPaused = false;
    this.#issue = undefined;
    if (simulation.chance(0.5)) this.#edit();
    for (const process of simulation.living) process.slowDown(0);
    if (simulation.living.length === 0) this.#startProcess();
    await simulation.advance(AGREEMENT_MS / 2);
    if (simulation.living.length === 0) this.#startProcess(); // its file was invalid, or it was stopping
    await this.#reloadAll();
    if (simulation.chance(0.5)) await this.#rollOutToOne();
    await this.#reloadAll();
    await this.#verify();
    for (const process of simulation.living) void process.stop(0);
    await simulation.advance(1_000);
  }

  async #reloadAll(): Promise<void> {
    for (const process of this.#simulation.living) void process.reload();
    await this.#simulation.advance(AGREEMENT_MS);
  }

  /**
   * Deploys a new version of the file to one process of several. From then on it stays active, whatever is written to the
   * store, and however slowly some read that. No page goes back in time.
   */
  async #rollOutToOne(): Promise<void> {
    const simulation = this.#simulation;
    this.#startProcess();
    this.#startProcess();
    await simulation.advance(AGREEMENT_MS);
    for (const process of simulation.ready) this.#slowDown(process);
    this.#edit();
    const version = this.#file.get(VERSION);
    simulation.note(`the last version is ${version}`);
    void simulation.pick(simulation.ready).reload();
    const seen = new Map<Process, Positions>();
    for (let writes = simulation.between(2, 8); writes > 0; writes--) {
      await simulation.advance(
        simulation.pick([0, 1_000, simulation.between(0, 8_000)]),
      );
      await this.#writeStored();
      await this.#lookAtPages(seen);
    }
    await simulation.advance(AGREEMENT_MS / 2);
    for (const process of simulation.ready) process.slowDown(0);
    await this.#verify();
    const versions = simulation.events.filter(({ name }) => name === VERSION);
    const since = versions.findIndex(({ value }) => value === version);
    if (since !== versions.length - 1) {
      simulation.fail(`version ${version} was replaced by an older one`);
    }
    simulation.check();
  }

  /** @param seen What the pages of each process had before. */
  async #lookAtPages(seen: Map<Process, Positions>): Promise<void> {
    const simulation = this.#simulation;
    for (const process of simulation.ready) {
      const payload = await payloadOf(simulation, process);
      if (payload === undefined) continue;
      const positions = seen.get(process) ?? new Map();
      seen.set(process, positions);
      for (const name of simulation.writes.names) {
        const place = `a page of ${process.name}`;
        simulation.writes.arrive(name, payload.public[name], place, positions);
      }
    }
    simulation.check();
  }

  async #verify(): Promise<void> {
    const simulation = this.#simulation;
    const values = [...this.#file].filter((entry): entry is [string, string] =>
      entry[1] !== undefined
    );
    const expected = new Map([...values, ...this.#stored]);
    const published = simulation.states.at(-1) ?? new Map();
    if (!isEqual(published, expected)) {
      simulation.fail(
        `${describe(published)} is published instead of ${describe(expected)}`,
      );
    }
    for (const process of simulation.ready) {
      const payload = await payloadOf(simulation, process);
      const served = new Map(Object.entries(payload?.public ?? {}));
      if (!isEqual(served, expected)) {
        simulation.fail(`${process.name} serves ${describe(served)}`);
      }
    }
    for (const client of this.#clients) client.verify(expected);
    const hidden = simulation.events.filter(({ id, name, value }) =>
      value !== undefined && !simulation.deleted.has(id) &&
      this.#file.has(name) && this.#file.get(name) === undefined
    );
    for (const { name } of hidden) {
      simulation.fail(`the log has a value of ${name}, which is SENSITIVE`);
    }
    simulation.check();
  }
}

/** Returns what a page of a process contains. */
async function payloadOf(
  simulation: Simulation,
  process: Process | undefined,
): Promise<Payload | undefined> {
  const html = process && await simulation.wait(process.page(HTML));
  const json = /<script id="__rep__"[^>]*>([^<]*)</.exec(html ?? "")?.[1];
  return json === undefined ? undefined : JSON.parse(json);
}
