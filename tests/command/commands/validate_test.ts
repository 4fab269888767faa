import { DatabaseSync } from "node:sqlite";
import { assertEquals, assertMatch } from "@std/assert";
import { openPersistentStore } from "../../../src/command/commands/deno_io.ts";
import { writeVariables } from "../../../src/stored/write_variables.ts";
import { storeOfApp } from "../../../src/core/store/app_store.ts";
import { memoryStore } from "../../../src/engines/memory.ts";
import { storeExists } from "../../../src/engines/open_named.ts";
import type { Store } from "../../../src/core/store/store.ts";
import { systemClock } from "../../../src/core/values/clock.ts";
import type { Environment } from "../../../src/core/config/variables/tiers.ts";
import { delegate } from "../../_store.ts";
import { TempDirectory } from "../../_temp.ts";
import { done, run, runWith } from "./_run.ts";

const MANIFEST = `version: "0.1.0"
variables:
  API_URL: { tier: public, type: url, required: true }
  LEVEL: { tier: public, type: enum, values: [1, 2], default: 1 }
  OLD: { tier: public, deprecated: true, deprecated_message: Use NEW }
  KEY: { tier: sensitive, pattern: "^UA-.*$" }
  RETRIES: { tier: server, default: 10 }
  UNSET: { tier: public }
`;

/** What `validate` finds in files: `rep.yaml` is the manifest, others are env files. */
async function validate(
  files: Record<string, string>,
  environment: Environment = {},
  ...flags: string[]
) {
  await using project = await TempDirectory.make(files);
  const args = ["validate", ...flags];
  for (const name of Object.keys(files)) {
    const flag = name === "rep.yaml" ? "--manifest" : "--env-file";
    args.push(flag, project.at(name));
  }
  const { code, out, err } = await run(args, environment);
  const relative = (line: string) => line.replaceAll(`${project.path}/`, "");
  return { code, out: out.map(relative), err: err.map(relative) };
}

const ENV_FILES = {
  "one.env":
    "REP_PUBLIC_API_URL=https://one.example\nREP_PUBLIC_OLD=x\nREP_SENSITIVE_KEY=UA-s3cret\n",
  "two.env": "REP_PUBLIC_API_URL=https://two.example\n",
};

Deno.test("validate prints the effective values with their sources, and hides those of other tiers", async () => {
  const files = { "rep.yaml": MANIFEST, ...ENV_FILES };
  const environment = { REP_PUBLIC_LEVEL: "2" };
  const { code, out, err } = await validate(files, environment, "--json");
  assertEquals([code, err], [0, []]);
  const { variables, ...rest } = JSON.parse(out.join("\n"));
  assertEquals(rest, {
    valid: true,
    issues: [],
    warnings: ["REP_PUBLIC_OLD is deprecated: Use NEW"],
  });
  const hidden = { value: null, hidden: "sensitive" };
  assertEquals(variables, [
    {
      name: "API_URL",
      tier: "public",
      source: "two.env",
      value: "https://two.example",
    },
    { name: "KEY", tier: "sensitive", source: "one.env", ...hidden },
    { name: "LEVEL", tier: "public", source: "environment", value: "2" },
    { name: "OLD", tier: "public", source: "one.env", value: "x" },
    {
      name: "RETRIES",
      tier: "server",
      source: "default",
      value: null,
      hidden: "server",
    },
    { name: "UNSET", tier: "public", source: null, value: null },
  ]);
});

Deno.test("validate hides a value that was set with the wrong prefix, or with two", async () => {
  const files = {
    "rep.yaml": MANIFEST,
    "app.env":
      "REP_PUBLIC_RETRIES=s3cret\nREP_PUBLIC_TOKEN=s3cret\nREP_SERVER_TOKEN=s3cret\n",
  };
  const { code, out, err } = await validate(files);
  assertEquals(code, 1);
  const rows = out.filter((line) => line.includes("public"))
    .filter((line) => /RETRIES|TOKEN/.test(line));
  assertEquals(rows, [
    "RETRIES  public     app.env  (hidden: server)",
    "TOKEN    public     app.env  (hidden: server)",
  ]);
  assertEquals([...out, ...err].join("\n").includes("s3cret"), false);
});

