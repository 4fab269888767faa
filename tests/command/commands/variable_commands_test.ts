import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import type { CommandIo } from "../../../src/command/commands/command_io.ts";
import { openPersistentStore } from "../../../src/command/commands/deno_io.ts";
import { listVariables } from "../../../src/core/config/stored/stored_variables.ts";
import { writeVariables } from "../../../src/stored/write_variables.ts";
import { storeOfApp, storeOfPort } from "../../../src/core/store/app_store.ts";
import { memoryStore } from "../../../src/engines/memory.ts";
import type { Store } from "../../../src/core/store/store.ts";
import { FakeClock, settle } from "../../../tools/fake_clock.ts";
import { delegate, fallibleStore } from "../../_store.ts";
import { runDeno } from "../../_command.ts";
import { TempDirectory } from "../../_temp.ts";
import { done, failed, type Outcome, runWith } from "./_run.ts";
import { systemClock } from "../../../src/core/values/clock.ts";

const START = 1_700_000_000_000;
const AT = "2023-11-14T22:13:20.000Z";
/** What is printed after a write, since none of these tests has a gateway. */
const NO_GATEWAY =
  "Written; no gateway with --hot-reload is running here (check --kv, --app and --port if one should), " +
  "and others, or one that has started with an invalid value in the store, do not report what they have taken";

/** Creates a store that stays open when a command closes it, like a database that every command opens anew. */
function persistentMemory(): Store {
  return { ...delegate(memoryStore()), close: () => {} };
}

/** Sets up commands that share a store and run in this process. */
function setUp(
  overrides: Partial<CommandIo> = {},
  store = persistentMemory(),
) {
  const clock = new FakeClock(START);
  const io = { openStore: () => Promise.resolve(store), clock, ...overrides };
  return {
    store,
    clock,
    run: (...args: string[]) => runWith(args, io),
    async values() {
      const variables = await listVariables(storeOfPort(store, 8080));
      const entries = variables.map(({ name, value }) => [name, value]);
      return Object.fromEntries(entries);
    },
  };
}

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
    err: [NO_GATEWAY],
  });
  assertEquals(await values(), { A: "1", LONGER: "x=y z", _e1: "" });
});

Deno.test("set accepts any value, also one that looks like an option", async () => {
  const { run, values } = setUp();
  await run("set", "A=--force", "B=\x1b[31m\nred", "C=1e3", "--", "D=-1");
  const expected = { A: "--force", B: "\x1b[31m\nred", C: "1e3", D: "-1" };
  assertEquals(await values(), expected);
});

Deno.test("unset deletes variables, prints the ids of the writes, and names missing variables", async () => {
  const { run, values } = setUp();
  await run("set", "A=1", "B=2");
  assertEquals(
    await run("unset", "REP_PUBLIC_A", "C"),
    done(
      ["NAME  ID", `A     ${START + 2}`],
      [NO_GATEWAY, "C is not in the store"],
    ),
  );
  assertEquals(await values(), { B: "2" });
  assertEquals(await run("unset", "A"), done([], ["A is not in the store"]));
});

Deno.test("--json prints writes and variables in full", async () => {
  const { run } = setUp();
  const json = async (...args: string[]) =>
    JSON.parse((await run(...args, "--json")).out.join("\n"));
  const long = "x ".repeat(500);
  const a = { name: "A", value: long, id: START, written_at: AT };
  const b = { name: "B", value: "\x1b[31m\n", id: START + 1, written_at: AT };
  const deleted = { name: "A", value: null, id: START + 2, written_at: AT };
  const taken = { taken_by: [], not_taken_by: [] };
  assertEquals(await json("set", "--force", `A=${long}`, "B=\x1b[31m\n"), [
    { ...a, ...taken },
    { ...b, ...taken },
  ]);
  assertEquals(await json("list"), [a, b]);
  assertEquals(await json("unset", "A"), [{ ...deleted, ...taken }]);
  assertEquals(await json("unset", "A"), []);
  assertEquals(await json("history"), [
    { ...deleted, previous: long, command: "unset" },
    { ...b, command: "set" },
    { ...a, command: "set" },
  ]);
});

