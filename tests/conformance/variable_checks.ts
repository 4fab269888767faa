import {
  type Check,
  ENV_FILE,
  expect,
  expectEqual,
  IGNORED,
  PUBLIC,
  SENSITIVE,
  SERVER,
  STANDARD,
} from "./check.ts";
import type { Launcher, Setup } from "./launcher.ts";
import type { Subject } from "./subject.ts";

/** 20 different characters, with which no real token has a valid checksum. */
const RANDOM = "aB3dE6gH9jK2mN5pQ8sT";

/** Values that §3.3 describes, by name; in two parts, so that secret scanners do not report this file. */
const SECRETS: Readonly<Record<string, string>> = {
  CHECK_AWS: "AKIA" + "IOSFODNN7EXAMPLE",
  CHECK_JWT: "eyJhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
  CHECK_GITHUB: "ghp_" + RANDOM,
  CHECK_OAUTH: "gho_" + RANDOM,
  CHECK_STRIPE: "sk_live_" + RANDOM,
  CHECK_PUBLISHABLE: "pk_live_" + RANDOM,
  CHECK_PEM: "-----BEGIN PRIVATE " + "KEY-----",
  CHECK_ENTROPY: "q7Zp2LxV9bTn4KcR8wYd3MfJ6hGs5QeA1uXi0oP",
  CHECK_LENGTH: "0123456789abcdef".repeat(5),
};

const SUSPICIOUS: Setup = {
  variables: Object.fromEntries(
    Object.entries(SECRETS).map((
      [name, value],
    ) => [`REP_PUBLIC_${name}`, value]),
  ),
  options: { "log-format": "json" },
};

const MANIFEST = `version: "0.1.0"
variables:
`;
/** How many variables each tier of {@linkcode STANDARD} has. */
const COUNTS = [PUBLIC, SENSITIVE, SERVER].map((variables) =>
  Object.keys(variables).length
);

/** What is set, and a declaration that it violates. */
const VIOLATIONS: Readonly<
  Record<string, [value: string | undefined, declaration: string]>
> = {
  "a required variable that is missing": [undefined, "required: true"],
  "a value of another type": ["ten", "type: number"],
  "a value that the pattern does not match": ["abc", 'pattern: "^[0-9]+$"'],
};
const TYPES: Readonly<Record<string, [value: string, declaration: string]>> = {
  "text as url": ["not a url", "type: url"],
  "Infinity as number": ["Infinity", "type: number"],
  "1 as boolean": ["1", "type: boolean"],
  "text as json": ["{", "type: json"],
  "another value of an enum": [
    "purple",
    'type: enum\n    values: ["red", "blue"]',
  ],
};

/** §3, §4.2, §6 and §7: from variables to a start. */
export const VARIABLE_CHECKS: readonly Check[] = [
  { id: "3.1", run: checkTiers },
  { id: "3.2", run: checkNames },
  { id: "4.2.14", run: checkLog },
  {
    id: "4.2.1",
    async run(launcher) {
      const { payload } = await (await launcher.start(STANDARD)).page("/");
      expectEqual(
        "a variable of the env file",
        payload.public.GONE,
        PUBLIC.GONE,
      );
      expectEqual(
        "a variable that is set in both",
        payload.public.API_URL,
        PUBLIC.API_URL,
      );
    },
  },
  { id: "3.2.4", run: checkCollisions },
  { id: "3.3", run: checkWarnings },
  {
    id: "3.3-strict",
    async run(launcher) {
      await launcher.expectNoStart(
        "a secret in strict mode",
        { ...SUSPICIOUS, options: { strict: "true" } },
        "CHECK_AWS",
      );
    },
  },
  { id: "3.3-csv", run: checkLists },
  { id: "3.3-whole", run: checkWholeValues },
  {
    id: "4.2.5",
    async run(launcher) {
      for (const [what, setup] of Object.entries(VIOLATIONS)) {
        await launcher.expectNoStart(what, declared(...setup), "CHECKED");
      }
    },
  },
  { id: "6.2", run: checkTypes },
  {
    id: "S2.1",
    async run(launcher) {
      const variables = { REP_PUBLIC_CHECKED: "x" };
      const manifest = `${MANIFEST}  CHECKED:\n    tier: server\n`;
      await launcher.expectNoStart(
        "a PUBLIC variable that is declared as SERVER",
        { variables, manifest },
        "CHECKED",
      );
    },
  },
  { id: "6.3", run: checkDefaults },
  { id: "6.3-empty", run: checkEmptyDefaults },
  { id: "6.3-scan", run: checkDefaultWarning },
  { id: "6.3-invalid", run: checkInvalidDefaults },
  { id: "6.3-required", run: checkRequiredDefault },
  { id: "6.3-tier", run: checkDefaultInOtherTier },
  { id: "6.3-reload", run: checkReloadedDefault },
  { id: "7", run: checkPrecedence },
];

