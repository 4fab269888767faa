import { assertEquals, assertRejects } from "@std/assert";
import type { EventLog } from "../../src/changes/event_log.ts";
import { Publisher } from "../../src/changes/publisher.ts";
import { Tail } from "../../src/changes/tail.ts";
import type { Environment } from "../../src/config/variables/tiers.ts";
import { Configuration } from "../../src/config/configuration.ts";
import { ConfigurationError } from "../../src/config/variables/snapshot.ts";
import { StoredVariablesSource } from "../../src/config/stored/stored_variables_source.ts";
import type { Log, LogFields } from "../../src/observe/log.ts";
import { noMetrics } from "../../src/observe/metrics.ts";
import { memoryStore } from "../../src/store/memory.ts";
import { publicHash, shortHash } from "../../src/values/hash.ts";
import { FakeClock, settle } from "../../tools/fake_clock.ts";
import { snapshotInput } from "../_snapshot.ts";
import { createEventLog } from "../_event_log.ts";

const AWS_KEY = "AKIAIOSFODNN7EXAMPLE";

/** The start of the clock, and the id of the first event. */
const T = 1_700_000_000_000;
const FIRST_ID = T * 1_000;

/** Sources that a test changes, a store that it can stop, and what came of both. */
class World {
  readonly clock = new FakeClock(T);
  readonly log: string[] = [];
  /** The public maps that were published, in order. */
  readonly published: Record<string, string>[] = [];
  readonly configuration: Configuration;
  readonly publisher: Publisher;
  readonly eventLog: EventLog;
  readonly #tail: Tail;
  environment: Environment;
  manifest: string | undefined;
  strict = false;
  /** Set while the store does not answer. */
  outage: Error | undefined;
  /** Whether another configuration is active. */
  isSuperseded = false;
  /** Awaited by every read and by every publishing. */
  reading: Promise<unknown> = Promise.resolve();
  publishing: Promise<unknown> = Promise.resolve();
  reads = 0;

  constructor(environment: Environment = {}) {
    this.environment = environment;
    const { clock } = this;
    const store = memoryStore();
    const eventLog = this.eventLog = createEventLog(store, clock);
    const tail = this.#tail = new Tail(eventLog);
    const source = {
      store,
      clock,
      random: () => 0,
      signal: AbortSignal.abort(),
    };
    const storedVariables = new StoredVariablesSource(source);
    const common = {
      storedVariables,
      clock,
      random: () => 0,
      log: this.#log(),
      metrics: noMetrics,
    };
    const publisher = this.publisher = new Publisher({
      ...common,
      store,
      rollout: this.#rollout(),
      eventLog,
      tail,
    });
    this.configuration = new Configuration({
      ...common,
      read: () => this.#read(),
      publisher,
    });
  }

  async load(): Promise<Configuration> {
    await this.configuration.load();
    await this.publisher.publish(this.configuration.snapshot);
    return this.configuration;
  }

  async close(): Promise<void> {
    await Promise.all([this.configuration.close(), this.publisher.close()]);
    await this.#tail.close();
  }

  /** The values of all events, in order. */
  async events(): Promise<[name: string, value: string | undefined][]> {
    return (await this.eventLog.after(0, Infinity)).map((
      { name, value },
    ) => [name, value]);
  }

  async #read() {
    this.reads++;
    const { environment, manifest, strict } = this;
    await this.reading;
    return snapshotInput({ environment, manifest, strict });
  }

  #rollout() {
    return {
      hash: undefined,
      active: undefined,
      members: [],
      join: () => Promise.resolve(),
      fencingChecks: async () => {
        const target = this.configuration.snapshot.public;
        await this.publishing;
        if (this.outage) throw this.outage;
        if (this.isSuperseded) return undefined;
        this.published.push(Object.fromEntries(target));
        return [];
      },
    };
  }

  #log(): Log {
    const write =
      (level: string) => (event: string, fields: LogFields = {}) => {
        this.log.push(`${level} ${event} ${JSON.stringify(fields)}`);
      };
    return {
      debug: write("debug"),
      info: write("info"),
      warn: write("warn"),
      error: write("error"),
    };
  }

  /** The lines of the log about an event. */
  linesOf(event: string): string[] {
    return this.log.filter((line) => line.split(" ")[1] === event);
  }
}