Deno.test("list prints a line for each variable, whatever the values are", async () => {
  const { run } = setUp();
  await run(
    "set",
    "--force", // since A ends with white space
    "B=\x1b[31mred\x1b[0m\nNAME  fake",
    `A=${"long ".repeat(20)}`,
    "C=",
  );
  assertEquals(await run("list"), {
    code: 0,
    out: [
      "NAME  ID             WRITTEN                   VALUE",
      `A     ${START + 1}  ${AT}  ${"long ".repeat(20).trimEnd()}`,
      `B     ${START}  ${AT}  \\u001b[31mred\\u001b[0m\\nNAME  fake`,
      `C     ${START + 2}  ${AT}`,
    ],
    err: [],
  });
});

Deno.test("list and history of an empty store print a heading, or an empty array", async () => {
  const { run } = setUp();
  assertEquals(
    await run("list"),
    done(["NAME  ID  WRITTEN  VALUE"]),
  );
  const heading = "WRITTEN  ID  WRITE  BY  WHY  NAME  VALUE";
  assertEquals(await run("history"), done([heading]));
  assertEquals(await run("list", "--json"), done(["[]"]));
  assertEquals(await run("history", "--json"), done(["[]"]));
});

Deno.test("history prints the newest writes first, up to --limit", async () => {
  const { run, clock } = setUp();
  await run("set", "A=1", "B=a\nb");
  await clock.tick(60_000);
  await run("unset", "A");
  const rows = [
    "WRITTEN                   ID             WRITE  BY  WHY  NAME  VALUE",
    `2023-11-14T22:14:20.000Z  ${START + 60_000}  unset           A`,
    `${AT}  ${START + 1}  set             B     a\\nb`,
    `${AT}  ${START}  set             A     1`,
  ];
  assertEquals(await run("history"), done(rows));
  assertEquals(await run("history", "--limit=2"), done(rows.slice(0, 3)));
});

Deno.test("history says who wrote, and why: --by, else REP_GATEWAY_BY, else the user", async () => {
  const store = persistentMemory();
  const actor = () => "al@host";
  const { run } = setUp({ actor }, store);
  const environment = { REP_GATEWAY_BY: "ci" };
  const { run: runInCi } = setUp({ actor, environment }, store);
  await run("set", "A=1");
  await runInCi("set", "A=2", "--why=a\x1b[31m\nfake");
  await runInCi("unset", "A", "--by", "bo");
  const { out } = await run("history");
  const cells = out.slice(1).map((row) => row.split(/  +/).slice(2));
  assertEquals(cells, [
    ["unset", "bo", "A"],
    ["set", "ci", "a\\u001b[31m\\nfake", "A", "2"],
    ["set", "al@host", "A", "1"],
  ]);
  const [newest] = JSON.parse((await run("history", "--json")).out.join(""));
  const { command, by, previous } = newest;
  assertEquals([command, by, previous], ["unset", "bo", "2"]);
});

Deno.test("--by and --why are bounded", async () => {
  const { run, values } = setUp();
  for (
    const [flag, max] of [["--by", 128], ["--why", 512]] as const
  ) {
    const { code, err } = await run(
      "set",
      "A=1",
      `${flag}=${"x ".repeat(max)}`,
    );
    assertEquals(code, 2);
    assertStringIncludes(
      String(err),
      `Cannot read ${flag}: expected 1 to ${max} characters`,
    );
  }
  assertEquals(await values(), {});
});

Deno.test("undo takes back a write, and undoing that redoes it", async () => {
  const { run, values } = setUp();
  await run("set", "A=1", "B=1");
  await run("set", "A=2", "B=2");
  assertEquals(
    await run("undo"),
    done(
      ["NAME  ID", `A     ${START + 4}`, `B     ${START + 5}`],
      [
        `Took back the set ${
          START + 3
        } of an unknown writer: REP_PUBLIC_A from "2" to "1", REP_PUBLIC_B from "2" to "1"`,
        NO_GATEWAY,
      ],
    ),
  );
  assertEquals(await values(), { A: "1", B: "1" });
  const { out } = await run("history", "--limit=1");
  assertStringIncludes(String(out[1]), `set, undoes ${START + 3} `);
  assertEquals((await run("undo", String(START + 4))).code, 0);
  assertEquals(await values(), { A: "2", B: "2" });
  assertEquals(
    await run("undo", String(START)),
    failed(
      `Cannot undo ${
        START + 1
      }: expected no later write, but REP_PUBLIC_A was set to "2" at ${AT} (id ${
        START + 6
      }); REP_PUBLIC_B was set to "2" at ${AT} (id ${START + 7})`,
    ),
  );
});