/** Returns all that a gateway says to a browser, except for events. */
async function textsOf(subject: Subject): Promise<string> {
  const paths = [
    "/",
    "/rep/health",
    "/rep/session-key",
    "/rep/unknown",
    "/app.js",
  ];
  const answers = await Promise.all(paths.map((path) => subject.ask(path)));
  return answers.map(({ headers, text }) =>
    `${JSON.stringify([...headers])}\n${text}`
  ).join("\n");
}

async function checkTiers(launcher: Launcher): Promise<void> {
  const subject = await launcher.start(STANDARD);
  const { payload } = await subject.page("/");
  expectEqual(
    "the PUBLIC values",
    Object.entries(payload.public).sort(),
    Object.entries(PUBLIC).sort(),
  );
  expect(payload.sensitive !== undefined, "expected encrypted values");
  const texts = await textsOf(subject);
  const leak = [...Object.entries(SENSITIVE), ...Object.entries(SERVER)].find((
    [, value],
  ) => texts.includes(value));
  expect(leak === undefined, `expected no value of ${leak?.[0]} in a response`);
}

async function checkNames(launcher: Launcher): Promise<void> {
  const subject = await launcher.start(STANDARD);
  const { payload } = await subject.page("/");
  expectEqual(
    "the names of the PUBLIC variables",
    Object.keys(payload.public).sort(),
    Object.keys(PUBLIC).sort(),
  );
  const { variables } = JSON.parse((await subject.ask("/rep/health")).text);
  expectEqual("the counts", [
    variables.public,
    variables.sensitive,
    variables.server,
  ], COUNTS);
  const texts = await textsOf(subject);
  const leak = Object.entries(IGNORED).find(([, value]) =>
    texts.includes(value)
  );
  expect(leak === undefined, `expected no value of ${leak?.[0]} in a response`);
}

async function checkLog(launcher: Launcher): Promise<void> {
  const subject = await launcher.start(STANDARD);
  const other = subject.output.find((line) => !line.startsWith("{"));
  expect(
    other === undefined,
    `expected JSON in each line of the log, got ${other}`,
  );
  await subject.eventually(
    `a line of the log with the counts ${COUNTS.join(", ")}`,
    () => subject.lines().some((line) => hasCounts(line, COUNTS)),
  );
}

function hasCounts(line: unknown, counts: readonly number[]): boolean {
  return counts.every((count) => numbersIn(line).includes(count));
}

async function checkCollisions(launcher: Launcher): Promise<void> {
  const tiers = ["PUBLIC", "SENSITIVE", "SERVER"];
  for (const tier of tiers) {
    const pair = tiers.filter((other) => other !== tier).map((other) =>
      `REP_${other}_TWICE`
    );
    const variables = Object.fromEntries(pair.map((name) => [name, "x"]));
    await launcher.expectNoStart(pair.join(" and "), { variables }, "TWICE");
  }
}

async function checkWarnings(launcher: Launcher): Promise<void> {
  const subject = await launcher.start(SUSPICIOUS);
  for (const name of Object.keys(SECRETS)) {
    await subject.eventually(
      `a warning of ${name}`,
      () => warningsOf(subject).some((line) => line.includes(name)),
    );
  }
  const output = subject.output.join("\n");
  const [shown] =
    Object.entries(SECRETS).find(([, value]) => output.includes(value)) ?? [];
  expect(
    shown === undefined,
    `expected a log without values, got that of ${shown}`,
  );
  const { payload } = await subject.page("/");
  expectEqual(
    "the names in the page",
    Object.keys(payload.public).sort(),
    Object.keys(SECRETS).sort(),
  );
}

/** As a whole, it has 5.0 bits per character, and two elements look like a URL with a password; each one is harmless. */
const ELEMENTS =
  "Quiz, Foxi, jagen, Typ, AX/BK-340, 1957, Hof, redis://cache.example:6379, me@example.com";

