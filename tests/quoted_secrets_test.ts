/**
 * What looks like a secret is never quoted: each kind of secret, in each way in which a message could quote a value. The
 * secrets are in two parts, so that secret scanners do not report this file.
 */
import {
  assertEquals,
  assertMatch,
  assertRejects,
  assertStringIncludes,
} from "@std/assert";
import {
  buildSnapshot,
  type ConfigurationError,
} from "../src/core/config/variables/snapshot.ts";
import { setStoredVariables } from "../src/stored/set_stored_variables.ts";
import { messageOf } from "../src/core/observe/log.ts";
import { memoryStore } from "../src/engines/memory.ts";
import { openStore } from "../src/engines/open.ts";
import { formatStorePath } from "../src/engines/open_named.ts";
import { makeProject } from "./vite/_project.ts";
import { run, runWith } from "./command/commands/_run.ts";
import { formatOptions } from "../src/command/options/help.ts";
import { readStart } from "../src/command/options/read_start.ts";
import { stdFlags } from "../tools/std.ts";
import { runCommand, runDeno } from "./_command.ts";
import { captureLog, setUp, type TestGateway } from "./_gateway.ts";
import { snapshotInput } from "./_snapshot.ts";
import { askStatus, readStatus } from "./_status.ts";
import { TempDirectory } from "./_temp.ts";

const RANDOM = "aB3dE6gH9jK2mN5pQ8sT";
const PEM_BODY = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcw";

/** A secret, and the part of it that no message may contain. */
interface Secret {
  text: string;
  core: string;
  /** Whether no guardrail recognizes it, so that pages get it, and `validate` lists it. */
  isUnrecognized?: boolean;
}

const SECRETS: Readonly<Record<string, Secret>> = {
  "a GitHub token": { text: `ghp_${RANDOM}`, core: RANDOM },
  "an AWS access key": {
    text: "AKIA" + "IOSFODNN7EXAMPLE",
    core: "IOSFODNN7EXAMPLE",
  },
  "an AWS secret key": {
    text: "wJalrXUtnFEMI/K7MDENG" + "/bPxRfiCYEXAMPLEKEY",
    core: "wJalrXUtnFEMI",
  },
  "a PEM key": {
    text:
      `-----BEGIN PRIVATE ${"KEY"}-----\n${PEM_BODY}\n-----END PRIVATE KEY-----`,
    core: PEM_BODY,
  },
  "a JSON Web Token": {
    text: "eyJhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
    core: "eyJzdWIiOiIxIn0",
  },
  "encoded data": { text: "0123456789abcdef".repeat(5), core: "9abcdef0" },
  "a URL with a password": {
    text: "postgres://app:" + "hunter2pw@db.example.com/app",
    core: "hunter2pw",
  },
  "a URL with a malformed password": {
    text: "https://app:" + "pw/hunter2?#@ pw@db.example.com/app",
    core: "hunter2",
    isUnrecognized: true,
  },
  "a URL with a token": {
    text: "https://" + "hunter2token@db.example.com/a b",
    core: "hunter2token",
    isUnrecognized: true,
  },
};

/** The secrets that are recognized in code, such as a pattern. */
const IN_CODE = ["a GitHub token", "an AWS access key", "a PEM key"];

function manifestOf(declaration: Record<string, unknown>) {
  const variables = { A: { tier: "public", ...declaration } };
  return JSON.stringify({ version: "0.1.0", variables }); // JSON is YAML
}

/** Returns the message for a variable with a value, and a manifest. */
async function rejectionOf(
  manifest: string,
  value?: string,
  strict = false,
) {
  const environment = value === undefined ? {} : { REP_PUBLIC_A: value };
  const input = snapshotInput({ environment, manifest, strict });
  return await buildSnapshot(input).then(() => "", messageOf);
}

async function outputOf(
  args: readonly string[],
  environment: Record<string, string> = {},
) {
  const { out, err } = await run(args, environment);
  return [...out, ...err].join("\n");
}

/** Returns what a command says that uses a store. */
async function storeOutputOf(
  args: readonly string[],
  stored: string,
) {
  const store = memoryStore();
  await setStoredVariables(store, { A: stored }, { force: true });
  const { out, err } = await runWith(args, {
    openStore: () => Promise.resolve(store),
  });
  return [...out, ...err].join("\n");
}

