import { assertEquals, assertInstanceOf, assertRejects } from "@std/assert";
import { ConfigurationError } from "../../../src/core/config/variables/snapshot.ts";
import { memoryStore } from "../../../src/engines/memory.ts";
import { publicHash, shortHash } from "../../../src/core/values/hash.ts";
import { FakeClock, settle } from "../../../tools/fake_clock.ts";
import { setUp, type TestGateway } from "../../_gateway.ts";
import { fallibleStore } from "../../_store.ts";

const AWS_KEY = "AKIAIOSFODNN7EXAMPLE";

/** The start of the clock, and the id of the first event. */
const T = 1_700_000_000_000;
const FIRST_ID = T * 1_000;

/** Returns the lines of the log about events with this prefix, without their time and the digests of random keys. */
function linesOf({ lines }: TestGateway, prefix: string) {
  const found = lines.filter(({ msg }) => String(msg).startsWith(prefix));
  return found.map((
    { time: _, sensitive_digest: _s, server_digest: _t, ...line },
  ) => line);
}

/** Returns how the log describes a configuration. */
async function described(
  values: Record<string, string>,
  sensitive = 0,
  server = 0,
) {
  const hash = await publicHash(new Map(Object.entries(values)));
  const configuration = shortHash(hash);
  const count = Object.keys(values).length;
  return { configuration, public: count, sensitive, server };
}

/** Returns the health report, which says what was rejected. */
async function healthOf(gate: TestGateway) {
  return await (await gate.ask("/rep/health")).json();
}

Deno.test("load() publishes what it read, and says what it counted and what changed", async () => {
  await using gate = await setUp({
    REP_PUBLIC_A: "1",
    REP_SENSITIVE_B: "2",
    REP_SERVER_C: "3",
  }, { clock: new FakeClock(T) });
  assertEquals(linesOf(gate, "rep.config"), [
    {
      level: "INFO",
      msg: "rep.config.loaded",
      ...await described({ A: "1" }, 1, 1),
      warnings: 0,
    },
    {
      level: "INFO",
      msg: "rep.config.changed",
      key: "A",
      tier: "public",
      action: "update",
      id: FIRST_ID,
      source: "variables",
    },
  ]);
});

Deno.test("reload() puts what the sources hold into force and publishes it", async () => {
  const variables = { REP_PUBLIC_A: "1", REP_PUBLIC_B: "1" };
  await using gate = await setUp(variables, { clock: new FakeClock(T) });
  gate.lines.length = 0;
  await gate.set({ REP_PUBLIC_A: "2", REP_SENSITIVE_C: "3" });
  assertEquals(["A", "B"].map(gate.gateway.get), ["2", undefined]);
  const changed = {
    level: "INFO",
    msg: "rep.config.changed",
    tier: "public",
    source: "variables",
  };
  assertEquals(linesOf(gate, "rep.config"), [
    { ...changed, key: "A", action: "update", id: FIRST_ID + 2_000 },
    { ...changed, key: "B", action: "delete", id: FIRST_ID + 3_000 },
    {
      level: "INFO",
      msg: "rep.config.reloaded",
      ...await described({ A: "2" }, 1),
    },
  ]);
});

Deno.test("reload() says that nothing has changed if somebody has asked for it", async () => {
  await using gate = await setUp({ REP_PUBLIC_A: "1" });
  await gate.gateway.reload({ isRequested: true });
  await gate.gateway.reload();
  const line = { msg: "rep.config.reloaded", ...await described({ A: "1" }) };
  assertEquals(linesOf(gate, "rep.config.reloaded"), [
    { ...line, level: "INFO", detail: "no variable has changed" },
    { ...line, level: "DEBUG" },
  ]);
});

Deno.test("reload() keeps everything when there is a fault, says why, and takes the next good state", async () => {
  await using gate = await setUp({ REP_PUBLIC_A: "1" });
  const faulty = { REP_PUBLIC_B: "2", REP_SERVER_B: "s3cret" };
  await assertRejects(
    () => gate.set({ REP_PUBLIC_A: "2", ...faulty }),
    ConfigurationError,
  );
  assertEquals(["A", "B"].map(gate.gateway.get), ["1", undefined]);
  assertEquals(linesOf(gate, "rep.config.rejected"), [{
    level: "ERROR",
    msg: "rep.config.rejected",
    detail: "the previous sources stay active, with the variables in the store",
    issues: [
      "Cannot use REP_PUBLIC_B and REP_SERVER_B: expected a name in one tier only",
    ],
  }]);
  assertEquals(linesOf(gate, "rep.config.changed").length, 1);
  await gate.set({ REP_PUBLIC_A: "2" });
  assertEquals(gate.gateway.get("A"), "2");
});