/** Commands of several users on one store. */
function setUpUsers() {
  const store = persistentMemory();
  const as = (user: string | undefined, overrides: Partial<CommandIo> = {}) =>
    setUp({ actor: () => user, ...overrides }, store);
  return { store, as, values: as("").values };
}

/** What is refused without an id: the user, what was written before, and how the message calls that. */
const NEEDS_ID: Record<
  string,
  [user: string | undefined, writes: [string | undefined, string[]][], RegExp]
> = {
  "a set by somebody else": [
    "al@pc",
    [["bo@pc", ["set", "A=bad"]]],
    /the set \d+ of "bo@pc": REP_PUBLIC_A from "bad" to "good"/,
  ],
  "an unset by somebody else": [
    "al@pc",
    [["bo@pc", ["unset", "A"]]],
    /the unset \d+ of "bo@pc": REP_PUBLIC_A from nothing to "good"/,
  ],
  "a set of several variables by somebody else": [
    "al@pc",
    [["bo@pc", ["set", "A=bad", "B=new"]]],
    /the set \d+ of "bo@pc": REP_PUBLIC_A from "bad" to "good", REP_PUBLIC_B from "new" to nothing/,
  ],
  "an undo by somebody else": [
    "al@pc",
    [["al@pc", ["set", "A=bad"]], ["bo@pc", ["undo", "NEWEST"]]],
    /the undo \d+ of "bo@pc": REP_PUBLIC_A from "good" to "bad"/,
  ],
  "an undo of their own": [
    "al@pc",
    [["al@pc", ["set", "A=bad"]], ["al@pc", ["undo"]]],
    /the undo \d+ of "al@pc": REP_PUBLIC_A from "good" to "bad"/,
  ],
  "a set by a writer who is not known": [
    "al@pc",
    [[undefined, ["set", "A=bad"]]],
    /the set \d+ of an unknown writer: /,
  ],
  "a set by a known writer, for a user who is not": [
    undefined,
    [["al@pc", ["set", "A=bad"]]],
    /the set \d+ of "al@pc": /,
  ],
  "a writer whose name has control characters": [
    "al@pc",
    [["\x1b[31m\nTook back", ["set", "A=bad"]]],
    /^[ -~]*the set \d+ of "\\u001b\[31m\\nTook back": /,
  ],
};

for (const app of [[], ["--app=shop"]]) {
  for (const [what, [user, writes, expected]] of Object.entries(NEEDS_ID)) {
    Deno.test(`undo needs the id of ${what}${app.length > 0 ? ", with --app" : ""}`, async () => {
      const { as } = setUpUsers();
      await as("al@pc").run("set", "A=good", ...app);
      const list = async () =>
        (await as(user).run("list", "--json", ...app)).out.join("");
      const newest = async () => {
        const { out } = await as(user).run("history", "--json", ...app);
        return String(JSON.parse(out.join("\n"))[0].id);
      };
      for (const [writer, args] of writes) {
        const id = await newest();
        const named = args.map((arg) => arg.replace("NEWEST", id));
        assertEquals((await as(writer).run(...named, ...app)).code, 0);
      }
      const before = await list();
      const refused = await as(user).run("undo", "--json", ...app);
      const id = await newest();
      assertEquals([refused.code, refused.out], [1, []]);
      const message = refused.err.join("\n");
      assertMatch(message, expected);
      assertMatch(message, /^Cannot undo without an id: expected /);
      assertMatch(message, new RegExp(`; to take that back, use: undo ${id}$`));
      assertEquals(await list(), before);
      const named = await as(user).run("undo", id, ...app);
      assertEquals([named.code, await list() === before], [0, false]);
      assertMatch(String(named.err[0]), expected);
      assertMatch(String(named.err[0]), /^Took back the /);
    });
  }
}