async function checkLists(launcher: Launcher): Promise<void> {
  const subject = await launcher.start({
    variables: {
      REP_PUBLIC_CHECK_LIST: ELEMENTS,
      REP_PUBLIC_CHECK_SECRETS: `dark-mode, ${SECRETS.CHECK_AWS} , beta`,
    },
    manifest: `${MANIFEST}  CHECK_LIST:
    tier: public
    type: csv
  CHECK_SECRETS:
    tier: public
    type: csv
`,
    options: { "log-format": "json" },
  });
  await subject.eventually(
    "a warning of a secret in a list",
    () => warningsOf(subject).some((line) => line.includes("CHECK_SECRETS")),
  );
  const warning = warningsOf(subject).find((line) => line.includes("_LIST"));
  expect(warning === undefined, `expected no warning of a list: ${warning}`);
}

/** It has 5.1 bits per character as a whole, but each word is harmless. */
const TEXT =
  "Wir zahlen 1,50 EUR je Quiz; Fix & Foxi (Bj. 1957-62) jagen vom Typ AX/BK-340 zum Hof @ 8 Uhr!";

async function checkWholeValues(launcher: Launcher): Promise<void> {
  const subject = await launcher.start({
    variables: { REP_PUBLIC_CHECK_TEXT: TEXT },
    options: { "log-format": "json" },
  });
  await subject.page("/"); // whoever warns has done so before
  expect(
    warningsOf(subject).some((line) => line.includes("CHECK_TEXT")),
    "expected a warning of a text with high entropy as a whole",
  );
}

/** Each tier has a default, and a variable that is set. */
const DEFAULTS: Setup = {
  variables: {
    REP_PUBLIC_SET: "set",
    REP_SENSITIVE_SET_SECRET: "set",
    REP_SERVER_SET_SERVER: "set",
    REP_SERVER_SET_TOO: "set",
  },
  manifest: `${MANIFEST}  SET:
    tier: public
    default: "overridden"
  UNSET:
    tier: public
    default: "from-manifest"
  HIDDEN:
    tier: sensitive
    default: "sensitive-default"
  INTERNAL:
    tier: server
    default: "server-default"
`,
  options: { "log-format": "json" },
};

async function checkDefaults(launcher: Launcher): Promise<void> {
  const subject = await launcher.start(DEFAULTS);
  const { payload } = await subject.page("/");
  const values = Object.entries(payload.public).sort();
  const expected = [["SET", "set"], ["UNSET", "from-manifest"]];
  expectEqual("the PUBLIC values", values, expected);
  const { variables } = JSON.parse((await subject.ask("/rep/health")).text);
  const { public: inPages, sensitive, server } = variables;
  expectEqual("the counts", [inPages, sensitive, server], [2, 2, 3]);
  const texts = await textsOf(subject);
  const leak = ["sensitive-default", "server-default"].find((value) =>
    texts.includes(value)
  );
  expect(leak === undefined, `expected no ${leak} in a response`);
  await subject.eventually(
    "a line of the log with the counts 2, 2 and 3",
    () => subject.lines().some((line) => hasCounts(line, [2, 2, 3])),
  );
}

async function checkEmptyDefaults(launcher: Launcher): Promise<void> {
  const subject = await launcher.start({
    variables: { REP_PUBLIC_SET: "" },
    manifest:
      `${MANIFEST}  SET:\n    tier: public\n    default: "x"\n  UNSET:\n    tier: public\n    default: ""\n`,
  });
  const { payload } = await subject.page("/");
  const values = Object.entries(payload.public).sort();
  expectEqual("the values", values, [["SET", ""], ["UNSET", ""]]);
}

async function checkDefaultWarning(launcher: Launcher): Promise<void> {
  const secret = SECRETS.CHECK_AWS;
  const setup = declared(undefined, `default: "${secret}"`);
  const subject = await launcher.start({
    variables: setup.variables ?? {},
    manifest: setup.manifest ?? "",
    options: { "log-format": "json" },
  });
  const { payload } = await subject.page("/");
  expectEqual("the value", payload.public.CHECKED, secret);
  await subject.eventually(
    "a warning of a default",
    () => warningsOf(subject).some((line) => line.includes("CHECKED")),
  );
}

/** Defaults that their own declaration does not allow, each with a value that it allows. */
const INVALID_DEFAULTS: Readonly<Record<string, [string, string]>> = {
  "a default of another type": ["10", 'type: number\n    default: "ten"'],
  "a default that the pattern does not match": [
    "10",
    'pattern: "^[0-9]+$"\n    default: "abc"',
  ],
  "a default that is no value of its enum": [
    "red",
    'type: enum\n    values: ["red", "blue"]\n    default: "purple"',
  ],
};

