import { ConfigurationError } from "../../src/core/config/variables/snapshot.ts";
import { writeVariables } from "../../src/stored/write_variables.ts";
import type { Payload } from "../../src/core/pages/payload.ts";
import { equal } from "@std/assert";
import {
  type Beginning,
  type Client,
  describe,
  openClient,
} from "./_client.ts";
import { Process } from "./_process.ts";
import { type Simulation, VERSION } from "./_simulation.ts";
import { appendUpdates, createEventLog } from "../_event_log.ts";
import { type Positions, STORED_PREFIX } from "./_write_order.ts";

const NAMES = ["A", "B", "C", "D", "E"];
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
/** What an edit does to a variable. */
const KINDS = [
  "set",
  "set",
  "set",
  "delete",
  "hide",
  "hide",
  "restore",
  "restore",
] as const;

type Action = readonly [weight: number, action: () => void | Promise<void>];

const HTML = "<!doctype html><html><head></head><body></body></html>";

/**
 * Runs a random history of a service with one to three gateways, and of its clients.
 *
 * @throws {Error} If an event was lost or repeated, or if a client or a process ends with wrong values.
 */
export async function runScenario(simulation: Simulation) {
  const clients: Client[] = [];
  /** The variables of the file, without prefix; a value of `undefined` stands for a variable that is SENSITIVE. */
  const file = new Map<string, string | undefined>([["KEPT", "1"]]);
  /** The last PUBLIC value of each variable of the file. */
  const lastValues = new Map<string, string>();
  const stored = new Map<string, string>();
  let issue: string | undefined;
  let count = 0;
  const hasLargeValues = simulation.chance(0.1);
  simulation.file.copy = copyFile;

  /** Fills the log with more events than a process reads when it starts. */
  async function prefill() {
    const { store, time } = simulation;
    const log = createEventLog(store, {
      now: () => 1_000 + time.now,
      monotonic: () => time.now,
      after: () => () => {},
    });
    const bytes = hasLargeValues ? 20_000 : 1;
    const changes = Array.from({ length: 700 }, (_, index) => {
      return {
        name: simulation.pick(NAMES),
        value: `prefilled ${index}`.padEnd(bytes),
      };
    });
    await appendUpdates(log, changes);
  }

  async function act() {
    // Once the processes with an edit have ended, those with an older one are all that is left.
    const endings: Action[] = [
      [1, () => simulation.pick(simulation.living)?.kill()],
      [1, () => stopProcess()],
      [2, () => startProcess()],
    ];
    const actions: Action[] = [
      [6, () => publish()],
      [2, () => publishOften()],
      [4, () => writeStored()],
      [2, () => slowDown(simulation.pick(simulation.living))],
      [1, () => breakFile()],
      [4, () => connect()],
      [
        3,
        () =>
          simulation.pick(clients)?.source.disconnect(
            simulation.pick(["now", "later"]),
          ),
      ],
      [2, () => togglePause()],
      ...(simulation.file.isShared ? [] : endings),
      [
        1,
        () =>
          simulation.pick(simulation.living)?.jump(
            simulation.between(-60_000, 60_000),
          ),
      ],
      [2, () => failStore()],
      [2, () => hideDuringOutage()],
    ];
    const all = actions.flatMap(([weight, action]) =>
      Array<typeof action>(weight).fill(action)
    );
    await simulation.pick(all)();
  }

  function startProcess() {
    if (simulation.living.length >= 3) return;
    const name = `process ${simulation.processes.length + 1}`;
    simulation.note(`${name} starts`);
    simulation.processes.push(new Process(simulation, name));
  }

  function stopProcess() {
    const process = simulation.pick(simulation.ready);
    if (process === undefined) return;
    simulation.note(`${process.name} stops`);
    void process.stop(simulation.pick([0, 3_000]));
  }

  function failStore() {
    simulation.setStore(
      simulation.pick(["failing", "silent", "ambiguous", "full"]),
    );
    simulation.time.after(
      simulation.between(100, 20_000),
      () => simulation.setStore("up"),
    );
  }

  /** Makes a process read slowly, or not any more. */
  function slowDown(process: Process | undefined) {
    const maxMs = simulation.pick([0, 100, 1_000, 5_000]);
    simulation.note(`${process?.name} takes up to ${maxMs} ms to read`);
    process?.slowDown(maxMs);
  }

  function togglePause() {
    const client = simulation.pick(clients);
    if (client !== undefined) client.source.isPaused = !client.source.isPaused;
  }

  function publish() {
    edit();
    for (const process of simulation.living) {
      simulation.time.after(
        simulation.pick([0, 50, 3_000]),
        () => void process.reload(),
      );
    }
  }

  async function publishOften() {
    for (let times = simulation.between(2, 12); times > 0; times--) {
      publish();
      await simulation.advance(simulation.pick([0, 1, 100]));
    }
  }

  /** Sets, deletes, hides or restores some variables. */
  function edit() {
    issue = undefined;
    for (let changes = simulation.between(1, 3); changes > 0; changes--) {
      const name = simulation.pick(NAMES);
      const last = lastValues.get(name);
      const kind = simulation.pick(KINDS);
      if (kind === "delete") file.delete(name);
      else if (kind === "hide") file.set(name, undefined);
      else if (kind === "restore" && last !== undefined) file.set(name, last);
      else file.set(name, newValue());
      const value = file.get(name);
      if (value !== undefined) lastValues.set(name, value);
    }
    if (simulation.chance(0.2)) file.set(OVERRIDDEN, newValue());
    file.set(VERSION, newValue());
  }

  /** Hides a variable while nothing can be published, loads pages without it, and restores it with its value. */
  async function hideDuringOutage() {
    const [name, value] =
      simulation.pick([...file].filter(([, value]) => value !== undefined)) ??
        [];
    if (name === undefined) return;
    simulation.setStore("full");
    simulation.time.after(
      simulation.between(5_000, 20_000),
      () => simulation.setStore("up"),
    );
    for (const next of [undefined, value]) {
      file.set(name, next);
      file.set(VERSION, newValue());
      for (const process of simulation.living) void process.reload();
      await simulation.advance(simulation.pick([0, 1_000]));
      if (next === undefined) await connect();
    }
  }

  function newValue(): string {
    const padding = hasLargeValues ? simulation.pick([0, 1_000, 30_000]) : 0;
    return `${++count}`.padEnd(padding, "é");
  }

  function breakFile() {
    issue = simulation.pick([
      "unreadable",
      "collision",
      "surrogate",
    ]);
    simulation.note(`the file is invalid: ${issue}`);
    for (const process of simulation.living) void process.reload();
  }

  /** Returns a function that reads the file as it is now. */
  function copyFile(): () => Record<string, string> {
    if (issue === "unreadable") {
      return () => {
        throw new ConfigurationError(["Cannot read the file"]);
      };
    }
    const variables = [...file].map(([name, value]) =>
      value === undefined
        ? [`REP_SENSITIVE_${name}`, "hidden"]
        : [`REP_PUBLIC_${name}`, value]
    );
    if (issue === "collision") {
      variables.push(["REP_PUBLIC_X", "1"], ["REP_SERVER_X", "1"]);
    }
    if (issue === "surrogate") variables.push(["REP_PUBLIC_X", "\ud800"]);
    const copy = Object.fromEntries(variables);
    return () => copy;
  }

  /** Writes a variable to the store, as `variables set` does; it overrides the file. */
  async function writeStored() {
    const { store, time, random } = simulation;
    const clock = {
      now: () => time.now,
      monotonic: () => time.now,
      after: time.after.bind(time),
    };
    const options = { clock, random, ifId: undefined };
    const name = simulation.chance(0.2)
      ? OVERRIDDEN
      : `${STORED_PREFIX}${simulation.pick(NAMES)}`;
    const isUnset = simulation.chance(0.3);
    if (isUnset) stored.delete(name);
    else stored.set(name, newValue());
    const value = stored.get(name);
    const write = value === undefined
      ? writeVariables(store, new Map([[name, undefined]]), options)
      : writeVariables(store, new Map([[name, value]]), options);
    await simulation.wait(write); // a conflict with another write is retried after a pause
  }

  async function connect() {
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
    const parameters = simulation.pick(PARAMETERS);
    const query = `${beginning.query || "?"}${parameters}`;
    const number = clients.length + 1;
    clients.push(openClient(simulation, number, { ...beginning, query }));
  }

  /** Loads a page, if there is a process that answers. */
  async function openPage(): Promise<Beginning | undefined> {
    const payload = await payloadOf(
      simulation,
      simulation.pick(simulation.ready),
    );
    if (payload === undefined) return undefined;
    const query =
      new URL(payload._meta.hot_reload ?? "", "http://gateway.test").search;
    const cursor = Number(new URLSearchParams(query).get("last_event_id"));
    checkPublished(payload, cursor);
    return {
      query,
      cursor,
      values: new Map(Object.entries<string>(payload.public)),
    };
  }

  /** A page has no value that was not published, unless its process knows of no event at all. */
  function checkPublished(payload: Payload, cursor: number) {
    if (cursor === 0) return;
    for (const [name, value] of Object.entries(payload.public)) {
      const isPublished = simulation.events.some((event) =>
        event.name === name && event.value === value
      );
      if (!isPublished) simulation.fail(`a page has ${name}=${value}`);
    }
  }

  /** Ends all faults, and checks the outcome. */
  async function finish() {
    simulation.setStore("up");
    for (const { source } of clients) source.isPaused = false;
    issue = undefined;
    if (simulation.chance(0.5)) edit();
    for (const process of simulation.living) process.slowDown(0);
    if (simulation.living.length === 0) startProcess();
    await simulation.advance(AGREEMENT_MS / 2);
    if (simulation.living.length === 0) startProcess(); // its file was invalid, or it was stopping
    await reloadAll();
    if (simulation.chance(0.5)) await rollOutToOne();
    await reloadAll();
    await verify();
    if (simulation.file.isShared) await raceTwoEdits();
    for (const process of simulation.living) void process.stop(0);
    await simulation.advance(1_000);
  }

  async function reloadAll() {
    for (const process of simulation.living) void process.reload();
    await simulation.advance(AGREEMENT_MS);
  }

  /**
   * Deploys a new version of the file to one process of several. From then on it stays active, whatever is written to the
   * store, and however slowly some read that. No page goes back in time.
   */
  async function rollOutToOne() {
    startProcess();
    startProcess();
    await simulation.advance(AGREEMENT_MS);
    for (const process of simulation.ready) slowDown(process);
    edit();
    const version = file.get(VERSION);
    simulation.note(`the last version is ${version}`);
    void simulation.pick(simulation.ready).reload();
    const seen = new Map<Process, Positions>();
    for (let writes = simulation.between(2, 8); writes > 0; writes--) {
      await simulation.advance(
        simulation.pick([0, 1_000, simulation.between(0, 8_000)]),
      );
      await writeStored();
      await lookAtPages(seen);
    }
    await simulation.advance(AGREEMENT_MS / 2);
    for (const process of simulation.ready) process.slowDown(0);
    // With a slow store, a publication takes half a minute, and a client that polls asks once a minute.
    const isLate = clients.some((client) => client.missing().length > 0);
    if (isLate) await simulation.advance(AGREEMENT_MS / 2);
    await verify();
    const versions = simulation.events.filter(({ name }) => name === VERSION);
    const since = versions.findIndex(({ value }) => value === version);
    if (since !== versions.length - 1) {
      simulation.fail(`version ${version} was replaced by an older one`);
    }
    simulation.check();
  }

  /**
   * Of two edits of the file that all share, two processes read one each, so that the rollout of the first may begin while
   * the second is still being read. At the latest when a third process has read it, the second one is published.
   */
  async function raceTwoEdits() {
    startProcess();
    startProcess();
    await simulation.advance(AGREEMENT_MS);
    const [first, second, third] = simulation.ready;
    slowDown(second);
    edit();
    void first?.reload();
    await simulation.advance(simulation.pick([0, 10, 300]));
    edit();
    void second?.reload();
    await simulation.advance(AGREEMENT_MS);
    second?.slowDown(0);
    void third?.reload();
    await simulation.advance(AGREEMENT_MS);
    await verify();
  }

  /** @param seen What the pages of each process had before. */
  async function lookAtPages(seen: Map<Process, Positions>) {
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

  async function verify() {
    const values = [...file].filter((entry): entry is [string, string] =>
      entry[1] !== undefined
    );
    const expected = new Map([...values, ...stored]);
    const published = simulation.states.at(-1) ?? new Map();
    if (!equal(published, expected)) {
      simulation.fail(
        `${describe(published)} is published instead of ${describe(expected)}`,
      );
    }
    for (const process of simulation.ready) {
      const payload = await payloadOf(simulation, process);
      const served = new Map(Object.entries(payload?.public ?? {}));
      if (!equal(served, expected)) {
        simulation.fail(`${process.name} serves ${describe(served)}`);
      }
    }
    for (const client of clients) client.verify(expected);
    const hidden = simulation.events.filter(({ id, name, value }) =>
      value !== undefined && !simulation.deleted.has(id) &&
      file.has(name) && file.get(name) === undefined
    );
    for (const { name } of hidden) {
      simulation.fail(`the log has a value of ${name}, which is SENSITIVE`);
    }
    simulation.check();
  }
  if (simulation.chance(0.1)) await prefill();
  edit();
  for (
    let processes = simulation.pick(
      simulation.file.isShared ? [1, 2, 3, 3] : [1, 1, 2, 3],
    );
    processes > 0;
    processes--
  ) startProcess();
  await simulation.advance(simulation.pick([0, 2_000]));
  for (let step = simulation.between(5, 25); step > 0; step--) {
    await act();
    await simulation.advance(
      simulation.pick([
        0,
        0,
        simulation.between(0, 50),
        simulation.between(0, 8_000),
      ]),
    );
  }
  await finish();
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
