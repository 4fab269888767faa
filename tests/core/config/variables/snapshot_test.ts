import { assertEquals, assertRejects } from "@std/assert";
import {
  buildSnapshot,
  ConfigurationError,
  countVariables,
  evaluate,
  hasSameVariables,
  MAX_NAME_BYTES,
  type SnapshotInput,
} from "../../../../src/core/config/variables/snapshot.ts";
import { MAX_PUBLIC_BYTES } from "../../../../src/core/config/variables/tiers.ts";
import { canonicalJson, sriHash } from "../../../../src/core/values/hash.ts";
import { snapshotInput, type TestSnapshotInput } from "../../../_snapshot.ts";
import { setUp } from "../../../_gateway.ts";

function build(
  environment: SnapshotInput["environment"],
  more: Partial<TestSnapshotInput> = {},
) {
  return buildSnapshot(snapshotInput({ environment, ...more }));
}

/** Returns the error of a configuration that is rejected. */
async function rejection(
  environment: SnapshotInput["environment"],
  more: Partial<TestSnapshotInput> = {},
) {
  return await assertRejects(
    () => build(environment, more),
    ConfigurationError,
  );
}

/** Returns a manifest as JSON, which is YAML. */
function withVariables(variables: unknown) {
  return JSON.stringify({ version: "0.1.0", variables });
}

const AWS_KEY = "AKIAIOSFODNN7EXAMPLE";

Deno.test("an issue says that its variable is in the store, but not that of another one, nor of a default in the manifest", async () => {
  const stored = {
    environment: { REP_PUBLIC_A: "1", REP_PUBLIC_B: "x" },
    version: "1",
    newestWrite: 1,
  };
  const manifest = withVariables({
    A: { tier: "public", type: "number", default: "one" },
    B: { tier: "public", type: "number" },
    C: { tier: "public", type: "number" },
  });
  const environment = { REP_PUBLIC_C: "as REP_PUBLIC_A is" };
  const { issues } = await rejection(environment, { manifest, stored });
  assertEquals(
    issues.map((issue: string) =>
      issue.replace(/ in the manifest.*?: /, " …: ")
    ),
    [
      'Cannot use the default of REP_PUBLIC_A …: expected a number, got "one"',
      'Cannot use REP_PUBLIC_B: expected a number, got "x"; REP_PUBLIC_B is in the store: set or unset it',
      'Cannot use REP_PUBLIC_C: expected a number, got "as REP_PUBLIC_A is"',
    ],
  );
});

/** Values in the store that are rejected, by the name of their variable. */
const REJECTED: Record<string, string> = {
  COUNT: "ten",
  MOVED: "x",
  TWICE: "x",
  QUOTED: '"x"',
  KEY: AWS_KEY,
  BIG: "x".repeat(MAX_PUBLIC_BYTES + 1),
  HALF: "\ud800",
  "A B:C": AWS_KEY,
  ["N".repeat(MAX_NAME_BYTES + 1)]: "x",
};

for (const [name, value] of Object.entries(REJECTED)) {
  const variable = `REP_PUBLIC_${name}`;
  Deno.test(`each issue of a value in the store names its variable: ${variable.slice(0, 20)}`, async () => {
    const input = snapshotInput({
      environment: { REP_SERVER_TWICE: "x" },
      stored: {
        environment: { [variable]: value },
        version: "1",
        newestWrite: 1,
      },
      manifest: withVariables({
        COUNT: { tier: "public", type: "number" },
        MOVED: { tier: "server" },
      }),
      strict: true,
      rejectsSuspiciousValues: true,
    });
    const { issues } = await evaluate(input);
    const [issue] = issues;
    const advice = `${variable} is in the store: set or unset it`;
    assertEquals(
      [issues.length, issue?.variable, issue?.text.split("; ").at(-1)],
      [1, variable, advice],
    );
  });
}

Deno.test("an issue of the manifest, or of a default in it, names no variable", async () => {
  const manifest = withVariables({
    COUNT: { tier: "public", type: "number", default: "ten" },
    PATTERN: { tier: "public", pattern: "(" },
    WRONG: {},
    MISSING: { tier: "server", required: true },
  });
  const { issues } = await evaluate(snapshotInput({ manifest }));
  assertEquals(issues.map(({ variable }) => variable), [
    undefined,
    undefined,
    undefined,
    "REP_SERVER_MISSING",
  ]);
});

Deno.test("buildSnapshot() keeps names and values, but only the names of SERVER variables", async () => {
  const environment = {
    REP_PUBLIC_A: "1",
    REP_SENSITIVE_B: "2",
    REP_SERVER_C: "t0ken",
    PATH: "/bin",
    REP_GATEWAY_PORT: "1",
  };
  const { serverValue, describe, ...snapshot } = await build(environment);
  assertEquals(describe("C"), { source: "variables", type: "string" });
  assertEquals([serverValue("C"), serverValue("D")], ["t0ken", undefined]);
  assertEquals(snapshot, {
    configurationHash: await sriHash('{"A":"1"}'),
    configurationNames: new Set(["A"]),
    publicHash: await sriHash('{"A":"1"}'),
    storedVersion: undefined,
    rankAtRead: undefined,
    newestWrite: 0,
    public: new Map([["A", "1"]]),
    sensitive: new Map([["B", "2"]]),
    server: new Set(["C"]),
    sources: { variables: 3 },
    warnings: [],
    otherFindings: [],
  });
  assertEquals(
    Deno.inspect({ ...snapshot, serverValue, describe }, { depth: Infinity })
      .includes("t0ken"),
    false,
  );
});

