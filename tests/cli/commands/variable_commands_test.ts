import { assert, assertEquals } from "@std/assert";
import {
  type CommandIo,
  openPersistentStore,
} from "../../../src/cli/commands/command_io.ts";
import { commandIn } from "../../../src/cli/commands/command_table.ts";
import { listVariables } from "../../../src/config/stored/stored_variables.ts";
import { storeOfPort } from "../../../src/store/app_store.ts";
import { memoryStore } from "../../../src/store/memory.ts";
import { type Store, StoreUnavailableError } from "../../../src/store/store.ts";
import { FakeClock, settle } from "../../../tools/fake_clock.ts";
import { stdFlags } from "../../../tools/std.ts";
import { TextLineStream } from "../../../tools/text_lines.ts";
import { delegate, fallibleStore } from "../../_store.ts";
import { TempDirectory } from "../../_temp.ts";
import { type Outcome, runWith } from "./_run.ts";

const START = 1_700_000_000_000;
const AT = "2023-11-14T22:13:20.000Z";

interface Setup {
  store: Store;
  clock: FakeClock;
  run: (...args: string[]) => Promise<Outcome>;
  values: () => Promise<Record<string, string>>;
}

/** Creates a store that stays open when a command closes it, like a database that every command opens anew. */
function persistentMemory(): Store {
  return { ...delegate(memoryStore()), close: () => {} };
}

/** Sets up commands that share a store and run in this process. */
function setUp(
  overrides: Partial<CommandIo> = {},
  store = persistentMemory(),
): Setup {
  const clock = new FakeClock(START);
  const run = (...args: string[]) =>
    runWith(args, {
      openStore: () => Promise.resolve(store),
      clock,
      ...overrides,
    });
  const values = async () =>
    Object.fromEntries(
      (await listVariables(storeOfPort(store, 8080))).map((
        { name, value },
      ) => [name, value]),
    );
  return { store, clock, run, values };
}

Deno.test("commandIn() recognizes commands only", () => {
  const valid = [
    ["set", "A=1"],
    ["unset"],
    ["list", "--json"],
    ["history"],
    ["watch"],
    ["--", "list"],
    ["lint", "d"],
  ];
  assertEquals(valid.map(commandIn), [
    "set",
    "unset",
    "list",
    "history",
    "watch",
    "list",
    "lint",
  ]);
  const invalid = [
    [],
    ["--kv", "list"],
    ["lists"],
    ["LIST"],
    ["toString"],
    ["--"],
    ["--help"],
    ["--", "--", "list"],
  ];
  assertEquals(invalid.map(commandIn), invalid.map(() => undefined));
});

Deno.test("set writes variables with or without the prefix, and prints their ids", async () => {
  const { run, values } = setUp();
  assertEquals(await run("set", "A=1", "REP_PUBLIC_LONGER=x=y z", "_e1="), {
    code: 0,
    out: [
      `NAME    ID`,
      `A       ${START}`,
      `LONGER  ${START + 1}`,
      `_e1     ${START + 2}`,
    ],
    err: [],
  });
  assertEquals(await values(), { A: "1", LONGER: "x=y z", _e1: "" });
});

Deno.test("set --json prints the writes", async () => {
  const { code, out, err } = await setUp().run("set", "A=1", "--json");
  assertEquals([code, err], [0, []]);
  assertEquals(JSON.parse(out.join("\n")), [{
    name: "A",
    value: "1",
    id: START,
    written_at: AT,
  }]);
});

Deno.test("set accepts any value, also one that looks like an option", async () => {
  const { run, values } = setUp();
  assertEquals(
    (await run("set", "A=--force", "B=\x1b[31m\nred", "C=1e3", "--", "D=-1"))
      .code,
    0,
  );
  assertEquals(await values(), {
    A: "--force",
    B: "\x1b[31m\nred",
    C: "1e3",
    D: "-1",
  });
});

Deno.test("unset deletes variables, prints the ids of the writes, and names missing variables", async () => {
  const { run, values } = setUp();
  await run("set", "A=1", "B=2");
  assertEquals(await run("unset", "REP_PUBLIC_A", "C"), {
    code: 0,
    out: ["NAME  ID", `A     ${START + 2}`],
    err: ["C is not in the store"],
  });
  assertEquals(await values(), { B: "2" });
  assertEquals(await run("unset", "A"), {
    code: 0,
    out: [],
    err: ["A is not in the store"],
  });
  const json = await run("unset", "B", "--json");
  assertEquals(JSON.parse(json.out.join("\n")), [{
    name: "B",
    value: null,
    id: START + 3,
    written_at: AT,
  }]);
  assertEquals(await run("unset", "B", "--json"), {
    code: 0,
    out: ["[]"],
    err: ["B is not in the store"],
  });
});