/** Returns how the log describes a configuration. */
async function described(
  values: Record<string, string>,
  sensitive = 0,
  server = 0,
): Promise<string> {
  const configuration = shortHash(
    await publicHash(new Map(Object.entries(values))),
  );
  return JSON.stringify({
    configuration,
    public: Object.keys(values).length,
    sensitive,
    server,
  }).slice(0, -1);
}

function publicOf({ snapshot }: Configuration): Record<string, string> {
  return Object.fromEntries(snapshot.public);
}

Deno.test("Configuration.load() publishes what it read, and says what it counted and what changed", async () => {
  const world = new World({
    REP_PUBLIC_A: "1",
    REP_SENSITIVE_B: "2",
    REP_SERVER_C: "3",
  });
  const configuration = await world.load();
  await world.close();
  assertEquals([publicOf(configuration), world.published], [{ A: "1" }, [{
    A: "1",
  }]]);
  assertEquals(world.log, [
    `info rep.config.loaded ${await described({ A: "1" }, 1, 1)},"warnings":0}`,
    `info rep.config.changed {"key":"A","tier":"public","action":"update","id":${FIRST_ID}}`,
  ]);
});

Deno.test("reload() puts what the sources hold into force and publishes it", async () => {
  const world = new World({ REP_PUBLIC_A: "1", REP_PUBLIC_B: "1" });
  const configuration = await world.load();
  world.log.length = 0;
  world.environment = { REP_PUBLIC_A: "2", REP_SENSITIVE_C: "3" };
  await configuration.reload();
  await world.close();
  assertEquals([publicOf(configuration), world.published.at(-1)], [{ A: "2" }, {
    A: "2",
  }]);
  assertEquals(world.log, [
    `info rep.config.changed {"key":"A","tier":"public","action":"update","id":${
      FIRST_ID + 2_000
    }}`,
    `info rep.config.changed {"key":"B","tier":"public","action":"delete","id":${
      FIRST_ID + 3_000
    }}`,
    `info rep.config.reloaded ${await described({ A: "2" }, 1)}}`,
  ]);
});

Deno.test("reload() says once that nothing has changed if somebody has asked for it", async () => {
  const world = new World({ REP_PUBLIC_A: "1" });
  const configuration = await world.load();
  world.log.length = 0;
  await configuration.reload({ logsUnchanged: true });
  await configuration.reload();
  await world.close();
  assertEquals(world.log, [
    `info rep.config.reloaded ${await described({
      A: "1",
    })},"detail":"no variable has changed"}`,
    `debug rep.config.reloaded ${await described({ A: "1" })}}`,
  ]);
});

Deno.test("reload() keeps everything when there is a fault, says why, and takes the next good state", async () => {
  const world = new World({ REP_PUBLIC_A: "1" });
  const configuration = await world.load();
  const { snapshot } = configuration;
  world.environment = {
    REP_PUBLIC_A: "2",
    REP_PUBLIC_B: "2",
    REP_SERVER_B: "s3cret",
  };
  await assertRejects(() => configuration.reload(), ConfigurationError);
  assertEquals(configuration.snapshot === snapshot, true);
  assertEquals([
    configuration.isReloadRejected,
    configuration.blocked,
    world.published,
  ], [true, 0, [{ A: "1" }]]);
  assertEquals(world.linesOf("rep.config.rejected"), [
    'error rep.config.rejected {"detail":"the previous configuration stays active","issues":["Cannot use REP_PUBLIC_B and ' +
    'REP_SERVER_B: expected a name in one tier only"]}',
  ]);

  world.environment = { REP_PUBLIC_A: "2" };
  await configuration.reload();
  await world.close();
  assertEquals([publicOf(configuration), configuration.isReloadRejected], [{
    A: "2",
  }, false]);
});

/** Sources after which a tier has none of its variables A (SERVER), B and C (PUBLIC), and the tiers. */
const EMPTIED: readonly (readonly [Record<string, string>, string[]])[] = [
  [{}, ["PUBLIC", "SERVER"]],
  [{ B: "2" }, ["PUBLIC", "SERVER"]],
  [{ REP_GATEWAY_PORT: "80" }, ["PUBLIC", "SERVER"]],
  [{ REP_SERVER_A: "1" }, ["PUBLIC"]],
  [{ REP_PUBLIC_B: "2" }, ["SERVER"]],
  [{ REP_SERVER_A: "1", REP_SENSITIVE_B: "2" }, ["PUBLIC"]],
];