Deno.test("buildSnapshot() returns the hash of its own sources, and that of the values that result with the variables in the store", async () => {
  const manifest = withVariables({
    DEFAULTED: { tier: "public", type: "string", default: "1" },
    OVERRIDDEN: { tier: "public", type: "string", default: "1" },
    SET: { tier: "public", type: "string", default: "1" },
    HIDDEN: { tier: "sensitive", type: "string", default: "1" },
  });
  const environment = { REP_PUBLIC_SET: "2", REP_PUBLIC_OWN: "2" };
  const stored = {
    environment: {
      REP_PUBLIC_OWN: "3",
      REP_PUBLIC_OVERRIDDEN: "3",
      REP_PUBLIC_ADDED: "3",
    },
    version: "7",
    newestWrite: 5,
  };
  const own = '{"DEFAULTED":"1","OVERRIDDEN":"1","OWN":"2","SET":"2"}';
  const all =
    '{"ADDED":"3","DEFAULTED":"1","OVERRIDDEN":"3","OWN":"3","SET":"2"}';
  for (
    const [reading, values, version] of [
      [undefined, own, undefined],
      [{ environment: {}, version: null, newestWrite: 0 }, own, null],
      [stored, all, "7"],
    ] as const
  ) {
    const snapshot = await build(environment, { manifest, stored: reading });
    assertEquals(
      [snapshot.configurationHash, snapshot.publicHash, snapshot.storedVersion],
      [await sriHash(own), await sriHash(values), version],
    );
    assertEquals(canonicalJson(snapshot.public), values);
  }
});

Deno.test("buildSnapshot() does not count the default of a required variable that only the store sets", async () => {
  const manifest = withVariables({
    A: { tier: "public", required: true, default: "1" },
  });
  const stored = {
    environment: { REP_PUBLIC_A: "2" },
    version: "7",
    newestWrite: 5,
  };
  const { configurationHash, configurationNames } = await build({}, {
    manifest,
    stored,
  });
  assertEquals(configurationHash, await sriHash("{}"));
  assertEquals(configurationNames, new Set());
});

Deno.test("buildSnapshot() throws all issues of all kinds at once", async () => {
  const environment = {
    REP_PUBLIC_: "x",
    REP_PUBLIC_TWICE: "x",
    REP_SERVER_TWICE: "x",
    REP_PUBLIC_COUNT: "ten",
    REP_PUBLIC_BIG: "x".repeat(MAX_PUBLIC_BYTES + 1),
    REP_PUBLIC_KEY: AWS_KEY,
  };
  const manifest = JSON.stringify({
    version: "0.1.0",
    variables: {
      COUNT: { tier: "public", type: "number" },
      MISSING: { tier: "server", required: true },
      WRONG: {},
    },
  });
  const error = await rejection(environment, { manifest, strict: true });
  assertEquals(error.issues, [
    "Cannot use REP_PUBLIC_: expected a name after the prefix",
    "Cannot use REP_PUBLIC_TWICE and REP_SERVER_TWICE: expected a name in one tier only",
    "Cannot use the manifest: variables.WRONG.tier: expected one of public, sensitive, server, got nothing",
    'Cannot use REP_PUBLIC_COUNT: expected a number, got "ten"',
    "Cannot find REP_SERVER_MISSING: the manifest requires it, but it is not set",
    "Cannot publish REP_PUBLIC_BIG: expected a value of at most 64000 bytes, got 64001",
    "Cannot publish REP_PUBLIC_KEY in strict mode: the value looks like an AWS access key; if it is meant to be public, add KEY to --accept-public (in code: acceptPublic)",
  ]);
  assertEquals([error.blocked, error.message], [1, error.issues.join("\n")]);
});

Deno.test("buildSnapshot() scans the defaults of the manifest for secrets", async () => {
  const manifest = withVariables({ KEY: { tier: "public", default: AWS_KEY } });
  assertEquals(
    (await build({}, { manifest })).warnings.map(({ name }) => name),
    ["KEY"],
  );
});

Deno.test("buildSnapshot() accepts a PUBLIC value of 60,000 characters or 64,000 bytes", async () => {
  const values = {
    REP_PUBLIC_A: "x ".repeat(30_000),
    REP_PUBLIC_B: "x ".repeat(32_000),
    REP_PUBLIC_C: "ä ".repeat(21_333),
  };
  assertEquals(
    [...(await build(values)).public.values()],
    Object.values(values),
  );
});

