import { EXPECTED_MASTER_KEY } from "../../../src/core/keys/master_key.ts";
import { assertEquals, assertRejects } from "@std/assert";
import {
  readStart,
  sharesDefaultDatabase,
  type Start,
  storeOfGateway,
  type StoreOptions,
} from "../../../src/command/options/read_start.ts";
import { memoryStore } from "../../../src/engines/memory.ts";
import { UsageError } from "../../../src/command/options/read_options.ts";
import type { Environment } from "../../../src/core/config/variables/tiers.ts";
import { ConfigurationError } from "../../../src/core/config/variables/snapshot.ts";
import { withEnvironment } from "../../_environment.ts";
import { TempDirectory } from "../../_temp.ts";

async function serve(
  args: string[],
  environment: Environment = {},
) {
  return await readStart(args, environment) as Start;
}

/** What is set on a terminal, and the format of logs and the mode of reloads there and elsewhere. */
const ON_TERMINAL: readonly [string, Environment, string[], string[]][] = [
  ["", {}, ["text", "signal"], ["json", "signal"]],
  ["--hot-reload", {}, ["text", "signal"], ["json", "signal"]],
  ["--env-file=a.env", {}, ["text", "signal"], ["json", "signal"]],
  // Elsewhere, this file is no env file in this mode: a terminal must not make it one.
  ["--watch-path=a --hot-reload", {}, ["text", "signal"], ["json", "signal"]],
  ["--sites=a --hot-reload", {}, ["text", "file_watch"], ["json", "signal"]],
  [
    "--env-file=a.env --hot-reload",
    {},
    ["text", "file_watch"],
    ["json", "signal"],
  ],
  [
    "--env-file=a.env --hot-reload --hot-reload-mode=signal --log-format=json",
    {},
    ["json", "signal"],
    ["json", "signal"],
  ],
  [
    "--env-file=a.env --hot-reload",
    { REP_GATEWAY_HOT_RELOAD_MODE: "poll", REP_GATEWAY_LOG_FORMAT: "json" },
    ["json", "poll"],
    ["json", "poll"],
  ],
];

Deno.test("readStart() makes logs text and watches files on a terminal, unless options say otherwise", async () => {
  for (const [line, environment, there, elsewhere] of ON_TERMINAL) {
    for (const isTerminal of [true, false]) {
      const args = line.split(" ").filter((word) => word !== "");
      const start = await readStart(args, environment, false, isTerminal);
      const { options } = start as Start;
      assertEquals(
        [options["log-format"], options["hot-reload-mode"]],
        isTerminal ? there : elsewhere,
        line,
      );
    }
  }
});

Deno.test("readStart() watches a manifest on a terminal, too", async () => {
  await using directory = await TempDirectory.make({
    ".rep.yaml": 'version: "0.1.0"\nvariables: {}\n',
  });
  const args = ["--hot-reload", "--manifest", directory.at(".rep.yaml")];
  const { options } = await readStart(args, {}, false, true) as Start;
  assertEquals(options["hot-reload-mode"], "file_watch");
});

Deno.test("readStart() reports all issues of a manifest", async () => {
  const text = JSON.stringify({
    version: "1",
    variables: { A: {} },
    settings: { session_key_ttl: "31s" },
  });
  await using directory = await TempDirectory.make({ ".rep.yaml": text });
  const path = directory.at(".rep.yaml");
  const error = await assertRejects(
    () => serve(["--manifest", path]),
    ConfigurationError,
  );
  assertEquals(error.issues, [
    `Cannot use the manifest "${path}": variables.A.tier: expected one of public, sensitive, server, got nothing`,
    `Cannot use the manifest "${path}": settings.session_key_ttl: expected a duration from 1s to 30s, such as 30s, ` +
    'got "31s"',
    `Cannot use the manifest "${path}": version: expected a quoted version such as "0.1.0", got "1"`,
  ]);
});

Deno.test("readStart() reads the master key from the environment only", async () => {
  const bytes = Uint8Array.from({ length: 32 }, (_, index) => index);
  const REP_GATEWAY_MASTER_KEY = bytes.toBase64();
  assertEquals((await serve([], { REP_GATEWAY_MASTER_KEY })).masterKey, bytes);
  assertEquals((await serve([], {})).masterKey, undefined);
  assertEquals(
    (await serve([], { REP_GATEWAY_MASTER_KEY: "" })).masterKey,
    undefined,
  );
  await assertRejects(
    () => serve([`--master-key=${REP_GATEWAY_MASTER_KEY}`]),
    UsageError,
    "Cannot use --master-key",
  );
});