Deno.test("list prints a table of the width of the terminal, whatever the values are", async () => {
  const { run } = setUp();
  await run(
    "set",
    "B=\x1b[31mred\x1b[0m\nNAME  fake",
    `A=${"long ".repeat(20)}`,
    "C=",
  );
  assertEquals(await run("list"), {
    code: 0,
    out: [
      "NAME  VALUE                              ID             WRITTEN",
      `A     long long long long long long lo…  ${START + 1}  ${AT}`,
      `B     \\u{1b}[31mred\\u{1b}[0m\\nNAME  fa…  ${START}  ${AT}`,
      `C                                        ${START + 2}  ${AT}`,
    ],
    err: [],
  });
});

Deno.test("list --json prints values in full", async () => {
  const { run } = setUp();
  await run("set", "B=\x1b[31m\n", `A=${"x ".repeat(500)}`);
  const { code, out } = await run("list", "--json");
  assertEquals(code, 0);
  assertEquals(JSON.parse(out.join("\n")), [
    { name: "A", value: "x ".repeat(500), id: START + 1, written_at: AT },
    { name: "B", value: "\x1b[31m\n", id: START, written_at: AT },
  ]);
});

Deno.test("list and history of an empty store print a message, or an empty array", async () => {
  const { run } = setUp();
  assertEquals(await run("list"), {
    code: 0,
    out: [],
    err: ["There are no variables in the store"],
  });
  assertEquals(await run("history"), {
    code: 0,
    out: [],
    err: ["There are no writes yet"],
  });
  assertEquals(await run("list", "--json"), { code: 0, out: ["[]"], err: [] });
  assertEquals(await run("history", "--json"), {
    code: 0,
    out: ["[]"],
    err: [],
  });
});

Deno.test("history prints the newest writes first, up to --limit", async () => {
  const { run, clock } = setUp();
  await run("set", "A=1", "B=a\nb");
  await clock.tick(60_000);
  await run("unset", "A");
  const rows = [
    "WRITTEN                   ID             WRITE  NAME  VALUE",
    `2023-11-14T22:14:20.000Z  ${START + 60_000}  unset  A`,
    `${AT}  ${START + 1}  set    B     a\\nb`,
    `${AT}  ${START}  set    A     1`,
  ];
  assertEquals(await run("history"), { code: 0, out: rows, err: [] });
  assertEquals(await run("history", "--limit", "2"), {
    code: 0,
    out: rows.slice(0, 3),
    err: [],
  });
  const json = await run("history", "--json", "--limit=1");
  assertEquals(JSON.parse(json.out.join("\n")), [
    {
      name: "A",
      value: null,
      id: START + 60_000,
      written_at: "2023-11-14T22:14:20.000Z",
    },
  ]);
});

Deno.test("--if-id writes if the id matches, or else exits with 1 and reports the current id", async () => {
  const { run, values } = setUp();
  assertEquals((await run("set", "A=1", "--if-id", "0")).code, 0);
  assertEquals((await run("set", "A=2", "--if-id", String(START))).code, 0);
  assertEquals(await run("set", "A=3", "--if-id", String(START)), {
    code: 1,
    out: [],
    err: [
      `Cannot write REP_PUBLIC_A: expected its id to be ${START}, but its id is ${
        START + 1
      }, with the value "2", written at ${AT}`,
    ],
  });
  assertEquals((await run("unset", "A", "--if-id", "5")).code, 1);
  assertEquals(await values(), { A: "2" });
  assertEquals((await run("unset", "A", "--if-id", String(START + 1))).code, 0);
  assertEquals(await run("unset", "A", "--if-id", String(START + 1)), {
    code: 1,
    out: [],
    err: [
      `Cannot write REP_PUBLIC_A: expected its id to be ${
        START + 1
      }, but it does not exist`,
    ],
  });
});

const IN_ENVIRONMENT =
  "anyone with access to the database could read the value; set it in the environment of the gateway";