Deno.test("buildSnapshot() rejects a PUBLIC value of megabytes by its name, whatever is in it", async () => {
  const text = "äB1 ".repeat(1_000_000); // a million words that are not
  const words = "Ab".repeat(16_000_000);
  const values = { REP_PUBLIC_TEXT: text, REP_PUBLIC_WORDS: words };
  assertEquals((await rejection(values)).issues, [
    "Cannot publish REP_PUBLIC_TEXT: expected a value of at most 64000 bytes, got 5000000",
    "Cannot publish REP_PUBLIC_WORDS: expected a value of at most 64000 bytes, got 32000000",
  ]);
});

Deno.test("buildSnapshot() accepts SENSITIVE and SERVER values of any size", async () => {
  const value = "x".repeat(MAX_PUBLIC_BYTES + 1);
  assertEquals(
    countVariables(
      await build({ REP_SENSITIVE_A: value, REP_SERVER_B: value }),
    ),
    {
      public: 0,
      sensitive: 1,
      server: 1,
    },
  );
});

Deno.test("buildSnapshot() accepts a PUBLIC name of 1,024 bytes, and rejects a longer one", async () => {
  const longest = "N".repeat(MAX_NAME_BYTES);
  assertEquals([
    ...(await build({ [`REP_PUBLIC_${longest}`]: "x" })).public.keys(),
  ], [longest]);
  assertEquals((await rejection({ [`REP_PUBLIC_${longest}N`]: "x" })).issues, [
    `Cannot publish REP_PUBLIC_${
      "N".repeat(89)
    }: expected a name of at most 1024 bytes, got 1025`,
  ]);
});

Deno.test("buildSnapshot() rejects an unpaired surrogate, which UTF-8 cannot encode", async () => {
  const manifest = withVariables({
    A: { tier: "public", default: "\ud800" },
    B: { tier: "public", default: "😀" },
  });
  assertEquals((await rejection({}, { manifest })).issues, [
    "Cannot publish REP_PUBLIC_A: expected Unicode text, got an unpaired surrogate",
  ]);
});

Deno.test("hasSameVariables() compares names and values in all tiers", async () => {
  const environment = {
    REP_PUBLIC_A: "1",
    REP_SENSITIVE_B: "2",
    REP_SERVER_C: "3",
  };
  const others = [
    environment,
    { ...environment, REP_SERVER_C: "4" },
    { ...environment, REP_PUBLIC_A: "2" },
    { ...environment, REP_SENSITIVE_B: "3" },
    { ...environment, REP_PUBLIC_D: "4" },
    { ...environment, REP_SERVER_D: "4" },
    { REP_PUBLIC_A: "1", REP_SENSITIVE_B: "2", REP_SERVER_D: "3" },
    { REP_PUBLIC_A: "1", REP_SENSITIVE_B: "2" },
    {},
  ];
  assertEquals(
    await Promise.all(
      others.map(async (other) =>
        hasSameVariables(await build(environment), await build(other))
      ),
    ),
    [true, false, false, false, false, false, false, false, false],
  );
});

const MANIFEST =
  'version: "0.1.0"\nvariables: { A: { tier: public, type: string } }';

async function suspiciousIn(
  names: string[],
  manifest = 'version: "0.1.0"\nvariables: {}',
): Promise<string[]> {
  const environment = Object.fromEntries(names.map((name) => [name, "secret"]));
  const { otherFindings } = await evaluate(
    snapshotInput({ environment, manifest, requiredTiers: [] }),
  );
  return otherFindings.map(({ name }) => name);
}

Deno.test("evaluate() finds REP_ names without a tier, except options", async () => {
  const names = [
    "REP_PUBLC_A",
    "REP_A",
    "REP_",
    "REP_PUBLICA",
    "REP_PUBLIC_A",
    "REP_SENSITIVE_B",
    "REP_SERVER_C",
  ];
  assertEquals(
    await suspiciousIn([
      ...names,
      "REP_GATEWAY_PORT",
      "REP_GATEWAY_PROT",
      "HOME",
    ]),
    names.slice(0, 4),
  );
});

Deno.test("evaluate() finds names that the manifest does not declare, if it declares any", async () => {
  assertEquals(
    await suspiciousIn(
      ["REP_PUBLIC_A", "REP_PUBLIC_B", "REP_SERVER_C"],
      MANIFEST,
    ),
    [
      "REP_PUBLIC_B",
      "REP_SERVER_C",
    ],
  );
  assertEquals(await suspiciousIn(["REP_PUBLIC_B"]), []);
});

Deno.test("a suspicious name is logged once, without its value", async () => {
  const names = { REP_PUBLIC_OTHER: "1", REP_PUBLC_A: "s3cret" };
  await using test = await setUp(names, { manifest: MANIFEST });
  await test.set({ ...names, REP_PUBLIC_A: "2" });
  const lines = test.logged("rep.config.suspicious_name");
  const ignored =
    "it is ignored: expected the prefix REP_PUBLIC_, REP_SENSITIVE_ or REP_SERVER_";
  assertEquals(
    lines.map((
      { level, variable_name, detail },
    ) => [level, variable_name, detail]),
    [
      ["WARN", "REP_PUBLC_A", ignored],
      ["WARN", "REP_PUBLIC_OTHER", "the manifest does not declare it"],
    ],
  );
  assertEquals(JSON.stringify(lines).includes("s3cret"), false);
});
