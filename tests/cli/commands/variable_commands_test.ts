import { assert, assertEquals } from "@std/assert";
import { isVariableCommand } from "../../../src/cli/commands/command_line.ts";
import { openPersistentStore } from "../../../src/cli/commands/persistent_store.ts";
import { memoryStore } from "../../../src/store/memory.ts";
import { type Store, StoreUnavailableError } from "../../../src/store/store.ts";
import type { CommandIo } from "../../../src/cli/commands/command_io.ts";
import { runVariableCommand } from "../../../src/cli/commands/variable_commands.ts";
import { listVariables } from "../../../src/variables/stored.ts";
import { stdFlags } from "../../../tools/std.ts";
import { TempDirectory } from "../../_temp.ts";
import { FakeClock, settle } from "../../../tools/fake_clock.ts";
import { TextLineStream } from "../../../tools/text_lines.ts";
import { countedStore } from "../../_store.ts";

const START = 1_700_000_000_000;
const AT = "2023-11-14T22:13:20.000Z";

/** What a command came to. */
interface Outcome {
  code: number;
  out: string[];
  err: string[];
}

interface Bench {
  store: Store;
  clock: FakeClock;
  run: (...args: string[]) => Promise<Outcome>;
  values: () => Promise<Record<string, string>>;
}

/** A store that outlives the commands, as a database does that each of them opens for itself. */
function lastingMemory(): Store {
  return { ...countedStore(memoryStore()), close: () => {} };
}

/** Runs commands on one store, without a process. */
function bench(overrides: Partial<CommandIo> = {}, store = lastingMemory()): Bench {
  const clock = new FakeClock(START);
  async function run(...args: string[]): Promise<Outcome> {
    const [out, err]: [string[], string[]] = [[], []];
    const code = await runVariableCommand(args, {
      environment: {},
      openStore: () => Promise.resolve(store),
      columns: 80,
      print: (text) => out.push(...text.split("\n")),
      printError: (text) => err.push(text),
      stopped: () => Promise.reject(new Error("Only a watch can be stopped")),
      clock,
      random: () => 0,
      ...overrides,
    });
    return { code, out, err };
  }
  const values = async () => Object.fromEntries((await listVariables(store)).map(({ name, value }) => [name, value]));
  return { store, clock, run, values };
}

Deno.test("isVariableCommand() knows the five commands, and nothing else", () => {
  const are = [["set", "A=1"], ["unset"], ["list", "--json"], ["history"], ["watch"], ["--", "list"]];
  assertEquals(are.map(isVariableCommand), are.map(() => true));
  const areNot = [[], ["--kv", "list"], ["lists"], ["LIST"], ["toString"], ["--"], ["--help"], ["--", "--", "list"]];
  assertEquals(areNot.map(isVariableCommand), areNot.map(() => false));
});

Deno.test("set writes all that it is given, with or without the prefix, and prints the ids", async () => {
  const { run, values } = bench();
  assertEquals(await run("set", "A=1", "REP_PUBLIC_LONGER=x=y z", "_e1="), {
    code: 0,
    out: [`NAME    ID`, `A       ${START}`, `LONGER  ${START + 1}`, `_e1     ${START + 2}`],
    err: [],
  });
  assertEquals(await values(), { A: "1", LONGER: "x=y z", _e1: "" });
});

Deno.test("set --json prints what was written", async () => {
  const { code, out, err } = await bench().run("set", "A=1", "--json");
  assertEquals([code, err], [0, []]);
  assertEquals(JSON.parse(out.join("\n")), [{ name: "A", value: "1", id: START, written_at: AT }]);
});

Deno.test("set takes values that look like options, or hold anything at all", async () => {
  const { run, values } = bench();
  assertEquals((await run("set", "A=--force", "B=\x1b[31m\nred", "C=1e3", "--", "D=-1")).code, 0);
  assertEquals(await values(), { A: "--force", B: "\x1b[31m\nred", C: "1e3", D: "-1" });
});