const SYNTAX = "expected letters, digits and _, not beginning with a digit";

/** Invalid names, and the reasons. */
const INVALID_NAMES: Record<string, string> = {
  "REP_SENSITIVE_KEY":
    `SENSITIVE variables cannot be in the store: ${IN_ENVIRONMENT}`,
  "REP_SERVER_URL":
    `SERVER variables cannot be in the store: ${IN_ENVIRONMENT}`,
  "rep_sensitive_key":
    `SENSITIVE variables cannot be in the store: ${IN_ENVIRONMENT}`,
  "REP_PUBLIC_REP_SERVER_URL":
    `SERVER variables cannot be in the store: ${IN_ENVIRONMENT}`,
  "REP_GATEWAY_PORT":
    "it is an option of the gateway; set it in the environment of the gateway",
  "": SYNTAX,
  "REP_PUBLIC_": SYNTAX,
  "1A": SYNTAX,
  "A-B": SYNTAX,
  "A B": SYNTAX,
  "A.B": SYNTAX,
  "Ä": SYNTAX,
  "A\n": SYNTAX,
  ["N".repeat(1_025)]: "expected at most 1024 bytes, got 1025",
};

for (const [key, reason] of Object.entries(INVALID_NAMES)) {
  Deno.test(`set and unset reject the name ${JSON.stringify(key.slice(0, 30))}`, async () => {
    const { run, values } = setUp();
    const quoted = JSON.stringify(key);
    const name = quoted.length > 60 ? `${quoted.slice(0, 60)}…` : quoted;
    const rejected = {
      code: 1,
      out: [],
      err: [`Cannot use the name ${name}: ${reason}`],
    };
    assertEquals(
      await run("set", "GOOD=1", `${key}=value`, "--force"),
      rejected,
    );
    assertEquals(await run("unset", "GOOD", key), rejected);
    assertEquals(await values(), {});
  });
}

Deno.test("set accepts the longest name and the largest value, and rejects a larger value", async () => {
  const { run, values } = setUp();
  const name = "N".repeat(1_024);
  assertEquals(
    (await run("set", `${name}=1`, `LARGE=${"ä".repeat(32_000)}`)).code,
    0,
  );
  assertEquals(await run("set", "OTHER=1", `LARGE=${"ä".repeat(32_000)}.`), {
    code: 1,
    out: [],
    err: [
      "Cannot publish the value of REP_PUBLIC_LARGE: expected at most 64000 bytes, got 64001",
    ],
  });
  assertEquals(Object.keys(await values()), ["LARGE", name]);
});

const TOKEN = `ghp_${"a1B2".repeat(9)}`;

Deno.test("set rejects a value that looks like a secret without printing it", async () => {
  const { run, values } = setUp();
  assertEquals(await run("set", `A=${TOKEN}`, "B=harmless"), {
    code: 1,
    out: [],
    err: [
      "Cannot set REP_PUBLIC_A: the value looks like a GitHub token; anyone could read it; use force to set it anyway",
    ],
  });
  assertEquals(await values(), {});
});

Deno.test("set --force writes a value that looks like a secret, with a warning", async () => {
  const { run, values } = setUp();
  const { code, err } = await run("set", `A=${TOKEN}`, "--force");
  assertEquals([code, err], [0, [
    "Set despite the warning: REP_PUBLIC_A: the value looks like a GitHub token",
  ]]);
  assertEquals(await values(), { A: TOKEN });
});

Deno.test("set rejects a name that is in another tier of its environment", async () => {
  const { run, values } = setUp({
    environment: {
      REP_SENSITIVE_A: "secret",
      REP_SERVER_B: "secret",
      REP_PUBLIC_C: "1",
    },
  });
  assertEquals(await run("set", "A=1", "B=2", "C=3", "--force"), {
    code: 1,
    out: [],
    err: [
      "Cannot use REP_PUBLIC_A and REP_SENSITIVE_A: expected a name in one tier only\n" +
      "Cannot use REP_PUBLIC_B and REP_SERVER_B: expected a name in one tier only",
    ],
  });
  assertEquals((await run("set", "C=3")).code, 0);
  assertEquals(await values(), { C: "3" });
});