Deno.test("validate reads the list of REP_GATEWAY_ENV_FILE, as the gateway does", async () => {
  await using project = await TempDirectory.make(ENV_FILES);
  const [one, two] = [project.at("one.env"), project.at("two.env")];
  const { out } = await run(["validate", "--json"], {
    REP_GATEWAY_ENV_FILE: `${one},${two}`,
  });
  const { variables } = JSON.parse(out.join("\n"));
  const sources = variables.map(({ source }: { source: string }) => source);
  assertEquals(sources, [two, one, one]); // of API_URL, KEY and OLD
});

Deno.test("validate prints a table, and the result to standard error", async () => {
  const environment = {
    REP_PUBLIC_API_URL: "https://a.example",
    REP_SENSITIVE_KEY: "UA-s3cret",
  };
  assertEquals(
    await validate({ "rep.yaml": MANIFEST }, environment),
    done([
      "NAME     TIER       SOURCE       VALUE",
      "API_URL  public     environment  https://a.example",
      "KEY      sensitive  environment  (hidden)",
      "LEVEL    public     default      1",
      "OLD      public     (not set)",
      "RETRIES  server     default      (hidden)",
      "UNSET    public     (not set)",
    ], ["Valid: 6 variables"]),
  );
});

Deno.test("validate checks the manifest alone if no variable is set, and says so", async () => {
  const alone = "no variable is set: missing variables are not reported";
  const invalid =
    `${MANIFEST}  COUNT: { tier: sensitive, type: number, default: ten }\n`;
  const good = await validate({ "rep.yaml": MANIFEST });
  assertEquals(good.err, [`Warning: ${alone}`, "Valid: 6 variables"]);
  const bad = await validate({ "rep.yaml": invalid });
  assertEquals([bad.code, bad.err], [1, [
    'Cannot use the default of REP_SENSITIVE_COUNT in the manifest "rep.yaml:9": expected a number, got a value that is not shown',
    `Warning: ${alone}`,
    "Invalid: 1 issues",
  ]]);
  const { out } = await validate({ "rep.yaml": MANIFEST }, {}, "--json");
  const { valid, issues, warnings } = JSON.parse(out.join("\n"));
  assertEquals([valid, issues, warnings], [true, [], [alone]]);
});

Deno.test("validate rejects a default that is invalid while the environment overrides it", async () => {
  const manifest =
    `${MANIFEST}  COUNT: { tier: public, type: number, default: ten }\n`;
  const environment = {
    REP_PUBLIC_API_URL: "https://a.example",
    REP_PUBLIC_COUNT: "10",
  };
  const { code, err } = await validate({ "rep.yaml": manifest }, environment);
  assertEquals([code, err], [1, [
    'Cannot use the default of REP_PUBLIC_COUNT in the manifest "rep.yaml:9": expected a number, got "ten"',
    "Invalid: 1 issues",
  ]]);
});

Deno.test("validate reports all issues of the manifest, the env files, the options and the variables", async () => {
  await using project = await TempDirectory.make();
  const missing = project.at("missing.env");
  const text =
    `${MANIFEST}  BAD: { tier: public, requird: true }\nsettings: { session_key_ttl: 1m }\n`;
  const environment = {
    REP_PUBLIC_KEY: "x",
    REP_GATEWAY_PORT: "x",
    REP_GATEWAY_SESSION_KEY_TTL: "x",
    REP_GATEWAY_PROT: "1",
  };
  const flags = ["--env-file", missing];
  const { code, err } = await validate(
    { "rep.yaml": text },
    environment,
    ...flags,
  );
  assertEquals(code, 1);
  const shortened = err.map((line) =>
    line.replace(/: (No such file|expected one of|The system).*/, ": …")
  );
  assertEquals(shortened, [
    `Cannot read --env-file "${missing}": …`,
    'Cannot read REP_GATEWAY_PORT: expected an integer from 0 to 65535, got "x"',
    'Cannot read REP_GATEWAY_SESSION_KEY_TTL: expected a duration from 1s to 30s, such as 30s, got "x"',
    `Cannot use the manifest "rep.yaml:9": variables.BAD.requird: …`,
    `Cannot use the manifest "rep.yaml:10": settings.session_key_ttl: expected a duration from 1s to 30s, such as 30s, got "1m"`,
    `Cannot find REP_PUBLIC_API_URL: the manifest "rep.yaml:3" requires it, but it is not set`,
    `Cannot use REP_PUBLIC_KEY: the manifest "rep.yaml:6" declares it as REP_SENSITIVE_KEY`,
    "Warning: REP_GATEWAY_PROT is not an option and is ignored",
    "Invalid: 7 issues",
  ]);
});