Deno.test("of two who undo the same write, one does, and the other is told what the value is already", async () => {
  for (const named of [false, true]) {
    const { store, as, values } = setUpUsers();
    const { clock } = as("");
    await as("al@pc", { clock }).run("set", "A=good");
    await clock.tick(1_000);
    await as("al@pc", { clock }).run("set", "A=bad");
    const id = named ? [String(START + 1_000)] : [];
    let late: Promise<Outcome> | undefined;
    const racing: Store = {
      ...delegate(store),
      async commit(checks, writes) {
        if (late === undefined) {
          late = as("al@pc", { clock }).run("undo", ...id);
          await late; // between the read and the commit of the other
        }
        return await store.commit(checks, writes);
      },
    };
    const first = setUp({
      actor: () => "al@pc",
      clock: systemClock,
      openStore: () => Promise.resolve(racing),
    });
    const { code, err } = await first.run("undo", ...id);
    assertEquals([(await late)?.code, code], [0, 1]);
    assertStringIncludes(
      String(err),
      `expected no later write, but REP_PUBLIC_A was set to "good"`,
    );
    assertEquals(await values(), { A: "good" });
  }
});

Deno.test("undo validates the values before as set does", async () => {
  await using directory = await TempDirectory.make({ "rep.yaml": MANIFEST });
  const { run, values } = setUp();
  await run("set", "COUNT=many", `A=${TOKEN}`, "--force");
  await run("unset", "COUNT", "A");
  const secret = await run("undo");
  assertEquals(secret.code, 1);
  assertStringIncludes(String(secret.err), "use force to set it anyway");
  assertEquals(String(secret.err).includes(TOKEN), false);
  const manifest = ["--manifest", directory.at("rep.yaml"), "--force"];
  const { code, err } = await run("undo", ...manifest);
  assertEquals(code, 1);
  assertStringIncludes(String(err), "COUNT");
  assertEquals(await values(), {});
  const forced = await run("undo", "--force");
  assertEquals([forced.code, forced.err.length], [0, 3]);
  assertEquals(String(forced.err).includes(TOKEN), false);
  assertEquals(await values(), { A: TOKEN, COUNT: "many" });
});

Deno.test("undo expects the id of one write", async () => {
  const { run } = setUp();
  for (const args of [["A"], ["0"], ["1.5"], ["1", "2"]]) {
    const { code, err } = await run("undo", ...args);
    assertEquals([code, err], [2, [
      `Cannot undo ${
        JSON.stringify(args.join(" "))
      }: expected the id of one write`,
    ]]);
  }
});

Deno.test("--if-id writes if the id matches, or else exits with 1 and reports the current id", async () => {
  const { run, values } = setUp();
  const expected = "Cannot write REP_PUBLIC_A: expected its id to be";
  assertEquals((await run("set", "A=1", "--if-id=0")).code, 0);
  assertEquals(
    await run("set", "A=2", "--if-id=5"),
    failed(
      `${expected} 5, but its id is ${START}, with the value "1", written at ${AT}`,
    ),
  );
  assertEquals(await values(), { A: "1" });
  assertEquals((await run("unset", "A", `--if-id=${START}`)).code, 0);
  assertEquals(
    await run("unset", "A", "--if-id=5"),
    failed(`${expected} 5, but it does not exist`),
  );
});

const ONLY_PUBLIC =
  "only PUBLIC variables can be in the store, since anyone with access to the database can read them; set it in the environment of the gateway";
const SYNTAX = "expected letters, digits and _, not beginning with a digit";