const MANIFEST = `
version: "0.1.0"
variables:
  URL: { tier: public, type: url, required: true }
  COUNT: { tier: public, type: number }
  MAIL: { tier: public, pattern: "^[^@]+@[^@]+$" }
  LEVEL: { tier: public, type: enum, values: [low, high] }
  OLD: { tier: public, deprecated: true, deprecated_message: use NEW }
  KEY: { tier: sensitive, default: hush }
  DATABASE: { tier: server, required: true }
`;

Deno.test("set --manifest writes valid values even if required variables are missing, and reports deprecated ones", async () => {
  await using directory = await TempDirectory.make();
  const path = directory.at("rep.yaml");
  await Deno.writeTextFile(path, MANIFEST);
  const { run, values } = setUp();
  const fits = {
    COUNT: "1",
    LEVEL: "low",
    MAIL: "a@b",
    OLD: "x",
    UNDECLARED: "y",
  };
  const words = Object.entries(fits).map(([name, value]) => `${name}=${value}`);
  const { code, err } = await run("set", ...words, "--manifest", path);
  assertEquals([code, err], [0, ["Deprecated: OLD: use NEW"]]);
  assertEquals(await values(), fits);
});

Deno.test("set --manifest reports all invalid values at once, also with --force", async () => {
  await using directory = await TempDirectory.make();
  const path = directory.at("rep.yaml");
  await Deno.writeTextFile(path, MANIFEST);
  const { run, values } = setUp({
    environment: { REP_GATEWAY_MANIFEST: path },
  });
  const words = [
    "KEY=1",
    "DATABASE=2",
    "URL=three",
    "COUNT=four",
    "MAIL=five",
    "LEVEL=six",
    "UNDECLARED=seven",
  ];
  assertEquals(await run("set", ...words, "--force"), {
    code: 1,
    out: [],
    err: [[
      "Cannot use REP_PUBLIC_URL: expected a URI with a scheme and a host (RFC 3986), such as https://example.com/a, " +
      'got "three"',
      'Cannot use REP_PUBLIC_COUNT: expected a number, got "four"',
      'Cannot use REP_PUBLIC_MAIL: expected a value that matches ^[^@]+@[^@]+$, got "five"',
      'Cannot use REP_PUBLIC_LEVEL: expected one of low, high, got "six"',
      `Cannot use REP_PUBLIC_KEY: the manifest "${path}" declares it as REP_SENSITIVE_KEY`,
      `Cannot use REP_PUBLIC_DATABASE: the manifest "${path}" declares it as REP_SERVER_DATABASE`,
    ].join("\n")],
  });
  assertEquals(await values(), {});
});

Deno.test("set rejects a manifest that does not exist or is invalid", async () => {
  await using directory = await TempDirectory.make();
  const path = directory.at("rep.yaml");
  const { run, values } = setUp();
  const missing = await run("set", "A=1", "--manifest", path);
  assertEquals([
    missing.code,
    missing.err[0]?.startsWith(`Cannot read --manifest "${path}": `),
  ], [1, true]);
  await Deno.writeTextFile(path, 'version: "0.1.0"');
  assertEquals(await run("set", "A=1", "--manifest", path), {
    code: 1,
    out: [],
    err: [
      `Cannot use the manifest "${path}": variables: expected a mapping, got nothing`,
    ],
  });
  assertEquals(await values(), {});
});

function neverOpened(): Promise<never> {
  return Promise.reject(new Error("The store was opened"));
}

/** Invalid command lines and their error messages. */
const INVALID_USAGE: [string, string][] = [
  ["set", "Cannot set: expected KEY=VALUE ...; see --help"],
  ["unset", "Cannot unset: expected KEY ...; see --help"],
  ["set A", 'Cannot set "A": expected KEY=VALUE'],
  ["set A=1 REP_PUBLIC_A=2", "Cannot set A twice: expected one value"],
  ["list A", 'Cannot list "A": expected options only; see --help'],
  [
    "list --jsno",
    "Cannot use --jsno: there is no such option; did you mean --json?",
  ],
  [
    "set A=1 -f",
    "Cannot use -f: there is no such option; did you mean --force?",
  ],
  [
    "set A=1 --port x",
    'Cannot read --port: expected an integer from 0 to 65535, got "x"',
  ],
  [
    "set A=1 --app a/b",
    'Cannot read --app: expected 1 to 32 letters, digits, . _ and -, of which the first is a letter or a digit, got "a/b"',
  ],
  ["unset A --force", "Cannot unset with --force: it is an option of set"],
  [
    "unset A --manifest x",
    "Cannot unset with --manifest: it is an option of validate, typegen, inject and set",
  ],
  [
    "list --if-id 1",
    "Cannot list with --if-id: it is an option of set and unset",
  ],
  ["set A=1 --limit 5", "Cannot set with --limit: it is an option of history"],
  [
    "set A=1 B=2 --if-id 0",
    "Cannot set with --if-id: expected one variable, got 2",
  ],
  [
    "set A=1 --if-id",
    'Cannot read --if-id: expected an integer from 0 to 9007199254740991, got ""',
  ],
  [
    "set A=1 --if-id=9007199254740992",
    'Cannot read --if-id: expected an integer from 0 to 9007199254740991, got "9007199254740992"',
  ],
  [
    "history --limit 1001",
    'Cannot read --limit: expected an integer from 1 to 1000, got "1001"',
  ],
  ["list --kv a --kv b", "Cannot use --kv twice: expected one value"],
  ["list --kv=", 'Cannot read --kv: expected a non-empty value, got ""'],
];