Deno.test("reload() rejects sources that have lost all variables of a tier, but not sources that never had any", async () => {
  const world = new World({});
  const configuration = await world.load();
  await configuration.reload();
  const full = { REP_SERVER_A: "1", REP_PUBLIC_B: "2", REP_PUBLIC_C: "3" };
  world.environment = full;
  await configuration.reload();
  for (const [environment, tiers] of EMPTIED) {
    world.environment = environment;
    const { issues } = await assertRejects(
      () => configuration.reload(),
      ConfigurationError,
    );
    assertEquals(
      issues,
      tiers.map((tier) =>
        `Cannot use the variables: expected names that begin with REP_${tier}_, as before, got none; only a restart removes them all`
      ),
    );
    assertEquals(publicOf(configuration), { B: "2", C: "3" });
  }
  world.environment = full;
  await configuration.reload();
  assertEquals(configuration.isReloadRejected, false);
  await world.close();
});

Deno.test("reload() accepts that all variables of a tier move to another one", async () => {
  const world = new World({ REP_PUBLIC_A: "1", REP_PUBLIC_B: "2" });
  const configuration = await world.load();
  world.environment = { REP_SENSITIVE_A: "1", REP_SERVER_B: "2" };
  await configuration.reload();
  assertEquals([publicOf(configuration), configuration.isReloadRejected], [
    {},
    false,
  ]);
  await world.close();
});

Deno.test("reload() keeps everything when the sources cannot be read, whatever they throw", async () => {
  const world = new World({ REP_PUBLIC_A: "1" });
  const configuration = await world.load();
  world.reading = Promise.reject(new Deno.errors.NotFound("no such file"));
  await assertRejects(
    () => configuration.reload(),
    Deno.errors.NotFound,
    "no such file",
  );
  await world.close();
  assertEquals([publicOf(configuration), configuration.isReloadRejected], [{
    A: "1",
  }, true]);
});

Deno.test("reload() in strict mode keeps the old value, and counts what it rejected", async () => {
  const world = new World({ REP_PUBLIC_A: "1" });
  world.strict = true;
  const configuration = await world.load();
  assertEquals(configuration.blocked, 0);
  world.environment = { REP_PUBLIC_A: AWS_KEY, REP_PUBLIC_B: AWS_KEY };
  await assertRejects(() => configuration.reload(), ConfigurationError);
  await world.close();
  assertEquals([
    publicOf(configuration),
    configuration.isReloadRejected,
    configuration.blocked,
  ], [{ A: "1" }, true, 2]);
  assertEquals(world.log.join("\n").includes(AWS_KEY), false);
});

Deno.test("reload() logs the issues of a rejected change again only if they have changed, were gone, or somebody has asked", async () => {
  const world = new World({ REP_PUBLIC_A: "1" });
  const configuration = await world.load();
  const rejections: number[] = [];
  const reloadWith = async (
    environment: Environment,
    options?: { logsUnchanged: boolean },
  ) => {
    world.environment = { REP_PUBLIC_A: "1", ...environment };
    await configuration.reload(options).catch(() => {}); // the log tells
    rejections.push(world.linesOf("rep.config.rejected").length);
  };
  const [one, another] = [{ REP_SERVER_A: "1" }, { REP_SENSITIVE_A: "1" }];
  for (const environment of [one, one, another, another, {}, another]) {
    await reloadWith(environment);
  }
  await reloadWith(another, { logsUnchanged: true });
  await reloadWith(another);
  await world.close();
  assertEquals(rejections, [1, 1, 2, 2, 2, 3, 4, 4]);
  assertEquals(world.linesOf("rep.config.reloaded").length, 1);
});

Deno.test("reload() without strict mode warns of what looks like a secret, once", async () => {
  const world = new World({ REP_PUBLIC_A: AWS_KEY });
  const configuration = await world.load();
  await configuration.reload();
  world.environment = { REP_PUBLIC_A: AWS_KEY, REP_PUBLIC_B: AWS_KEY };
  await configuration.reload();
  await world.close();
  const detail =
    '"detection_type":"known_format","detail":"the value looks like an AWS access key"}';
  assertEquals(world.linesOf("rep.guardrail.warning"), [
    `warn rep.guardrail.warning {"variable_name":"A",${detail}`,
    `warn rep.guardrail.warning {"variable_name":"B",${detail}`,
  ]);
  assertEquals(configuration.snapshot.warnings.length, 2);
});