Deno.test("validate warns of a required variable that is set to nothing", async () => {
  const manifest =
    'version: "0.1.0"\nvariables: { A: { tier: public, required: true } }\n';
  const { code, err } = await validate({ "rep.yaml": manifest }, {
    REP_PUBLIC_A: "",
  });
  assertEquals([code, err], [0, [
    "Warning: REP_PUBLIC_A: it is required, but set to nothing",
    "Valid: 1 variables",
  ]]);
});

Deno.test("validate warns of values that look like secrets without printing them, and fails with --strict", async () => {
  const environment = { REP_PUBLIC_TOKEN: "AKIAIOSFODNN7EXAMPLE" };
  const row = "TOKEN  public  environment  (hidden: looks like a secret)";
  const reason =
    "the value looks like an AWS access key; if it is meant to be public, add TOKEN to --accept-public (in code: acceptPublic)";
  assertEquals(
    await run(["validate"], environment),
    done(["NAME   TIER    SOURCE       VALUE", row], [
      `Warning: REP_PUBLIC_TOKEN: ${reason}`,
      "Valid: 1 variables",
    ]),
  );
  const issue = `Cannot publish REP_PUBLIC_TOKEN in strict mode: ${reason}`;
  const rejections = [
    await run(["validate", "--strict"], environment),
    await run(["validate"], { ...environment, REP_GATEWAY_STRICT: "1" }),
  ];
  for (const { code, err } of rejections) {
    assertEquals([code, err], [1, [issue, "Invalid: 1 issues"]]);
  }
});

Deno.test("validate accepts values that are meant to be public, also with --strict, and says which names accept nothing", async () => {
  const values = { TOKEN: "AKIAIOSFODNN7EXAMPLE", TITLE: "Shop" };
  const environment = {
    REP_PUBLIC_TOKEN: values.TOKEN,
    REP_PUBLIC_TITLE: values.TITLE,
  };
  const table = [
    "NAME   TIER    SOURCE       VALUE",
    `TITLE  public  environment  ${values.TITLE}`,
    `TOKEN  public  environment  ${values.TOKEN}`,
  ];
  const accepted = done(table, ["Valid: 2 variables"]);
  const flags = ["validate", "--strict", "--accept-public"];
  assertEquals(await run([...flags, "TOKEN"], environment), accepted);
  assertEquals(
    await run(["validate", "--strict"], {
      ...environment,
      REP_GATEWAY_ACCEPT_PUBLIC: "REP_PUBLIC_TOKEN",
    }),
    accepted,
  );
});

Deno.test("validate warns of names that a gateway ignores", async () => {
  const { code, err } = await run(["validate"], { REP_PUBLC_TITLE: "Shop" });
  assertEquals([code, err], [0, [
    "Warning: REP_PUBLC_TITLE: it is ignored: expected the prefix REP_PUBLIC_, REP_SENSITIVE_ or REP_SERVER_",
    "Valid: 0 variables",
  ]]);
});

Deno.test("validate warns of a name that the manifest does not declare, and names the likely one", async () => {
  const files = {
    "rep.yaml": 'version: "0.1.0"\nvariables: { TITLE: { tier: public } }\n',
    "app.env": "REP_PUBLIC_TITEL=Shop\n",
  };
  const warning =
    "REP_PUBLIC_TITEL: the manifest does not declare it; did you mean TITLE?";
  const { code, err } = await validate(files);
  assertEquals([code, err], [0, [
    `Warning: ${warning}`,
    "Valid: 2 variables",
  ]]);
  const { out } = await validate(files, {}, "--json");
  assertEquals(JSON.parse(out.join("\n")).warnings, [warning]);
});

Deno.test("validate warns of names of Vite in an env file", async () => {
  const { code, err } = await validate({
    "app.env": "VITE_TITLE=Shop\nHOME=1\nVITE_PLAN=free\n",
    "other.env": "HOME=1\n",
  });
  assertEquals([code, err], [0, [
    "Warning: VITE_TITLE, VITE_PLAN: ignored in env files: expected the prefix REP_PUBLIC_ instead of VITE_",
    "Valid: 0 variables",
  ]]);
});