Deno.test("unset takes variables out, prints the ids of that, and says what was not there", async () => {
  const { run, values } = bench();
  await run("set", "A=1", "B=2");
  assertEquals(await run("unset", "REP_PUBLIC_A", "C"), {
    code: 0,
    out: ["NAME  ID", `A     ${START + 2}`],
    err: ["C is not in the store"],
  });
  assertEquals(await values(), { B: "2" });
  assertEquals(await run("unset", "A"), { code: 0, out: [], err: ["A is not in the store"] });
  const json = await run("unset", "B", "--json");
  assertEquals(JSON.parse(json.out.join("\n")), [{ name: "B", value: null, id: START + 3, written_at: AT }]);
  assertEquals(await run("unset", "B", "--json"), { code: 0, out: ["[]"], err: ["B is not in the store"] });
});

Deno.test("list prints a table that no value breaks, cut to the width", async () => {
  const { run } = bench();
  await run("set", "B=\x1b[31mred\x1b[0m\nNAME  fake", `A=${"long ".repeat(20)}`, "C=");
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

Deno.test("list --json prints whole values", async () => {
  const { run } = bench();
  await run("set", "B=\x1b[31m\n", `A=${"x ".repeat(500)}`);
  const { code, out } = await run("list", "--json");
  assertEquals(code, 0);
  assertEquals(JSON.parse(out.join("\n")), [
    { name: "A", value: "x ".repeat(500), id: START + 1, written_at: AT },
    { name: "B", value: "\x1b[31m\n", id: START, written_at: AT },
  ]);
});

Deno.test("list and history of an empty store print nothing, or an empty array", async () => {
  const { run } = bench();
  assertEquals(await run("list"), { code: 0, out: [], err: ["There are no variables in the store"] });
  assertEquals(await run("history"), { code: 0, out: [], err: ["Nothing has been written yet"] });
  assertEquals(await run("list", "--json"), { code: 0, out: ["[]"], err: [] });
  assertEquals(await run("history", "--json"), { code: 0, out: ["[]"], err: [] });
});

Deno.test("history prints the newest writes first, as many as --limit says", async () => {
  const { run, clock } = bench();
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
  assertEquals(await run("history", "--limit", "2"), { code: 0, out: rows.slice(0, 3), err: [] });
  const json = await run("history", "--json", "--limit=1");
  assertEquals(JSON.parse(json.out.join("\n")), [
    { name: "A", value: null, id: START + 60_000, written_at: "2023-11-14T22:14:20.000Z" },
  ]);
});

Deno.test("history prints 20 writes unless it is told otherwise", async () => {
  const { run } = bench();
  await run("set", ...Array.from({ length: 25 }, (_, index) => `A${index}=`));
  assertEquals((await run("history")).out.length, 1 + 20);
  assertEquals((await run("history", "--limit", "1000")).out.length, 1 + 25);
});

Deno.test("--if-id writes when the id is that, and else exits with 1 and says what it is", async () => {
  const { run, values } = bench();
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
    err: [`Cannot write REP_PUBLIC_A: expected its id to be ${START + 1}, but it does not exist`],
  });
});

const IN_ENVIRONMENT =
  "everybody who can open the database could read the value; it belongs in the gateway's environment";
const SHAPE = "expected letters, digits and _, and no digit first";

/** Names that cannot be used, and why. */
const BAD_NAMES: Record<string, string> = {
  "REP_SENSITIVE_KEY": `SENSITIVE variables are not put into the store: ${IN_ENVIRONMENT}`,
  "REP_SERVER_URL": `SERVER variables are not put into the store: ${IN_ENVIRONMENT}`,
  "rep_sensitive_key": `SENSITIVE variables are not put into the store: ${IN_ENVIRONMENT}`,
  "REP_PUBLIC_REP_SERVER_URL": `SERVER variables are not put into the store: ${IN_ENVIRONMENT}`,
  "REP_GATEWAY_PORT": "it is an option of the gateway; it belongs in its environment",
  "": SHAPE,
  "REP_PUBLIC_": SHAPE,
  "1A": SHAPE,
  "A-B": SHAPE,
  "A B": SHAPE,
  "A.B": SHAPE,
  "Ä": SHAPE,
  "A\n": SHAPE,
  ["N".repeat(1_025)]: "expected at most 1024 bytes, got 1025",
};