/** Returns what the command `validate` says of an env file and a manifest. */
async function validationOf(
  envFile: string,
  manifest: string,
  ...flags: string[]
) {
  const files = { "app.env": envFile, "rep.yaml": manifest };
  await using directory = await TempDirectory.make(files);
  return await outputOf([
    "validate",
    "--env-file",
    directory.at("app.env"),
    "--manifest",
    directory.at("rep.yaml"),
    ...flags,
  ]);
}

function quoted(text: string) {
  return `'${text}'`;
}

/** Everything that a gateway says of a reload that it rejects. */
async function reloadOf(value: string) {
  const manifest = manifestOf({ type: "number" });
  const options = { manifest, strict: true };
  await using gate = await setUp({ REP_PUBLIC_A: "1" }, options);
  const error = await gate.gateway.reload().then(
    () => gate.set({ REP_PUBLIC_A: value }),
  ).catch(messageOf);
  return `${error}\n${await shownBy(gate)}`;
}

/** What reload() rejects with and what is shown if a function of the app throws such an error. */
async function failedReadOf(text: string) {
  let isBroken = false;
  function variables() {
    if (isBroken) throw new SyntaxError(`Unexpected token in "${text}"`);
    return {};
  }
  await using gate = await setUp({}, { variables });
  isBroken = true;
  const message = await gate.gateway.reload().catch(messageOf);
  return `${message}\n${await shownBy(gate)}`;
}

/** The status page and the log. */
async function shownBy(gate: TestGateway) {
  const page = await (await askStatus(gate)).text();
  const status = JSON.stringify(await readStatus(gate));
  return [page, status, JSON.stringify(gate.lines)].join("\n");
}

/** Everything that the plugin for Vite prints, and shows in the overlay of a page. */
async function viteOutputOf(value: string) {
  await using project = await makeProject({
    "app.env": `REP_PUBLIC_A=${quoted(value)}\n`,
    "rep.yaml": manifestOf({ type: "number" }),
  });
  const options = { envFile: "app.env", manifest: "rep.yaml" };
  await using _vite = await project.startVite({}, 1, options);
  return JSON.stringify([project.printed, project.sent]);
}

const NUMBER = manifestOf({ type: "number" });
const PATTERN = manifestOf({ pattern: "[a-z]{1,3}" });