Deno.test("reload() rejects sources that have lost all variables, but not sources that never had any", async () => {
  await using gate = await setUp({});
  await gate.gateway.reload();
  const full = { REP_SERVER_A: "1", REP_PUBLIC_B: "2" };
  await gate.set(full);
  for (const environment of [{}, { B: "2" }, { REP_GATEWAY_PORT: "80" }]) {
    const { issues } = await assertRejects(
      () => gate.set(environment),
      ConfigurationError,
    );
    assertEquals(issues, [
      "Cannot use the variables: expected some, as before, got none; to remove them all on purpose, restart",
    ]);
    assertEquals(gate.gateway.get("B"), "2");
  }
  await gate.set(full);
  assertEquals((await healthOf(gate)).status, "healthy");
});

for (const tier of ["PUBLIC", "SENSITIVE", "SERVER"]) {
  Deno.test(`reload() removes the last variable of the tier ${tier} while another one stays`, async () => {
    const others = ["PUBLIC", "SENSITIVE", "SERVER"].filter((it) =>
      it !== tier
    );
    const rest = { [`REP_${others[0]}_B`]: "2" };
    await using gate = await setUp({ [`REP_${tier}_A`]: "1", ...rest });
    await gate.set(rest);
    const { status, variables } = await healthOf(gate);
    assertEquals(status, "healthy");
    assertEquals(variables[tier.toLowerCase()], 0);
  });
}

Deno.test("reload() returns the last variable of a tier to its default (REP-RFC-0001 §6.3)", async () => {
  const manifest = `version: "0.1.0"
variables:
  A: { tier: public, default: default }
  S: { tier: server }
`;
  const rest = { REP_SERVER_S: "1" };
  await using gate = await setUp({ REP_PUBLIC_A: "set", ...rest }, {
    manifest,
  });
  assertEquals(gate.gateway.get("A"), "set");
  await gate.set(rest);
  assertEquals(gate.gateway.get("A"), "default");
});

Deno.test("reload() rejects a manifest with an invalid default, also while it is overridden", async () => {
  const withDefault = (value: string) =>
    `version: "0.1.0"
variables:
  A: { tier: public, type: number, default: ${value} }
`;
  let manifest = withDefault("1");
  await using gate = await setUp({ REP_PUBLIC_A: "2" }, {
    manifest: () => manifest,
  });
  manifest = withDefault("ten");
  const { issues } = await assertRejects(
    () => gate.set({ REP_PUBLIC_A: "3" }),
    ConfigurationError,
  );
  assertEquals(issues, [
    'Cannot use the default of REP_PUBLIC_A in the manifest: expected a number, got "ten"',
  ]);
  assertEquals(gate.gateway.get("A"), "2");
});

Deno.test("reload() accepts that all variables of a tier move to another one", async () => {
  await using gate = await setUp({ REP_PUBLIC_A: "1", REP_PUBLIC_B: "2" });
  await gate.set({ REP_SENSITIVE_A: "1", REP_SERVER_B: "2" });
  assertEquals(["A", "B"].map(gate.gateway.get), [undefined, undefined]);
  assertEquals(["A", "B"].map(gate.gateway.getPrivate), ["1", "2"]);
});

Deno.test("reload() keeps everything when the sources cannot be read, whatever they throw", async () => {
  let reading = Promise.resolve({ REP_PUBLIC_A: "1" });
  await using gate = await setUp({}, { variables: () => reading });
  reading = Promise.reject(new Deno.errors.NotFound("no such file"));
  const error = await assertRejects(
    () => gate.gateway.reload(),
    ConfigurationError,
    "Cannot read variables: got NotFound",
  );
  assertInstanceOf(error.cause, Deno.errors.NotFound);
  assertEquals(error.cause.message, "no such file");
  assertEquals(gate.gateway.get("A"), "1");
  assertEquals((await healthOf(gate)).problems, ["config_rejected"]);
});