for (
  const [text, got] of [["hunter2!", "invalid base64"], [
    "c2hvcnQ=",
    "5 bytes",
  ]] as const
) {
  Deno.test(`readStart() rejects the master key ${text} without repeating it`, async () => {
    const error = await assertRejects(
      () => serve([], { REP_GATEWAY_MASTER_KEY: text }),
      UsageError,
    );
    assertEquals(
      error.message,
      `Cannot use the master key: expected ${EXPECTED_MASTER_KEY}, got ${got}`,
    );
  });
}

Deno.test("readStart() says what a master key is if its file is missing or empty", async () => {
  await using directory = await TempDirectory.make({ empty: "" });
  for (const name of ["empty", "missing"]) {
    const REP_GATEWAY_MASTER_KEY_FILE = directory.at(name);
    const { message } = await assertRejects(
      () => serve([], { REP_GATEWAY_MASTER_KEY_FILE }),
      Error,
    );
    assertEquals(
      message.includes(`expected ${EXPECTED_MASTER_KEY}`),
      true,
      message,
    );
  }
});

Deno.test(
  "readStart() warns that it cannot read the environment without --allow-env",
  { permissions: { env: false } },
  async () => {
    const command = await readStart([]) as Start;
    assertEquals(command.warnings, [
      "without --allow-env, environment variables are not read: neither REP_* variables nor options",
    ]);
  },
);

Deno.test("readStart() limits --drain on Deno Deploy only", async () => {
  const drainOf = async (args: string[], onDeploy: boolean) => {
    const command = await readStart(
      args,
      { REP_PUBLIC_A: "1" },
      onDeploy,
    ) as Start;
    return command.options.drain;
  };
  assertEquals(
    [
      await drainOf([], false),
      await drainOf([], true),
      await drainOf(["--drain=2s"], true),
      await drainOf(["--drain=8s"], false),
      await drainOf(["--drain=8s"], true),
    ],
    [
      10_000,
      3_000,
      2_000,
      8_000,
      3_000,
    ],
  );
});

Deno.test("readStart() treats a health port of 0 as not set", async () => {
  const { options, warnings } = await serve(["--health-port=0"], {
    REP_GATEWAY_HEALTH_PORT: "9",
  });
  assertEquals([options["health-port"], warnings], [undefined, []]);
});

Deno.test("readStart() treats a health port that equals the port as not set, and warns", async () => {
  for (
    const args of [["--health-port=9000", "--port=9000"], [
      "--health-port=8080",
    ]]
  ) {
    const { options: { port, "health-port": healthPort }, warnings } =
      await serve(args);
    const warning =
      `--health-port ${port} is --port, where /livez, /readyz and /metrics are not served: ` +
      "expected another port";
    assertEquals([healthPort, warnings], [undefined, [warning]]);
  }
  assertEquals((await serve(["--health-port=9000"])).warnings, []);
});

Deno.test("readStart() returns help even if the environment is invalid", async () => {
  assertEquals(
    await readStart(["--help"], {
      REP_GATEWAY_PORT: "x",
      REP_GATEWAY_MANIFEST: "/nowhere",
    }),
    "help",
  );
});

const NONE: StoreOptions = { kv: undefined, app: undefined, port: 8080 };

/** Options, where a gateway with them keeps its entries, and whether others of the machine are there, too. */
const CASES: readonly (readonly [Partial<StoreOptions>, string, boolean])[] = [
  [{}, ":8080/head", false],
  [{ port: 80 }, ":80/head", false],
  [{ port: 0 }, "head", true],
  [{ app: "shop" }, "head", false],
  [{ app: "shop", port: 0 }, "head", false],
  [{ kv: "kv.sqlite3" }, "head", false],
  [{ kv: "kv.sqlite3", port: 0 }, "head", false],
];

for (const [options, expected, isShared] of CASES) {
  Deno.test(`with ${JSON.stringify(options)}, the entries of a gateway begin with ${expected}`, async () => {
    const database = memoryStore();
    const all = { ...NONE, ...options };
    const store = storeOfGateway(database, all);
    await store.commit([], [{ key: ["head"], value: 1 }]);
    const keys = (await database.list([])).map(({ key }) => key);
    assertEquals(keys, [[expected]]);
    assertEquals(sharesDefaultDatabase(all), isShared);
  });
}

Deno.test("on Deno Deploy, the default database is the application's own", async () => {
  await withEnvironment({ DENO_DEPLOY: "true" }, () => {
    const database = memoryStore();
    assertEquals(storeOfGateway(database, NONE), database);
    assertEquals(sharesDefaultDatabase({ ...NONE, port: 0 }), false);
  });
});