/** The ways in which a message could quote a value. */
const WAYS: Readonly<Record<string, (text: string) => Promise<string>>> = {
  "a value of another type": (text) => rejectionOf(NUMBER, text),
  "a value of another type, in strict mode": (text) =>
    rejectionOf(NUMBER, text, true),
  "a value that is not true or false": (text) =>
    rejectionOf(manifestOf({ type: "boolean" }), text),
  "a value that is no JSON": (text) =>
    rejectionOf(manifestOf({ type: "json" }), text),
  "a value that is no URL": (text) =>
    rejectionOf(manifestOf({ type: "url" }), ` ${text}`),
  "a value that is not in the list": (text) =>
    rejectionOf(manifestOf({ type: "enum", values: ["a"] }), text),
  "a value that the pattern does not match": (text) =>
    rejectionOf(PATTERN, text),
  "a default": (text) =>
    rejectionOf(manifestOf({ type: "number", default: text })),
  "a list of values": (text) =>
    rejectionOf(manifestOf({ type: "enum", values: [text, "b"] }), "c"),
  "a secret in the place of a type": (text) =>
    rejectionOf(manifestOf({ type: text })),
  "a secret in the place of a tier": (text) =>
    rejectionOf(manifestOf({ tier: text })),
  "a secret in the place of true": (text) =>
    rejectionOf(manifestOf({ required: text })),
  "a secret in the place of a field": (text) =>
    rejectionOf(manifestOf({ [text]: 1 })),
  "a secret in the place of a list": (text) =>
    rejectionOf(manifestOf({ values: text })),
  "the manifest's version": (text) =>
    rejectionOf(JSON.stringify({ version: text, variables: {} })),
  "the manifest itself": (text) => rejectionOf(JSON.stringify(text)),
  "a broken manifest": (text) => rejectionOf(`variables: [${text}\n  "${text}`),
  "a key of the manifest": (text) =>
    rejectionOf(JSON.stringify({ version: "0.1.0", variables: {}, [text]: 1 })),
  "a line of an env file": (text) => validationOf(`${text}\n`, NUMBER),
  "a value that is not closed": (text) =>
    validationOf(`REP_PUBLIC_A="${text}\n`, NUMBER),
  "a value with something behind it": (text) =>
    validationOf(`REP_PUBLIC_A='1' ${text}\n`, NUMBER),
  "a value that is set twice": (text) =>
    validationOf(
      `REP_PUBLIC_A=1\nREP_PUBLIC_A=${quoted(text)}\n`,
      NUMBER,
    ),
  "validate": (text) => validationOf(`REP_PUBLIC_A=${quoted(text)}\n`, NUMBER),
  "validate --strict --json": (text) =>
    validationOf(
      `REP_PUBLIC_A=${quoted(text)}\n`,
      PATTERN,
      "--strict",
      "--json",
    ),
  "a setting": (text) =>
    validationOf(
      "",
      JSON.stringify({
        version: "0.1.0",
        variables: {},
        settings: { hot_reload_mode: text, strict_guardrails: text, [text]: 1 },
      }),
    ),
  "set of a value": (text) => storeOutputOf(["set", `A=${text}`], "1"),
  "set without a name": (text) => storeOutputOf(["set", text], "1"),
  "set of an invalid name": (text) =>
    storeOutputOf(["set", `${text} x=1`], "1"),
  "unset of an invalid name": (text) =>
    storeOutputOf(["unset", `${text} x`], "1"),
  "a conflict with a stored value": (text) =>
    storeOutputOf(["set", "A=2", "--if-id=1"], text),
  "a command with a word too many": (text) => outputOf(["list", text]),
  "lint": async (text) => {
    await using build = await TempDirectory.make({ "a.js": `"${text}"` });
    return await outputOf(["lint", build.path]);
  },
  "a word on the command line": (text) => usageErrorOf([text]),
  "a flag": (text) => usageErrorOf([`--${text}`]),
  "the value of a flag": (text) => usageErrorOf(["--port", text]),
  "the value of an option in the environment": (text) =>
    usageErrorOf([], { REP_GATEWAY_PORT: text }),
  "log, status page and error of a reload": reloadOf,
  "log, status page and error of a reload whose source throws": failedReadOf,
  "the overlay and the terminal of Vite": viteOutputOf,
};

async function usageErrorOf(
  args: string[],
  environment: Record<string, string> = {},
) {
  return await readStart(args, environment).then(() => "", messageOf);
}

/** Ways that list the values which pages get. */
const LISTINGS = ["validate", "validate --strict --json"];

for (const [way, say] of Object.entries(WAYS)) {
  Deno.test(`what looks like a secret is not quoted: ${way}`, async () => {
    const quotedKinds = [];
    const silent = [];
    for (const [kind, secret] of Object.entries(SECRETS)) {
      const { text, core, isUnrecognized = false } = secret;
      if (isUnrecognized && LISTINGS.includes(way)) continue;
      const said = await say(text);
      if (said.includes(core)) quotedKinds.push(`${kind}: ${said}`);
      if (said === "") silent.push(kind);
    }
    assertEquals({ quotedKinds, silent }, { quotedKinds: [], silent: [] });
  });
}

Deno.test("what looks like a secret is not quoted: patterns", async () => {
  for (const kind of IN_CODE) {
    const { text, core } = SECRETS[kind] ?? { text: "", core: "" };
    const messages = [
      await rejectionOf(manifestOf({ pattern: text }), "x"),
      await rejectionOf(manifestOf({ pattern: `${text}(` }), "x"),
    ];
    assertEquals(messages.filter((it) => it.includes(core)), [], kind);
    assertEquals(messages.includes(""), false, kind);
  }
});

Deno.test("a start that fails quotes no secret, neither in the log nor on standard error", async () => {
  const entries = Object.values(SECRETS).map(({ text }, index) =>
    [`V${index}`, text] as const
  );
  const variables = Object.fromEntries(
    entries.map(([name]) => [name, { tier: "public", type: "number" }]),
  );
  const manifest = JSON.stringify({ version: "0.1.0", variables });
  const lines = entries.map(([name, text]) =>
    `REP_PUBLIC_${name}=${quoted(text)}\n`
  );
  await using directory = await TempDirectory.make({
    "app.env": lines.join(""),
    "rep.yaml": manifest,
  });
  const { code, stdout, stderr } = await runCommand([
    "--strict",
    "--env-file",
    directory.at("app.env"),
    "--manifest",
    directory.at("rep.yaml"),
  ]);
  const quotedCores = Object.values(SECRETS).map(({ core }) => core)
    .filter((core) => (stdout + stderr).includes(core));
  assertEquals({ code, quotedCores }, { code: 1, quotedCores: [] });
});