Deno.test("runCommand() exits with 2 for an invalid command line, without opening the store", async () => {
  const { run } = setUp({ openStore: neverOpened });
  for (const [words, message] of INVALID_USAGE) {
    assertEquals([words, await run(...words.split(" "))], [words, {
      code: 2,
      out: [],
      err: [message],
    }]);
  }
});

Deno.test("--help prints the usage and the flags of a command", async () => {
  const { run } = setUp({ openStore: neverOpened });
  const { code, out, err } = await run("set", "--help");
  assertEquals([code, err], [0, []]);
  assert(
    out.includes(
      "Usage: deno run -A --unstable-kv jsr:@rep/gateway set KEY=VALUE ... [OPTION ...]",
    ),
  );
  for (
    const flag of [
      "--kv PATH|URL",
      "--json",
      "--if-id ID",
      "--force",
      "--manifest FILE",
      "-h, --help",
    ]
  ) {
    assert(out.some((line) => line.startsWith(`  ${flag} `)), flag);
  }
  assertEquals(out.filter((line) => /--(limit|out|dir)/.test(line)), []);
  assertEquals(await run("set", "-h"), { code, out, err });
});

Deno.test("--kv selects the store; REP_GATEWAY_KV does if the flag is not set, unless it is empty", async () => {
  const opened: (string | undefined)[] = [];
  const openStore = (path: string | undefined) => {
    opened.push(path);
    return Promise.resolve(memoryStore());
  };
  await setUp({ openStore }).run("list", "--kv", "a.db");
  await setUp({ openStore, environment: { REP_GATEWAY_KV: "b.db" } }).run(
    "list",
    "--kv",
    "a.db",
  );
  await setUp({ openStore, environment: { REP_GATEWAY_KV: "b.db" } }).run(
    "set",
    "A=1",
  );
  await setUp({ openStore, environment: { REP_GATEWAY_KV: "" } }).run(
    "history",
  );
  await setUp({ openStore }).run("unset", "A");
  assertEquals(opened, ["a.db", "a.db", "b.db", undefined, undefined]);
});

Deno.test("every command rejects :memory:, which no gateway could read", async () => {
  const { run } = setUp({ openStore: openPersistentStore });
  const rejected = {
    code: 1,
    out: [],
    err: [
      "Cannot keep variables in memory, where no gateway would see them: " +
      "it is deleted when this command ends; expected --kv with a file or a URL",
    ],
  };
  for (
    const words of [["set", "A=1"], ["unset", "A"], ["list"], ["history"], [
      "watch",
    ]]
  ) {
    assertEquals(await run(...words, "--kv", ":memory:"), rejected);
  }
});

Deno.test("every command exits with 1 if the store is unavailable, and closes it", async () => {
  let closed = 0;
  const error = new TypeError("it is on fire");
  const failing = fallibleStore(memoryStore(), () => true, { error });
  const store = { ...failing, close: () => void closed++ };
  const { run } = setUp({ stopped: () => new Promise(() => {}) }, store);
  const reason = "Cannot use the store: it is on fire";
  const uncertain = `${reason}; it may have been written; see history`;
  assertEquals(await run("set", "A=1"), { code: 1, out: [], err: [uncertain] });
  assertEquals(await run("unset", "A"), { code: 1, out: [], err: [uncertain] });
  assertEquals(await run("list"), { code: 1, out: [], err: [reason] });
  assertEquals(await run("history"), { code: 1, out: [], err: [reason] });
  assertEquals(await run("watch"), { code: 1, out: [], err: [reason, reason] });
  assertEquals(closed, 5);
});