for (const [key, why] of Object.entries(BAD_NAMES)) {
  Deno.test(`set and unset refuse the name ${JSON.stringify(key.slice(0, 30))}`, async () => {
    const { run, values } = bench();
    const shown = JSON.stringify(key);
    const name = shown.length > 60 ? `${shown.slice(0, 60)}…` : shown;
    const refused = { code: 1, out: [], err: [`Cannot use the name ${name}: ${why}`] };
    assertEquals(await run("set", "GOOD=1", `${key}=value`, "--force"), refused);
    assertEquals(await run("unset", "GOOD", key), refused);
    assertEquals(await values(), {});
  });
}

Deno.test("set takes the longest name and the largest value, and refuses the next larger", async () => {
  const { run, values } = bench();
  const name = "N".repeat(1_024);
  assertEquals((await run("set", `${name}=1`, `LARGE=${"ä".repeat(32_000)}`)).code, 0);
  assertEquals(await run("set", "OTHER=1", `LARGE=${"ä".repeat(32_000)}.`), {
    code: 1,
    out: [],
    err: ["Cannot publish the value of REP_PUBLIC_LARGE: expected at most 64000 bytes, got 64001"],
  });
  assertEquals(Object.keys(await values()), ["LARGE", name]);
});

const TOKEN = `ghp_${"a1B2".repeat(9)}`;

Deno.test("set refuses a value that looks like a secret, with the reason and without the value", async () => {
  const { run, values } = bench();
  assertEquals(await run("set", `A=${TOKEN}`, "B=harmless"), {
    code: 1,
    out: [],
    err: [
      "Cannot set REP_PUBLIC_A: the value looks like a GitHub token; everybody could read it; --force sets it all the same",
    ],
  });
  assertEquals(await values(), {});
});

Deno.test("set --force writes a value that looks like a secret, and says so", async () => {
  const { run, values } = bench();
  const { code, err } = await run("set", `A=${TOKEN}`, "--force");
  assertEquals([code, err], [0, ["Set all the same: REP_PUBLIC_A: the value looks like a GitHub token"]]);
  assertEquals(await values(), { A: TOKEN });
});