Deno.test("reload() warns of a deprecated variable once, and again when it came back", async () => {
  const world = new World({ REP_PUBLIC_OLD: "1" });
  const declaration = {
    tier: "public",
    deprecated: true,
    deprecated_message: "Use NEW",
  };
  world.manifest = JSON.stringify({
    version: "0.1.0",
    variables: { OLD: declaration },
  });
  const configuration = await world.load();
  await configuration.reload();
  const line =
    'warn rep.config.deprecated {"variable_name":"OLD","detail":"Use NEW"}';
  assertEquals(world.linesOf("rep.config.deprecated"), [line]);
  world.environment = { REP_PUBLIC_NEW: "1" };
  await configuration.reload();
  world.environment = { REP_PUBLIC_OLD: "1" };
  await configuration.reload();
  await world.close();
  assertEquals(world.linesOf("rep.config.deprecated"), [line, line]);
});

Deno.test("reload() joins calls that come while one waits, and sees what changed while another ran", async () => {
  const world = new World({ REP_PUBLIC_A: "1" });
  const configuration = await world.load();
  const gate = Promise.withResolvers<void>();
  world.reading = gate.promise;
  world.environment = { REP_PUBLIC_A: "2" };
  const first = configuration.reload();
  await settle(); // the first has read "2", and waits
  world.environment = { REP_PUBLIC_A: "3" };
  const later = [
    configuration.reload(),
    configuration.reload(),
    configuration.reload(),
  ];
  gate.resolve();
  await first;
  assertEquals(publicOf(configuration), { A: "2" });
  await Promise.all(later);
  await world.close();
  assertEquals([publicOf(configuration), world.reads, world.published], [
    { A: "3" },
    3,
    [{ A: "1" }, { A: "2" }, { A: "3" }],
  ]);
});

Deno.test("what could not be published is in force, and published by the first retry that succeeds", async () => {
  const world = new World({ REP_PUBLIC_A: "1" });
  world.outage = new Error("no answer");
  const configuration = await world.load();
  assertEquals([publicOf(configuration), world.published], [{ A: "1" }, []]);
  assertEquals(world.linesOf("rep.config.not_published"), [
    'error rep.config.not_published {"detail":"no answer; retrying"}',
  ]);
  await world.publisher.retry();
  assertEquals(world.linesOf("rep.config.not_published").slice(1), [
    'debug rep.config.not_published {"detail":"no answer; retrying"}',
  ]);
  world.outage = undefined;
  for (let retries = 0; retries < 2; retries++) await world.publisher.retry();
  assertEquals(world.published, [{ A: "1" }]);
  assertEquals(world.linesOf("rep.config.changed").length, 1);
  await world.close();
});

Deno.test("a retry that is under way does not bring an older snapshot back", async () => {
  const world = new World({ REP_PUBLIC_A: "1" });
  world.outage = new Error("no answer");
  const configuration = await world.load();
  world.outage = undefined;
  const gate = Promise.withResolvers<void>();
  world.publishing = gate.promise;
  const retry = world.publisher.retry();
  await settle(); // the retry holds "1", and waits
  world.publishing = Promise.resolve();
  world.environment = { REP_PUBLIC_A: "2" };
  const reload = configuration.reload();
  await settle();
  gate.resolve();
  await Promise.all([retry, reload]);
  await world.close();
  assertEquals(world.published, [{ A: "1" }, { A: "2" }]);
});

Deno.test("close() waits for the reload that is under way, and lets none begin after it", async () => {
  const world = new World({ REP_PUBLIC_A: "1" });
  const configuration = await world.load();
  const gate = Promise.withResolvers<void>();
  world.reading = gate.promise;
  world.environment = { REP_PUBLIC_A: "2" };
  const running = configuration.reload();
  await settle();
  const waiting = configuration.reload();
  let isClosed = false;
  const closed = world.close().then(() => isClosed = true);
  await settle();
  assertEquals(isClosed, false);
  gate.resolve();
  await Promise.all([running, waiting, closed, configuration.reload()]);
  assertEquals([world.reads, publicOf(configuration)], [2, { A: "2" }]);
});