async function checkInvalidDefaults(launcher: Launcher): Promise<void> {
  for (const [what, [value, fields]] of Object.entries(INVALID_DEFAULTS)) {
    const unset = declared(undefined, fields);
    await launcher.expectNoStart(what, unset, "CHECKED");
    const overridden = declared(value, fields);
    const whatElse = `${what}, which is overridden`;
    await launcher.expectNoStart(whatElse, overridden, "CHECKED");
  }
}

async function checkRequiredDefault(launcher: Launcher): Promise<void> {
  const fields = 'required: true\n    default: "x"';
  const what = "a required variable that only has a default";
  await launcher.expectNoStart(what, declared(undefined, fields), "CHECKED");
  const { payload } = await (await launcher.start(declared("set", fields)))
    .page("/");
  expectEqual("the value", payload.public.CHECKED, "set");
}

async function checkDefaultInOtherTier(launcher: Launcher): Promise<void> {
  const setup: Setup = {
    variables: { REP_SERVER_CHECKED: "x" },
    manifest: `${MANIFEST}  CHECKED:\n    tier: public\n    default: "y"\n`,
  };
  const subject = await launcher.start(setup);
  const { payload } = await subject.page("/");
  expectEqual("the value in the page", payload.public.CHECKED, undefined);
}

/** The env file sets all PUBLIC variables, and a SENSITIVE one that stays. */
const RELOADED: Setup = {
  envFile: "REP_PUBLIC_LIVE=set\nREP_SENSITIVE_STAYS=x\n",
  manifest:
    `${MANIFEST}  LIVE:\n    tier: public\n    default: "from-manifest"\n  STAYS:\n    tier: sensitive\n`,
  options: { "hot-reload": "true" },
};

async function checkReloadedDefault(launcher: Launcher): Promise<void> {
  const subject = await launcher.start(RELOADED);
  const liveValue = async () => (await subject.page("/")).payload.public.LIVE;
  expectEqual("the value before", await liveValue(), "set");
  await launcher.writeEnvFile("REP_SENSITIVE_STAYS=x\n");
  subject.signal("SIGHUP");
  await subject.eventually(
    "the default after a reload",
    async () => await liveValue() === "from-manifest",
  );
}

function warningsOf(subject: Subject): string[] {
  return subject.output.filter((line) => /"level":"warn(ing)?"/i.test(line));
}

function declared(value: string | undefined, declaration: string): Setup {
  const variables: Record<string, string> = value === undefined
    ? {}
    : { REP_PUBLIC_CHECKED: value };
  return {
    variables,
    manifest: `${MANIFEST}  CHECKED:\n    tier: public\n    ${declaration}\n`,
  };
}

async function checkTypes(launcher: Launcher): Promise<void> {
  const accepted: string[] = [];
  for (const [what, setup] of Object.entries(TYPES)) {
    await launcher.expectNoStart(what, declared(...setup), "CHECKED").catch(
      () => accepted.push(what),
    );
  }
  expect(
    accepted.length === 0,
    `expected no start with ${accepted.join(", ")}`,
  );
  await launcher.start(declared("TRUE", "type: boolean"));
}

async function checkPrecedence(launcher: Launcher): Promise<void> {
  const [flag, environment, manifest] = ["flag", "environment", "manifest"].map(
    (name) => `https://${name}.example`,
  );
  const settings =
    `${MANIFEST}  TOKEN:\n    tier: sensitive\nsettings:\n  allowed_origins:\n    - "${manifest}"\n`;
  const base = {
    variables: { REP_SENSITIVE_TOKEN: "x" },
    envFile: ENV_FILE,
    manifest: settings,
  };
  const options = { "allowed-origins": environment! };
  const setups: [Setup, string | undefined][] = [
    [{ ...base, options, flags: ["--allowed-origins", flag!] }, flag],
    [{ ...base, options }, environment],
    [base, manifest],
  ];
  for (const [setup, expected] of setups) {
    const subject = await launcher.start(setup);
    const permitted = [];
    for (const origin of [flag, environment, manifest]) {
      const { status } = await subject.ask("/rep/session-key", {
        headers: { origin: origin! },
      });
      if (status === 200) permitted.push(origin);
    }
    expectEqual("the permitted origins", permitted, [expected]);
  }
}

/** Returns all numbers in a value that was JSON. */
function numbersIn(value: unknown): number[] {
  if (typeof value === "number") return [value];
  return typeof value === "object" && value !== null
    ? Object.values(value).flatMap(numbersIn)
    : [];
}