Deno.test("set refuses a name that its own environment holds in another tier", async () => {
  const { run, values } = bench({
    environment: { REP_SENSITIVE_A: "secret", REP_SERVER_B: "secret", REP_PUBLIC_C: "1" },
  });
  assertEquals(await run("set", "A=1", "B=2", "C=3", "--force"), {
    code: 1,
    out: [],
    err: [
      "Cannot tell REP_PUBLIC_A and REP_SENSITIVE_A apart: expected a name to be in one tier only\n" +
      "Cannot tell REP_PUBLIC_B and REP_SERVER_B apart: expected a name to be in one tier only",
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

Deno.test("set --manifest writes what fits it, whatever else it requires, and says what is deprecated", async () => {
  await using directory = await TempDirectory.make();
  const path = directory.at("rep.yaml");
  await Deno.writeTextFile(path, MANIFEST);
  const { run, values } = bench();
  const fits = { COUNT: "1", LEVEL: "low", MAIL: "a@b", OLD: "x", UNDECLARED: "y" };
  const words = Object.entries(fits).map(([name, value]) => `${name}=${value}`);
  const { code, err } = await run("set", ...words, "--manifest", path);
  assertEquals([code, err], [0, ["Deprecated: OLD: use NEW"]]);
  assertEquals(await values(), fits);
});

Deno.test("set --manifest refuses what does not fit it, all of it at once, and --force changes nothing", async () => {
  await using directory = await TempDirectory.make();
  const path = directory.at("rep.yaml");
  await Deno.writeTextFile(path, MANIFEST);
  const { run, values } = bench({ environment: { REP_GATEWAY_MANIFEST: path } });
  const words = ["KEY=1", "DATABASE=2", "URL=three", "COUNT=four", "MAIL=five", "LEVEL=six", "UNDECLARED=seven"];
  assertEquals(await run("set", ...words, "--force"), {
    code: 1,
    out: [],
    err: [[
      'Cannot use REP_PUBLIC_URL: expected a URL, got "three"',
      'Cannot use REP_PUBLIC_COUNT: expected a number, got "four"',
      'Cannot use REP_PUBLIC_MAIL: expected a value that matches ^[^@]+@[^@]+$, got "five"',
      'Cannot use REP_PUBLIC_LEVEL: expected one of low, high, got "six"',
      "Cannot use REP_PUBLIC_KEY: the manifest declares it as REP_SENSITIVE_KEY",
      "Cannot use REP_PUBLIC_DATABASE: the manifest declares it as REP_SERVER_DATABASE",
    ].join("\n")],
  });
  assertEquals(await values(), {});
});

Deno.test("set refuses a manifest that is not there, or is none", async () => {
  await using directory = await TempDirectory.make();
  const path = directory.at("rep.yaml");
  const { run, values } = bench();
  const missing = await run("set", "A=1", "--manifest", path);
  assertEquals([missing.code, missing.err[0]?.startsWith(`Cannot read --manifest "${path}": `)], [1, true]);
  await Deno.writeTextFile(path, 'version: "0.1.0"');
  assertEquals(await run("set", "A=1", "--manifest", path), {
    code: 1,
    out: [],
    err: ["Cannot use the manifest: variables: expected a mapping, got nothing"],
  });
  assertEquals(await values(), {});
});

/** Command lines that are wrong, and what is said about them. */
const WRONG: [string, string][] = [
  ["set", "Cannot set nothing: expected set KEY=VALUE ...; see --help"],
  ["unset", "Cannot unset nothing: expected unset KEY ...; see --help"],
  ["set A", 'Cannot set "A": expected KEY=VALUE'],
  ["set A=1 REP_PUBLIC_A=2", "Cannot set A twice: expected one value"],
  ["list A", 'Cannot list "A": expected options only; see --help'],
  ["watch A=1", 'Cannot watch "A=1": expected options only; see --help'],
  ["history 5", 'Cannot history "5": expected options only; see --help'],
  ["list --jsno", "Cannot use --jsno: there is no such option; did you mean --json?"],
  ["list --kv.a=1", "Cannot use --kv.a: there is no such option; did you mean --kv?"],
  ["set A=1 -f", "Cannot use -f: there is no such option; did you mean --kv?"],
  ["set A=1 --port 80", "Cannot use --port: there is no such option; did you mean --force?"],
  ["unset A --force", "Cannot unset with --force: it is an option of set"],
  ["unset A --manifest x", "Cannot unset with --manifest: it is an option of set"],
  ["list --if-id 1", "Cannot list with --if-id: it is an option of set and unset"],
  ["set A=1 --limit 5", "Cannot set with --limit: it is an option of history"],
  ["set A=1 B=2 --if-id 0", "Cannot set with --if-id: expected one variable, got 2"],
  ["set A=1 --if-id", 'Cannot read --if-id: expected an integer from 0 to 9007199254740991, got ""'],
  ["set A=1 --if-id=-1", 'Cannot read --if-id: expected an integer from 0 to 9007199254740991, got "-1"'],
  ["set A=1 --if-id=1e3", 'Cannot read --if-id: expected an integer from 0 to 9007199254740991, got "1e3"'],
  [
    "set A=1 --if-id=9007199254740992",
    'Cannot read --if-id: expected an integer from 0 to 9007199254740991, got "9007199254740992"',
  ],
  ["history --limit 0", 'Cannot read --limit: expected an integer from 1 to 1000, got "0"'],
  ["history --limit 1001", 'Cannot read --limit: expected an integer from 1 to 1000, got "1001"'],
  ["list --kv=", 'Cannot read --kv: expected some text, got ""'],
  ["set A=1 --manifest=", 'Cannot read --manifest: expected some text, got ""'],
  ["move A", 'Cannot run "move": expected set, unset, list, history, watch'],
];

Deno.test("runVariableCommand() exits with 2 when it is called wrongly, and has not opened the store", async () => {
  const { run } = bench({ openStore: () => Promise.reject(new Error("The store was opened")) });
  for (const [words, message] of WRONG) {
    assertEquals([words, await run(...words.split(" "))], [words, { code: 2, out: [], err: [message] }]);
  }
});

Deno.test("--help prints what there is, for every command", async () => {
  const { run } = bench({ openStore: () => Promise.reject(new Error("The store was opened")) });
  const { code, out, err } = await run("set", "--help");
  assertEquals([code, err], [0, []]);
  for (const command of ["set KEY=VALUE ...", "unset KEY ...", "list", "history", "watch"]) {
    assert(out.some((line) => line.startsWith(`  ${command} `)), command);
  }
  for (
    const flag of ["--kv PATH|URL", "--json", "--if-id ID", "--force", "--manifest FILE", "--limit N", "-h, --help"]
  ) {
    assert(out.some((line) => line.startsWith(`  ${flag} `)), flag);
  }
  for (const command of ["unset", "list", "history", "watch"]) {
    assertEquals([await run(command, "--help"), await run(command, "-h")], [{ code, out, err }, { code, out, err }]);
  }
});

Deno.test("--kv names the store; REP_GATEWAY_KV does where there is no flag, unless it is empty", async () => {
  const opened: (string | undefined)[] = [];
  const openStore = (path: string | undefined) => {
    opened.push(path);
    return Promise.resolve(memoryStore());
  };
  await bench({ openStore }).run("list", "--kv", "a.db");
  await bench({ openStore, environment: { REP_GATEWAY_KV: "b.db" } }).run("list", "--kv", "a.db");
  await bench({ openStore, environment: { REP_GATEWAY_KV: "b.db" } }).run("set", "A=1");
  await bench({ openStore, environment: { REP_GATEWAY_KV: "" } }).run("history");
  await bench({ openStore }).run("unset", "A");
  assertEquals(opened, ["a.db", "a.db", "b.db", undefined, undefined]);
});

Deno.test("every command refuses :memory:, since nobody would ever see the value", async () => {
  const { run } = bench({ openStore: openPersistentStore });
  const refused = {
    code: 1,
    out: [],
    err: [
      "Cannot keep variables in memory, where no gateway would see them: " +
      "it ends with this command; expected --kv with a file or a URL",
    ],
  };
  for (const words of [["set", "A=1"], ["unset", "A"], ["list"], ["history"], ["watch"]]) {
    assertEquals(await run(...words, "--kv", ":memory:"), refused);
  }
});

Deno.test("every command exits with 1 when the store does not answer, and closes it", async () => {
  let closed = 0;
  const fail = () => Promise.reject(new TypeError("it is on fire"));
  const store = { ...countedStore(memoryStore()), get: fail, list: fail, commit: fail, close: () => void closed++ };
  const { run } = bench({ stopped: () => new Promise(() => {}) }, store);
  const why = "Cannot use the store: it is on fire";
  const unsure = `${why}; history says what was written all the same`;
  assertEquals(await run("set", "A=1"), { code: 1, out: [], err: [unsure] });
  assertEquals(await run("unset", "A"), { code: 1, out: [], err: [unsure] });
  assertEquals(await run("list"), { code: 1, out: [], err: [why] });
  assertEquals(await run("history"), { code: 1, out: [], err: [why] });
  assertEquals(await run("watch"), { code: 1, out: [], err: [why, why] });
  assertEquals(closed, 5);
});

Deno.test("set does not wait for ever for a store that does not answer", async () => {
  const store = { ...countedStore(memoryStore()), commit: () => new Promise<undefined>(() => {}) };
  const { run, clock } = bench({}, store);
  const running = run("set", "A=1");
  await settle();
  await clock.tick(5_000);
  const unsure = "Cannot use the store: no answer within 5000 ms; history says what was written all the same";
  assertEquals(await running, { code: 1, out: [], err: [unsure] });
});

Deno.test("list does not wait for ever for a store that does not open", async () => {
  const { run, clock } = bench({ openStore: () => new Promise(() => {}) });
  const running = run("list");
  await clock.tick(10_000);
  assertEquals(await running, { code: 1, out: [], err: ["Cannot open the store: no answer within 10000 ms"] });
});

/** A watch that is under way on a store, until it is stopped. */
async function watching(store: Store, args: string[] = [], overrides: Partial<CommandIo> = {}) {
  const { promise: stopped, resolve: stop } = Promise.withResolvers<void>();
  const out: string[] = [];
  const err: string[] = [];
  const { run, clock } = bench({
    stopped: () => stopped,
    print: (text) => out.push(text),
    printError: (text) => err.push(text),
    ...overrides,
  }, store);
  const running = run("watch", ...args);
  await settle();
  return { out, err, clock, stop, running };
}

Deno.test("watch prints each write from then on, one a line, until it is stopped", async () => {
  const { store, run } = bench();
  await run("set", "BEFORE=1");
  const { out, err, stop, running } = await watching(store);
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

Deno.test("watch --json prints one object a line", async () => {
  const { store, run } = bench();
  const { out, stop, running } = await watching(store, ["--json"]);
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

Deno.test("watch says when the store stops answering and when it answers again, and misses nothing", async () => {
  const memory = memoryStore();
  const { run } = bench({}, memory);
  let isDown = false;
  const get: Store["get"] = (key) => isDown ? Promise.reject(new StoreUnavailableError("gone")) : memory.get(key);
  const { out, err, clock, stop, running } = await watching({ ...countedStore(memory), get, watch: () => () => {} });
  isDown = true;
  await clock.tick(10_000);
  await run("set", "A=1");
  isDown = false;
  await clock.tick(10_000);
  assertEquals(out, [`${AT}  ${START}  set    A=1`]);
  assertEquals(err, ["Watching the variables in the store", "gone", "The store answers again"]);
  stop();
  assertEquals((await running).code, 0);
});

Deno.test("watch ends with 0 when whoever read its output has gone", async () => {
  const { store, run } = bench();
  const { running } = await watching(store, [], {
    print() {
      throw new Deno.errors.BrokenPipe("Broken pipe");
    },
  });
  await run("set", "A=1");
  assertEquals((await running).code, 0);
});

/** Arguments for `deno` that run a command as a process of its own. */
function processArgs(args: readonly string[], flags: readonly string[]): string[] {
  return ["run", "--quiet", "-A", ...flags, "main.ts", ...args];
}

const FLAGS = await stdFlags();
const FOR_ALL = { stdin: "null", stdout: "piped", stderr: "piped" } as const;

async function runProcess(args: readonly string[], flags: readonly string[] = FLAGS): Promise<Outcome> {
  const options = { args: processArgs(args, flags), env: { NO_COLOR: "1" }, ...FOR_ALL };
  const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), options).output();
  const [out, err] = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes).split("\n").slice(0, -1));
  return { code, out: out ?? [], err: err ?? [] };
}

Deno.test("the commands as processes share one file, and a watch sees what the others write, until SIGINT", async () => {
  await using directory = await TempDirectory.make();
  const kv = ["--kv", directory.at("kv.sqlite3")];
  const options = { args: processArgs(["watch", "--json", ...kv], FLAGS), ...FOR_ALL };
  await using watch = new Deno.Command(Deno.execPath(), options).spawn();
  const [out, err] = [watch.stdout, watch.stderr].map((stream) =>
    stream.pipeThrough(new TextDecoderStream()).pipeThrough(new TextLineStream()).getReader()
  );
  assertEquals((await err?.read())?.value, "Watching the variables in the store");

  const set = await runProcess(["set", "A=1", "--if-id", "0", "--json", ...kv]);
  assertEquals([set.code, set.err], [0, []]);
  const [written] = JSON.parse(set.out.join("\n"));
  assertEquals(JSON.parse((await out?.read())?.value ?? ""), written);

  const conflict = await runProcess(["set", "A=2", "--if-id", "0", ...kv]);
  assertEquals([conflict.code, conflict.out, conflict.err.length], [1, [], 1]);
  const list = await runProcess(["list", "--json", ...kv]);
  assertEquals([list.code, JSON.parse(list.out.join("\n"))], [0, [written]]);
  assertEquals((await runProcess(["lst", ...kv])).code, 2);

  watch.kill("SIGINT");
  assertEquals((await watch.status).code, 0);
  assertEquals([(await out?.read())?.done, (await err?.read())?.done], [true, true]);
});

Deno.test("the commands refuse to run without a store that lasts, and name the flag that is missing", async () => {
  const flags = ["--no-config", "--no-lock", "--import-map=tools/std_without_jsr.json"]; // deno.json asks for KV
  const missing = "this Deno has no KV; --unstable-kv brings it";
  const unnamed = await runProcess(["set", "A=1"], flags);
  assertEquals([unnamed.code, unnamed.out, unnamed.err.length], [1, [], 1]);
  assert(unnamed.err[0]?.startsWith(`Cannot keep variables in memory, where no gateway would see them: ${missing}.`));
  const named = await runProcess(["list", "--kv", "kv.sqlite3"], flags);
  assertEquals(named, { code: 1, out: [], err: [`Cannot open --kv "kv.sqlite3": ${missing}`] });
});