Deno.test("validate warns of what it may not read", {
  permissions: { env: false, read: false },
}, async () => {
  assertEquals(await run(["validate"]), {
    code: 0,
    out: [],
    err: [
      "Warning: without --allow-env, environment variables are not read: neither REP_* variables nor options",
      "Warning: without --allow-read, .rep.yaml is not read",
      "Valid: 0 variables",
    ],
  });
});

/** Sets variables in a store. */
async function setStored(store: Store, values: Record<string, string>) {
  await writeVariables(store, new Map(Object.entries(values)), {
    clock: systemClock,
    random: Math.random,
    ifId: undefined,
  });
}

/** Validates the manifest of this file with an environment and a store that is named. */
async function validateWithStore(store: Store, ...flags: string[]) {
  await using project = await TempDirectory.make({ "rep.yaml": MANIFEST });
  const manifest = project.at("rep.yaml");
  const args = ["validate", "--manifest", manifest, "--kv", "x", ...flags];
  const environment = { REP_PUBLIC_API_URL: "https://a.example" };
  const openStore = () => Promise.resolve(store);
  return await runWith(args, { environment, openStore });
}

Deno.test("validate takes variables from the store that is named before those of the files", async () => {
  const store = memoryStore();
  await setStored(store, { API_URL: "https://stored.example" });
  await setStored(storeOfApp(store, "shop"), { LEVEL: "2" });
  const { code, out, err } = await validateWithStore(store);
  assertEquals([code, err, out[1]], [
    0,
    ["Valid: 6 variables"],
    "API_URL  public     store      https://stored.example",
  ]);
  const shop = await validateWithStore(store, "--app", "shop");
  assertEquals(shop.out.slice(1, 4), [
    "API_URL  public     environment  https://a.example",
    "KEY      sensitive  (not set)",
    "LEVEL    public     store        2",
  ]);
});

Deno.test("validate reports what is wrong with a variable in the store", async () => {
  const store = memoryStore();
  await setStored(store, { LEVEL: "3", RETRIES: "1" });
  const { code, err } = await validateWithStore(store);
  const shortened = err.map((line) => line.replace(/".*"/, "…"));
  assertEquals([code, shortened], [1, [
    "Cannot use REP_PUBLIC_LEVEL: expected one of 1, 2, got …; REP_PUBLIC_LEVEL is in the store: set or unset it",
    "Cannot use REP_PUBLIC_RETRIES: the manifest … declares it as REP_SERVER_RETRIES; REP_PUBLIC_RETRIES is in the store: set or unset it",
    "Invalid: 2 issues",
  ]]);
});

Deno.test("validate reports why a store cannot be read, without its password", async () => {
  const failing = {
    ...delegate(memoryStore()),
    get: () => Promise.reject(new Error("broken")),
  };
  const broken = await validateWithStore(failing);
  assertEquals([broken.code, broken.err], [1, [
    "Cannot use the store: broken",
    "Invalid: 1 issues",
  ]]);
  const io = { openStore: openPersistentStore, storeExists };
  const kv = "postgres://gateway:s3cret@127.0.0.1:1/app";
  const { code, err } = await runWith(["validate", "--kv", kv], io);
  assertEquals(code, 1);
  assertMatch(
    err.join("\n"),
    /^Cannot open the store "postgres:\/\/…@127.0.0.1:1\/app": Cannot connect to 127.0.0.1:1: .*refused.*\nInvalid: 1 issues$/i,
  );
});

Deno.test("validate neither creates a store nor writes to one", async () => {
  await using directory = await TempDirectory.make();
  const path = directory.at("kv.sqlite3");
  const io = { openStore: openPersistentStore, storeExists };
  const before = await runWith(["validate", "--kv", path], io);
  assertEquals(before, {
    code: 0,
    out: [],
    err: [
      "Warning: the store does not exist yet: a gateway creates it",
      "Valid: 0 variables",
    ],
  });
  assertEquals(await Array.fromAsync(Deno.readDir(directory.path)), []);

  const store = await openPersistentStore(path);
  await setStored(store, { A: "1" });
  store.close();
  const content = rowsOf(path);
  const { code, out } = await runWith(["validate", "--kv", path], io);
  assertEquals([code, out.length], [0, 2]);
  assertEquals(rowsOf(path), content);
});

function rowsOf(path: string): unknown[] {
  using database = new DatabaseSync(path);
  return database.prepare("SELECT * FROM kv").all();
}