Deno.test("reload() in strict mode keeps the old value, and counts what it rejected", async () => {
  await using gate = await setUp({ REP_PUBLIC_A: "1" }, { strict: true });
  const secrets = { REP_PUBLIC_A: AWS_KEY, REP_PUBLIC_B: AWS_KEY };
  await assertRejects(() => gate.set(secrets), ConfigurationError);
  assertEquals(gate.gateway.get("A"), "1");
  assertEquals((await healthOf(gate)).guardrails.blocked, 2);
  assertEquals(JSON.stringify(gate.lines).includes(AWS_KEY), false);
});

Deno.test("reload() logs the issues of a rejected change again only if they have changed, were gone, or somebody has asked", async () => {
  let variables: Record<string, string> = { REP_PUBLIC_A: "1" };
  await using gate = await setUp({}, { variables: () => variables });
  const rejections: number[] = [];
  const reloadWith = async (
    more: Record<string, string>,
    options?: { isRequested: boolean },
  ) => {
    variables = { REP_PUBLIC_A: "1", ...more };
    await gate.gateway.reload(options).catch(() => {}); // the log tells
    rejections.push(linesOf(gate, "rep.config.rejected").length);
  };
  const [one, another] = [{ REP_SERVER_A: "1" }, { REP_SENSITIVE_A: "1" }];
  for (const more of [one, one, another, another, {}, another]) {
    await reloadWith(more);
  }
  await reloadWith(another, { isRequested: true });
  await reloadWith(another);
  assertEquals(rejections, [1, 1, 2, 2, 2, 3, 4, 4]);
  assertEquals(linesOf(gate, "rep.config.reloaded").length, 1);
});

Deno.test("reload() without strict mode warns of what looks like a secret, once", async () => {
  await using gate = await setUp({ REP_PUBLIC_A: AWS_KEY });
  await gate.gateway.reload();
  await gate.set({ REP_PUBLIC_A: AWS_KEY, REP_PUBLIC_B: AWS_KEY });
  const warningOf = (name: string) => ({
    level: "WARN",
    msg: "rep.guardrail.warning",
    variable_name: name,
    detection_type: "known_format",
    detail:
      `the value looks like an AWS access key; if it is meant to be public, add ${name} to --accept-public (in code: acceptPublic)`,
  });
  assertEquals(linesOf(gate, "rep.guardrail"), [
    warningOf("A"),
    warningOf("B"),
  ]);
  assertEquals((await healthOf(gate)).guardrails.warnings, 2);
});

Deno.test("a value that is accepted as public neither warns nor counts nor blocks, but any other does", async () => {
  const acceptPublic = ["REP_PUBLIC_A"];
  const options = { strict: true, acceptPublic };
  await using gate = await setUp({ REP_PUBLIC_A: AWS_KEY }, options);
  assertEquals(linesOf(gate, "rep.guardrail"), []);
  assertEquals((await healthOf(gate)).guardrails.warnings, 0);
  const both = { REP_PUBLIC_A: AWS_KEY, REP_PUBLIC_B: AWS_KEY };
  await assertRejects(() => gate.set(both), ConfigurationError);
  assertEquals((await healthOf(gate)).guardrails.blocked, 1);
});

Deno.test("reload() warns of a deprecated variable once, and again when it came back", async () => {
  const manifest = `version: "0.1.0"
variables:
  OLD: { tier: public, deprecated: true, deprecated_message: Use NEW }`;
  await using gate = await setUp({ REP_PUBLIC_OLD: "1" }, { manifest });
  await gate.gateway.reload();
  const line = {
    level: "WARN",
    msg: "rep.config.deprecated",
    variable_name: "OLD",
    detail: "Use NEW",
  };
  assertEquals(linesOf(gate, "rep.config.deprecated"), [line]);
  await gate.set({ REP_PUBLIC_NEW: "1" });
  await gate.set({ REP_PUBLIC_OLD: "1" });
  assertEquals(linesOf(gate, "rep.config.deprecated"), [line, line]);
});