Deno.test("set has a timeout for a store that does not respond", async () => {
  const store = {
    ...delegate(memoryStore()),
    commit: () => new Promise<undefined>(() => {}),
  };
  const { run, clock } = setUp({}, store);
  const running = run("set", "A=1");
  await settle();
  await clock.tick(5_000);
  const uncertain =
    "Cannot use the store: no answer within 5000 ms; it may have been written; see history";
  assertEquals(await running, { code: 1, out: [], err: [uncertain] });
});

/** Starts a watch on a store. */
async function startWatch(
  store: Store,
  args: string[] = [],
  overrides: Partial<CommandIo> = {},
) {
  const { promise: stopped, resolve: stop } = Promise.withResolvers<void>();
  const out: string[] = [];
  const err: string[] = [];
  const { run, clock } = setUp({
    stopped: () => stopped,
    print: (text) => out.push(text),
    printError: (text) => err.push(text),
    ...overrides,
  }, store);
  const running = run("watch", ...args);
  await settle();
  return { out, err, clock, stop, running };
}

Deno.test("watch prints every new write on a line, until it is stopped", async () => {
  const { store, run } = setUp();
  await run("set", "BEFORE=1");
  const { out, err, stop, running } = await startWatch(store);
  await run("set", "A=1\n\x1b[31m", `B=${"long ".repeat(20)}`);
  await run("unset", "A");
  await settle();
  assertEquals(out, [
    `${AT}  ${START + 1}  set    A=1\\n\\u{1b}[31m`,
    `${AT}  ${START + 2}  set    B=long long long long long long…`,
    `${AT}  ${START + 3}  unset  A`,
  ]);
  assertEquals(err, ["Watching the variables in the store"]);
  stop();
  assertEquals((await running).code, 0);
  assertEquals(out.length, 3);
});

Deno.test("watch --json prints one object per line", async () => {
  const { store, run } = setUp();
  const { out, stop, running } = await startWatch(store, ["--json"]);
  await run("set", "A=1\n2");
  await run("unset", "A");
  await settle();
  assertEquals(out, [
    `{"name":"A","value":"1\\n2","id":${START},"written_at":"${AT}"}`,
    `{"name":"A","value":null,"id":${START + 1},"written_at":"${AT}"}`,
  ]);
  stop();
  assertEquals((await running).code, 0);
});

Deno.test("watch reports when the store becomes unavailable and available again, and misses no write", async () => {
  const memory = memoryStore();
  const { run } = setUp({}, memory);
  let isDown = false;
  const error = new StoreUnavailableError("gone");
  const store = fallibleStore(memory, () => isDown, { error });
  const { out, err, clock, stop, running } = await startWatch(store);
  isDown = true;
  await clock.tick(10_000);
  await run("set", "A=1");
  isDown = false;
  await clock.tick(10_000);
  assertEquals(out, [`${AT}  ${START}  set    A=1`]);
  assertEquals(err, [
    "Watching the variables in the store",
    "gone",
    "The store is available again",
  ]);
  stop();
  assertEquals((await running).code, 0);
});

Deno.test("watch exits with 0 if its output is closed", async () => {
  const { store, run } = setUp();
  const { running } = await startWatch(store, [], {
    print() {
      throw new Deno.errors.BrokenPipe("Broken pipe");
    },
  });
  await run("set", "A=1");
  assertEquals((await running).code, 0);
});

/** Returns the arguments for `deno` that run a command as a process. */
function processArgs(
  args: readonly string[],
  flags: readonly string[],
): string[] {
  return ["run", "--quiet", "-A", ...flags, "main.ts", ...args];
}

const FLAGS = await stdFlags();
const STDIO = { stdin: "null", stdout: "piped", stderr: "piped" } as const;

async function runProcess(
  args: readonly string[],
  flags: readonly string[] = FLAGS,
): Promise<Outcome> {
  const options = {
    args: processArgs(args, flags),
    env: { NO_COLOR: "1" },
    ...STDIO,
  };
  const { code, stdout, stderr } = await new Deno.Command(
    Deno.execPath(),
    options,
  ).output();
  const [out, err] = [stdout, stderr].map((bytes) =>
    new TextDecoder().decode(bytes).split("\n").slice(0, -1)
  );
  return { code, out: out ?? [], err: err ?? [] };
}