/** Invalid names, and the reasons. */
const INVALID_NAMES: Record<string, string> = {
  "REP_SENSITIVE_KEY": ONLY_PUBLIC,
  "REP_SERVER_URL": ONLY_PUBLIC,
  "rep_sensitive_key": ONLY_PUBLIC,
  "REP_PUBLIC_REP_SERVER_URL": ONLY_PUBLIC,
  "REP_GATEWAY_PORT": ONLY_PUBLIC,
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

Deno.test("set and unset reject invalid names, and write nothing", async () => {
  const { run, values } = setUp();
  for (const [key, reason] of Object.entries(INVALID_NAMES)) {
    const quoted = JSON.stringify(key);
    const name = quoted.length > 60 ? `${quoted.slice(0, 60)}…` : quoted;
    const rejected = failed(`Cannot use the name ${name}: ${reason}`);
    const words = ["GOOD=1", `${key}=value`, "--force"];
    assertEquals(await run("set", ...words), rejected);
    assertEquals(await run("unset", "GOOD", key), rejected);
  }
  assertEquals(await values(), {});
});

const TOKEN = `ghp_${"a1B2".repeat(9)}`;

Deno.test("set rejects a value that looks like a secret without printing it, and warns with --force", async () => {
  const { run, values } = setUp();
  const reason = "the value looks like a GitHub token";
  assertEquals(
    await run("set", `A=${TOKEN}`, "B=harmless"),
    failed(
      `Cannot set REP_PUBLIC_A: ${reason}; anyone could read it; use force to set it anyway`,
    ),
  );
  assertEquals(await values(), {});
  const { code, err } = await run("set", `A=${TOKEN}`, "--force");
  const warning = `Set despite the warning: REP_PUBLIC_A: ${reason}`;
  assertEquals([code, err], [0, [NO_GATEWAY, warning]]);
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
  assertEquals(
    await run("set", "A=1", "B=2", "C=3", "--force"),
    failed(
      "Cannot use REP_PUBLIC_A and REP_SENSITIVE_A: expected a name in one tier only\n" +
        "Cannot use REP_PUBLIC_B and REP_SERVER_B: expected a name in one tier only",
    ),
  );
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
  await using directory = await TempDirectory.make({ "rep.yaml": MANIFEST });
  const path = directory.at("rep.yaml");
  const { run, values } = setUp();
  const fits = { COUNT: "1", LEVEL: "low", MAIL: "a@b", OLD: "x", OTHER: "y" };
  const words = Object.entries(fits).map(([name, value]) => `${name}=${value}`);
  const { code, err } = await run("set", ...words, "--manifest", path);
  assertEquals([code, err], [0, [
    NO_GATEWAY,
    "Deprecated: OLD: use NEW",
    "REP_PUBLIC_OTHER: the manifest does not declare it",
  ]]);
  assertEquals(await values(), fits);
});

Deno.test("set --manifest reports all invalid values at once, also with --force", async () => {
  await using directory = await TempDirectory.make({ "rep.yaml": MANIFEST });
  const path = directory.at("rep.yaml");
  const environment = { REP_GATEWAY_MANIFEST: path };
  const { run, values } = setUp({ environment });
  const invalid = "KEY=1 DATABASE=2 URL=three COUNT=four MAIL=five LEVEL=six";
  const words = [...invalid.split(" "), "UNDECLARED=seven"];
  assertEquals(await run("set", ...words, "--force"), {
    code: 1,
    out: [],
    err: [[
      "Cannot use REP_PUBLIC_URL: expected a URI with a scheme and a host (RFC 3986), such as https://example.com/a, " +
      'got "three"',
      'Cannot use REP_PUBLIC_COUNT: expected a number, got "four"',
      'Cannot use REP_PUBLIC_MAIL: expected a value that matches ^[^@]+@[^@]+$, got "five"',
      'Cannot use REP_PUBLIC_LEVEL: expected one of low, high, got "six"',
      `Cannot use REP_PUBLIC_KEY: the manifest "${path}:9" declares it as REP_SENSITIVE_KEY`,
      `Cannot use REP_PUBLIC_DATABASE: the manifest "${path}:10" declares it as REP_SERVER_DATABASE`,
    ].join("\n")],
  });
  assertEquals(await values(), {});
});

Deno.test("set and undo read .rep.yaml in their directory before they write, except for a site", async () => {
  await using project = await TempDirectory.make({});
  const { run, values } = setUp({ directory: `${project.path}/` });
  await run("set", "LEVEL=six");
  await run("set", "LEVEL=low");
  await project.write(".rep.yaml", MANIFEST);
  const rejection =
    'Cannot use REP_PUBLIC_LEVEL: expected one of low, high, got "six"';
  assertEquals(await run("set", "LEVEL=six"), failed(rejection));
  const forced = await run("set", "LEVEL=six", "--force");
  assertEquals(forced, failed(rejection));
  assertEquals(await run("undo"), failed(rejection));
  assertEquals(await values(), { LEVEL: "low" });
  assertEquals((await run("set", "LEVEL=high")).code, 0);
  const site = ["--site", "a.example", "--new-app"];
  assertEquals((await run("set", "LEVEL=six", ...site)).code, 0);
  await project.write(".rep.yaml", "version: 1");
  assertEquals((await run("set", "LEVEL=low")).code, 1);
});

Deno.test("set follows accept_public and strict_guardrails of the manifest, as validate does", async () => {
  await using project = await TempDirectory.make({});
  const { run, values } = setUp({ directory: `${project.path}/` });
  const manifest = (settings: string) =>
    project.write(".rep.yaml", `${MANIFEST}\nsettings: { ${settings} }`);
  await manifest("accept_public: [MAIL]");
  const mail = [`MAIL=a@${TOKEN}`, `NOTE=${TOKEN}`];
  assertEquals((await run("set", ...mail)).code, 1);
  assertEquals((await run("set", mail[0] ?? "")).err, [NO_GATEWAY]);
  assertEquals((await run("set", "MAILL=x")).err, [
    NO_GATEWAY,
    "REP_PUBLIC_MAILL: the manifest does not declare it; did you mean MAIL?",
  ]);
  await manifest("strict_guardrails: true");
  assertEquals((await run("set", "--force", ...mail)).code, 1);
  assertEquals(await values(), { MAILL: "x", MAIL: `a@${TOKEN}` });
});

Deno.test("set rejects a manifest that is invalid", async () => {
  await using directory = await TempDirectory.make({
    "rep.yaml": "version: 1",
  });
  const { run, values } = setUp();
  const manifest = ["--manifest", directory.at("rep.yaml")];
  assertEquals((await run("set", "A=1", ...manifest)).code, 1);
  assertEquals(await values(), {});
});

Deno.test("--kv selects the store; REP_GATEWAY_KV does if the flag is not set, unless it is empty", async () => {
  const opened: (string | undefined)[] = [];
  const openStore = (path: string | undefined) => {
    opened.push(path);
    return Promise.resolve(memoryStore());
  };
  const inEnvironment = (kv: string) =>
    setUp({ openStore, environment: { REP_GATEWAY_KV: kv } });
  await setUp({ openStore }).run("list", "--kv=a.db");
  await inEnvironment("b.db").run("list", "--kv=a.db");
  await inEnvironment("b.db").run("set", "A=1");
  await inEnvironment("").run("history");
  await setUp({ openStore }).run("unset", "A");
  assertEquals(opened, ["a.db", "a.db", "b.db", undefined, undefined]);
});

Deno.test("every command rejects :memory:, which no gateway could read", async () => {
  const { run } = setUp({ openStore: openPersistentStore });
  const rejected = failed(
    "Cannot keep variables in memory, where no gateway would see them: " +
      "it is deleted when this command ends; expected --kv with a file or a URL",
  );
  for (const line of ["set A=1", "unset A", "list", "history"]) {
    const words = line.split(" ");
    assertEquals(await run(...words, "--kv=:memory:"), rejected);
  }
});

Deno.test("every command exits with 1 if the store is unavailable, and closes it", async () => {
  let closed = 0;
  const error = new TypeError("it is on fire");
  const failing = fallibleStore(memoryStore(), () => true, { error });
  const store = { ...failing, close: () => void closed++ };
  const { run } = setUp({}, store);
  const reason = "Cannot use the store: it is on fire";
  const notWritten =
    `${reason}; some of it may have been written: repeat it once the store is available`;
  assertEquals(await run("set", "A=1"), failed(notWritten));
  assertEquals(await run("unset", "A"), failed(notWritten));
  assertEquals(await run("list"), failed(reason));
  assertEquals(await run("history"), failed(reason));
  assertEquals(closed, 4);
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
    "Cannot use the store: no answer within 5000 ms; some of it may have been written: repeat it once the store is available";
  assertEquals(await running, failed(uncertain));
});

Deno.test("a command exits with 0 if its output is closed", async () => {
  function print() {
    throw new Deno.errors.BrokenPipe("Broken pipe");
  }
  assertEquals((await setUp({ print }).run("list", "--json")).code, 0);
});

Deno.test("the commands say which flag Deno KV needs", async () => {
  const run = ["run", "-A", "--no-config"]; // deno.json enables KV
  const imports = "--import-map=tools/std_without_jsr.json";
  const { code, stdout, stderr } = await runDeno([
    ...run,
    imports,
    "main.ts",
    "list",
  ]);
  assertEquals([code, stdout], [1, ""]);
  assertStringIncludes(
    stderr,
    "Cannot keep variables in memory, where no gateway would see them: Deno KV is not available; enable it with --unstable-kv.",
  );
});

Deno.test("the commands find the variables of an app, and without --kv those of a port", async () => {
  const { run } = setUp();
  const places = [
    [],
    ["--port=3000"],
    ["--port=0"],
    ["--app=shop"],
    ["--kv=kv.sqlite3"],
    ["--kv=kv.sqlite3", "--app=blog"],
    ["--app=blog"],
  ];
  for (const [index, place] of places.entries()) {
    await run("set", `A=${index}`, ...place, "--new-app");
  }
  const found = [];
  for (const place of places) {
    const { out } = await run("list", "--json", ...place);
    found.push(JSON.parse(out.join("\n"))[0].value);
  }
  // Here, every path names the same database: the default one has the variables of port 0 where another has its own.
  assertEquals(found, ["0", "1", "4", "3", "4", "6", "6"]);
});

Deno.test("set rejects an app that the store does not know, if it knows others, unless it is new", async () => {
  const { run, store } = setUp();
  assertEquals((await run("set", "A=1", "--app=shop")).code, 0);
  const rejected = {
    code: 2,
    out: [],
    err: [
      "Cannot set variables of the app shpo, of which the store has nothing: expected one of shop, or --new-app for a new one",
    ],
  };
  assertEquals(await run("set", "A=1", "--app=shpo"), rejected);
  assertEquals(await run("set", "A=1", "--site=shpo"), rejected);
  assertEquals(await store.list(["shpo/variable"]), []);
  assertEquals((await run("set", "A=1", "--kv=other.sqlite3")).code, 0);
  assertEquals((await run("set", "A=1", "--app=blog", "--new-app")).code, 0);
  assertEquals((await run("set", "A=2", "--app=blog")).code, 0);
});

Deno.test("set accepts an app that versions without an index have used", async () => {
  const { run, store, clock } = setUp();
  await run("set", "A=1", "--app=shop");
  const options = { clock, random: () => 0, ifId: undefined };
  const written = storeOfApp(store, "written");
  await writeVariables(written, new Map([["A", "1"]]), options);
  const key = ["running/member", "id"];
  const member = { heartbeatAt: START, hasLeft: true };
  await store.commit([], [{ key, value: member }]);
  for (const app of ["written", "running"]) {
    assertEquals((await run("set", "A=2", `--app=${app}`)).code, 0);
  }
});

Deno.test("apps prints the apps of the store, when each was last seen, and how many variables it has", async () => {
  const { run, store, clock } = setUp();
  assertEquals(await run("apps"), done(["NAME  LAST SEEN  VARIABLES"]));
  await run("set", "A=1", "B=1", "--app=shop");
  await run("set", "A=1", "--app=blog", "--new-app");
  await clock.tick(60_000);
  await run("unset", "A", "--app=blog");
  await run("set", "A=1", "--app=blog");
  await run("unset", "A", "--app=blog");
  const value = { heartbeatAt: START + 1_000 };
  await store.commit([], [{ key: ["shop/member", "id"], value }]);
  const rows = [
    "NAME  LAST SEEN                 VARIABLES",
    "blog  2023-11-14T22:14:20.000Z  0",
    "shop  2023-11-14T22:13:21.000Z  2",
  ];
  assertEquals(await run("apps"), done(rows));
  const { out } = await run("apps", "--json");
  assertEquals(JSON.parse(out.join(""))[1], {
    name: "shop",
    last_seen: "2023-11-14T22:13:21.000Z",
    variables: 2,
  });
});

Deno.test("forget deletes what the store has of an app or a site, and says so if there is nothing", async () => {
  const { run, store } = setUp();
  await run("set", "A=1", "--site=shop.example.com");
  await run("set", "A=2", "--app=blog", "--new-app");
  const forgotten = done([], ["Forgotten: shop.example.com"]);
  assertEquals(await run("forget", "shop.example.com"), forgotten);
  const rows = ["NAME  LAST SEEN  VARIABLES", `blog  ${AT}  1`];
  const { out } = await run("apps");
  assertEquals(out.map((row) => row.replaceAll(/ {2,}/g, "  ")), rows);
  assertEquals((await run("history", "--app=shop.example.com")).out.length, 1);
  assertEquals(await store.list(["shop.example.com/variable"]), []);
  const nothing = done([], ["The store has nothing of shop.example.com"]);
  assertEquals(await run("forget", "shop.example.com"), nothing);
});

Deno.test("forget does nothing while a gateway of the app is running, which would write its variables back", async () => {
  const { run, store, clock } = setUp();
  await run("set", "A=1", "--app=shop");
  async function beat(hasLeft = false): Promise<void> {
    const value = {
      heartbeatAt: clock.now(),
      instanceId: "host:8080",
      hasLeft,
    };
    await store.commit([], [{ key: ["shop/member", "id"], value }]);
  }
  await beat();
  const forgetting = run("forget", "shop");
  await clock.tick(1_000);
  await beat();
  assertEquals(
    await clock.tickUntil(forgetting, 250),
    failed(
      "Cannot forget shop: expected no gateway of it, but one runs at host:8080; stop it, or remove the directory of " +
        "the site, and try again",
    ),
  );
  assertEquals((await store.list(["shop/variable"])).length, 1);
  const killed = await clock.tickUntil(run("forget", "shop"), 250); // its entry stays as it is
  assertEquals(killed, done([], ["Forgotten: shop"]));
  await run("set", "A=1", "--app=shop");
  await beat(true);
  assertEquals((await run("forget", "shop")).code, 0);
});

Deno.test("forget takes the name of one app, and only from its arguments", async () => {
  const { run } = setUp({ environment: { REP_GATEWAY_APP: "shop" } });
  await run("set", "A=1");
  for (const args of [[], ["a", "b"], ["a/b"], [""], ["--app=shop"]]) {
    assertEquals((await run("forget", ...args)).code, 2);
  }
  assertEquals((await run("list")).out.length, 2);
});

Deno.test("list without an app names those that have variables", async () => {
  const { run } = setUp();
  await run("set", "A=1", "B=1", "--app=shop");
  await run("set", "A=1", "--app=blog", "--new-app");
  await run("unset", "A", "--app=blog");
  const { out, err } = await run("list");
  assertEquals(out, ["NAME  ID  WRITTEN  VALUE"]);
  assertEquals(err, ["Variables of apps, see --app: shop (2)"]);
  assertEquals((await run("list", "--app=shop")).err, []);
});

Deno.test("the variables of a site are those of the app with the name of its host", async () => {
  const { run } = setUp();
  await run("set", "A=1", "--site=shop.example.com");
  const { out } = await run("list", "--json", "--app=shop.example.com");
  assertEquals(JSON.parse(out.join("\n"))[0].value, "1");
  const both = await run("list", "--site=a.example", "--app=a.example");
  assertEquals([both.code, both.err], [
    2,
    ["Cannot use --site and --app: expected one of them"],
  ]);
  const { code } = await run("list", "--site=A.example");
  assertEquals(code, 2);
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
  assertEquals((await run("history", "--limit=1000")).out.length, 1 + 25);
});