/** What people write instead of the URL of a store. The password is in two parts, as above. */
const MISTYPED_STORES = [
  "postgres//app:" + "hunter2pw@db",
  "postgres:/app:" + "hunter2pw@db/app",
  "postgress:app:" + "hunter2pw@db/app",
  "Postgres://app:" + "hunter2pw@db/app",
  " postgres://app:" + "hunter2pw@db/app",
  '"postgres://app:' + 'hunter2pw@db/app"',
  "//app:" + "hunter2pw@db/app",
  "app:" + "hunter2pw@db:5432/app",
  "u:" + "hunter2pw@db:5432/app",
  "http:/app:" + "hunter2pw@db",
  "jdbc:postgresql://db/app?user=app&password=" + "hunter2pw",
  "postgres//db/app?user=app&password=" + "hunter2pw",
  "db.example/app?password=" + "hunter2pw",
  "host=db user=app password=" + "hunter2pw",
  "host = db user = app password = '" + "hunter2pw'",
  "Server=db;Password=" + "hunter2pw",
];

for (const kv of MISTYPED_STORES) {
  const shown = kv.replace("hunter2pw", "…");
  Deno.test(`a mistyped --kv is rejected, not taken for a file, and not quoted: ${shown}`, async () => {
    const { log, lines } = captureLog();
    const messages = [
      await openStore(kv, log).then(() => "", messageOf),
      await outputOf(["list", kv]),
      await usageErrorOf([kv]),
      ...Object.values(formatOptions({ kv })),
    ];
    assertEquals(lines, []);
    assertEquals(messages.filter((it) => it.includes("hunter2")), []);
    assertMatch(
      messages[0] ?? "",
      /: expected the path of a file \(\.\/ before/,
    );
    await assertRejects(() => Deno.stat(kv), Deno.errors.NotFound);
  });
}

Deno.test("a start with a mistyped --kv does not quote it", async () => {
  const [kv = ""] = MISTYPED_STORES;
  for (const flags of [["-A"], ["--allow-net", "--allow-env"]]) {
    const { code, stdout, stderr } = await runDeno([
      "run",
      ...await stdFlags(),
      ...flags,
      "main.ts",
      "--port=0",
      "--kv",
      kv,
    ]);
    const message = 'Cannot open the store "…": expected the path of a file';
    assertStringIncludes(stderr, message);
    assertEquals([code, (stdout + stderr).includes("hunter2")], [1, false]);
  }
});

Deno.test("a --kv that names a file is taken for one, and named", () => {
  const paths = [
    "kv.sqlite3",
    "kv@1.sqlite3",
    "data/env=prod/kv.sqlite3",
    "./host=db password=x",
    "../u:1@h.sqlite3",
    "/data/12:30@prod.sqlite3",
    "C:\\users\\me@home\\kv.sqlite3",
  ];
  for (const path of paths) assertEquals(formatStorePath(path), path);
});

Deno.test("a message quotes other PUBLIC values, and says of a secret that it looks like one", async () => {
  const message = async (value: string) => await rejectionOf(NUMBER, value);
  assertEquals(
    [await message("ten"), await message(`ghp_${RANDOM}`)],
    [
      'Cannot use REP_PUBLIC_A: expected a number, got "ten"',
      "Cannot use REP_PUBLIC_A: expected a number, got a value that looks like a secret",
    ],
  );
  const error = await buildSnapshot(snapshotInput({
    environment: { REP_PUBLIC_A: "https://u:p@h.example x" },
    manifest: manifestOf({ type: "url" }),
  })).catch((error) => error);
  assertEquals((error as ConfigurationError).issues, [
    "Cannot use REP_PUBLIC_A: expected a URI with a scheme and a host (RFC 3986), such as https://example.com/a, got a value that looks like a secret",
  ]);
});