Deno.test("the commands as processes share a file, and watch prints the writes of others, until SIGINT", async () => {
  await using directory = await TempDirectory.make();
  const kv = ["--kv", directory.at("kv.sqlite3")];
  const options = {
    args: processArgs(["watch", "--json", ...kv], FLAGS),
    ...STDIO,
  };
  await using watch = new Deno.Command(Deno.execPath(), options).spawn();
  const [out, err] = [watch.stdout, watch.stderr].map((stream) =>
    stream.pipeThrough(new TextDecoderStream()).pipeThrough(
      new TextLineStream(),
    ).getReader()
  );
  assertEquals(
    (await err?.read())?.value,
    "Watching the variables in the store",
  );

  const set = await runProcess(["set", "A=1", "--if-id", "0", "--json", ...kv]);
  assertEquals([set.code, set.err], [0, []]);
  const [written] = JSON.parse(set.out.join("\n"));
  assertEquals(JSON.parse((await out?.read())?.value ?? ""), written);

  const conflict = await runProcess(["set", "A=2", "--if-id", "0", ...kv]);
  assertEquals([conflict.code, conflict.out, conflict.err.length], [1, [], 1]);
  const list = await runProcess(["list", "--json", ...kv]);
  assertEquals([list.code, JSON.parse(list.out.join("\n"))], [0, [written]]);
  assertEquals((await runProcess(["lst", ...kv])).err, [
    'Cannot run "lst": there is no such command; did you mean list?',
  ]);

  watch.kill("SIGINT");
  assertEquals((await watch.status).code, 0);
  assertEquals([(await out?.read())?.done, (await err?.read())?.done], [
    true,
    true,
  ]);
});

Deno.test("the commands reject a store in memory, and name the missing flag", async () => {
  const flags = [
    "--quiet",
    "--no-config",
    "--no-lock",
    "--import-map=tools/std_without_jsr.json",
  ]; // deno.json enables KV
  const missing = "Deno KV is not available; enable it with --unstable-kv";
  const unnamed = await runProcess(["set", "A=1"], flags);
  assertEquals([unnamed.code, unnamed.out, unnamed.err.length], [1, [], 1]);
  assert(
    unnamed.err[0]?.startsWith(
      `Cannot keep variables in memory, where no gateway would see them: ${missing}.`,
    ),
  );
  const named = await runProcess(["list", "--kv", "kv.sqlite3"], flags);
  assertEquals(named, {
    code: 1,
    out: [],
    err: [`Cannot open the store "kv.sqlite3": ${missing}`],
  });
});

Deno.test("the commands find the variables of an app, and without --kv those of a port", async () => {
  const { run } = setUp();
  const places = [
    [],
    ["--port", "3000"],
    ["--port", "0"],
    ["--app", "shop"],
    ["--kv", "kv.sqlite3"],
    ["--kv", "kv.sqlite3", "--app", "blog"],
    ["--app", "blog"],
  ];
  for (const [index, place] of places.entries()) {
    await run("set", `A=${index}`, ...place);
  }
  const found = [];
  for (const place of places) {
    const { out } = await run("list", "--json", ...place);
    found.push(JSON.parse(out.join("\n"))[0].value);
  }
  // Here, every path names the same database: the default one has the variables of port 0 where another has its own.
  assertEquals(found, ["0", "1", "4", "3", "4", "6", "6"]);
});

Deno.test("the commands read the app and the port from the environment", async () => {
  const environment = { REP_GATEWAY_APP: "shop" };
  const { run, store } = setUp({ environment });
  await run("set", "A=1");
  assertEquals((await store.list(["shop/variable"])).length, 1);
  const other = setUp({ environment: { REP_GATEWAY_PORT: "3000" } });
  await other.run("set", "A=1");
  assertEquals((await other.store.list([":3000/variable"])).length, 1);
});

Deno.test("history prints 20 writes by default", async () => {
  const { run } = setUp();
  await run("set", ...Array.from({ length: 25 }, (_, index) => `A${index}=`));
  assertEquals((await run("history")).out.length, 1 + 20);
  assertEquals((await run("history", "--limit", "1000")).out.length, 1 + 25);
});