Deno.test("a required variable that is set to nothing is used, with a warning; one that is misspelled is named", async () => {
  const manifest = `version: "0.1.0"
variables:
  A: { tier: public, required: true }`;
  await using gate = await setUp({ REP_PUBLIC_A: "" }, { manifest });
  assertEquals(linesOf(gate, "rep.config.empty"), [{
    level: "WARN",
    msg: "rep.config.empty",
    variable_name: "REP_PUBLIC_A",
    detail: "it is required, but set to nothing",
  }]);
  await assertRejects(
    () => gate.set({ REP_PUBIC_A: "1", REP_PUBLIC_B: "1" }),
    Error,
    "it is not set; is it misspelled as REP_PUBIC_A?",
  );
});

/** Sources that are slow to read, once a gateway has started with them. */
async function setUpSlow() {
  const source = { A: "1", reads: 0, reading: Promise.resolve() };
  const variables = async () => {
    source.reads++;
    const { A } = source;
    await source.reading;
    return { REP_PUBLIC_A: A };
  };
  const gate = await setUp({}, { variables, clock: new FakeClock(T) });
  return { source, gate };
}

Deno.test("reload() joins calls that come while one waits, and sees what changed while another ran", async () => {
  const { source, gate } = await setUpSlow();
  await using _closed = gate;
  const { promise, resolve } = Promise.withResolvers<void>();
  source.reading = promise;
  source.A = "2";
  const first = gate.gateway.reload();
  await settle(); // the first has read "2", and waits
  source.A = "3";
  const later = [1, 2, 3].map(() => gate.gateway.reload());
  resolve();
  await first;
  assertEquals(gate.gateway.get("A"), "2");
  await Promise.all(later);
  assertEquals([gate.gateway.get("A"), source.reads], ["3", 3]);
  assertEquals(linesOf(gate, "rep.config.changed").length, 3);
});

Deno.test("close() waits for the reload that is under way, and lets none begin after it", async () => {
  const { source, gate } = await setUpSlow();
  const { promise, resolve } = Promise.withResolvers<void>();
  source.reading = promise;
  source.A = "2";
  const running = gate.gateway.reload();
  await settle();
  const waiting = gate.gateway.reload();
  let isClosed = false;
  const closed = gate.gateway.close().then(() => isClosed = true);
  await settle();
  assertEquals(isClosed, false);
  resolve();
  await Promise.all([running, waiting, closed, gate.gateway.reload()]);
  assertEquals([source.reads, gate.gateway.get("A")], [2, "2"]);
});

Deno.test("what could not be published is in force for the process, and published by the first retry that succeeds", async () => {
  let isDown = false;
  const clock = new FakeClock(T);
  const store = fallibleStore(memoryStore(), () => isDown, {
    operations: ["commit"],
  });
  await using gate = await setUp({ REP_PUBLIC_A: "1" }, { clock, store });
  isDown = true;
  await gate.set({ REP_PUBLIC_A: "2" });
  assertEquals(gate.gateway.get("A"), "2");
  await clock.tick(5_000); // a retry
  const failed = linesOf(gate, "rep.config.not_published");
  assertEquals(failed.map(({ level }) => level), ["ERROR", "DEBUG"]);
  assertEquals(
    failed[0]?.detail,
    "Cannot use the store: down; retrying",
  );
  assertEquals(linesOf(gate, "rep.config.changed").length, 1);
  isDown = false;
  await clock.tick(20_000);
  assertEquals(linesOf(gate, "rep.config.changed").length, 2);
});

Deno.test("a retry that is under way does not bring an older snapshot back", async () => {
  let isDown = false;
  let committing = Promise.resolve();
  const clock = new FakeClock(T);
  const inner = memoryStore();
  const store = {
    ...fallibleStore(inner, () => isDown),
    async commit(...args: Parameters<typeof inner.commit>) {
      await committing;
      if (isDown) throw new Error("down");
      return await inner.commit(...args);
    },
  };
  await using gate = await setUp({ REP_PUBLIC_A: "1" }, { clock, store });
  const stream = await gate.listen();
  isDown = true;
  await gate.set({ REP_PUBLIC_A: "2" });
  isDown = false;
  const { promise, resolve } = Promise.withResolvers<void>();
  committing = promise;
  await clock.tick(5_000); // the retry holds "2", and waits
  const reload = gate.set({ REP_PUBLIC_A: "3" });
  await settle();
  resolve();
  await reload;
  await clock.tick(10_000);
  const values = (await stream.take(2)).map(({ data }) => data.value);
  assertEquals([values, stream.arrived()], [["2", "3"], []]);
  await stream.close();
});
