import { type Check, ENV_FILE, IGNORED, PUBLIC, SENSITIVE, SERVER, STANDARD } from "./check.ts";
import type { Lab, Setup } from "./lab.ts";
import { expect, expectEqual } from "./nonconformance.ts";
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
  variables: Object.fromEntries(Object.entries(SECRETS).map(([name, value]) => [`REP_PUBLIC_${name}`, value])),
  options: { "log-format": "json" },
};

const MANIFEST = `version: "0.1.0"
variables:
`;
/** How many variables each tier of {@linkcode STANDARD} has. */
const COUNTS = [PUBLIC, SENSITIVE, SERVER].map((variables) => Object.keys(variables).length);

/** What is set, and a declaration that it violates. */
const VIOLATIONS: Readonly<Record<string, [value: string | undefined, declaration: string]>> = {
  "a required variable that is missing": [undefined, "required: true"],
  "a value of another type": ["ten", "type: number"],
  "a value that the pattern does not match": ["abc", 'pattern: "^[0-9]+$"'],
};
const TYPES: Readonly<Record<string, [value: string, declaration: string]>> = {
  "text as url": ["not a url", "type: url"],
  "Infinity as number": ["Infinity", "type: number"],
  "1 as boolean": ["1", "type: boolean"],
  "text as json": ["{", "type: json"],
  "another value of an enum": ["purple", 'type: enum\n    values: ["red", "blue"]'],
};

/** §3, §4.2, §6 and §7: from variables to a start. */
export const VARIABLE_CHECKS: readonly Check[] = [
  { id: "3.1", run: checkTiers },
  { id: "3.2", run: checkNames },
  { id: "4.2.14", run: checkLog },
  {
    id: "4.2.1",
    async run(lab) {
      const { payload } = await (await lab.start(STANDARD)).page("/");
      expectEqual("a variable of the env file", payload.public.GONE, PUBLIC.GONE);
      expectEqual("a variable that is set in both", payload.public.API_URL, PUBLIC.API_URL);
    },
  },
  { id: "3.2.4", run: checkCollisions },
  { id: "3.3", run: checkWarnings },
  {
    id: "3.3-strict",
    async run(lab) {
      await lab.printsInstead("a secret in strict mode", { ...SUSPICIOUS, options: { strict: "true" } });
    },
  },
  {
    id: "4.2.5",
    async run(lab) {
      for (const [what, setup] of Object.entries(VIOLATIONS)) await lab.printsInstead(what, declared(...setup));
    },
  },
  { id: "6.2", run: checkTypes },
  {
    id: "S2.1",
    async run(lab) {
      const variables = { REP_PUBLIC_CHECKED: "x" };
      const manifest = `${MANIFEST}  CHECKED:\n    tier: server\n`;
      await lab.printsInstead("a PUBLIC variable that is declared as SERVER", { variables, manifest });
    },
  },
  { id: "7", run: checkPrecedence },
];

/** Returns all that a gateway says to a browser, except for events. */
async function textsOf(subject: Subject): Promise<string> {
  const paths = ["/", "/rep/health", "/rep/session-key", "/rep/unknown", "/app.js"];
  const answers = await Promise.all(paths.map((path) => subject.ask(path)));
  return answers.map(({ headers, text }) => `${JSON.stringify([...headers])}\n${text}`).join("\n");
}

async function checkTiers(lab: Lab): Promise<void> {
  const subject = await lab.start(STANDARD);
  const { payload } = await subject.page("/");
  expectEqual("the PUBLIC values", Object.entries(payload.public).sort(), Object.entries(PUBLIC).sort());
  expect(payload.sensitive !== undefined, "expected encrypted values");
  const texts = await textsOf(subject);
  const leak = [...Object.entries(SENSITIVE), ...Object.entries(SERVER)].find(([, value]) => texts.includes(value));
  expect(leak === undefined, `expected no value of ${leak?.[0]} in a response`);
}

async function checkNames(lab: Lab): Promise<void> {
  const subject = await lab.start(STANDARD);
  const { payload } = await subject.page("/");
  expectEqual("the names of the PUBLIC variables", Object.keys(payload.public).sort(), Object.keys(PUBLIC).sort());
  const { variables } = JSON.parse((await subject.ask("/rep/health")).text);
  expectEqual("the counts", [variables.public, variables.sensitive, variables.server], COUNTS);
  const texts = await textsOf(subject);
  const leak = Object.entries(IGNORED).find(([, value]) => texts.includes(value));
  expect(leak === undefined, `expected no value of ${leak?.[0]} in a response`);
}

async function checkLog(lab: Lab): Promise<void> {
  const subject = await lab.start(STANDARD);
  const other = subject.output.find((line) => !line.startsWith("{"));
  expect(other === undefined, `expected JSON in each line of the log, got ${other}`);
  const hasAll = (line: unknown) => COUNTS.every((count) => numbersIn(line).includes(count));
  expect(subject.lines().some(hasAll), `expected a line of the log with the counts ${COUNTS.join(", ")}`);
}

async function checkCollisions(lab: Lab): Promise<void> {
  const tiers = ["PUBLIC", "SENSITIVE", "SERVER"];
  for (const tier of tiers) {
    const pair = tiers.filter((other) => other !== tier).map((other) => `REP_${other}_TWICE`);
    const variables = Object.fromEntries(pair.map((name) => [name, "x"]));
    const output = await lab.printsInstead(pair.join(" and "), { variables });
    expect(output.includes("TWICE"), `expected a log that names TWICE, got ${output.slice(0, 200)}`);
  }
}

async function checkWarnings(lab: Lab): Promise<void> {
  const subject = await lab.start(SUSPICIOUS);
  const warnings = warningsOf(subject);
  const missing = Object.keys(SECRETS).filter((name) => !warnings.some((line) => line.includes(name)));
  expect(missing.length === 0, `expected a warning of each value, got none of ${missing.join(", ")}`);
  const output = subject.output.join("\n");
  const [shown] = Object.entries(SECRETS).find(([, value]) => output.includes(value)) ?? [];
  expect(shown === undefined, `expected a log without values, got that of ${shown}`);
  const { payload } = await subject.page("/");
  expectEqual("the names in the page", Object.keys(payload.public).sort(), Object.keys(SECRETS).sort());
}

function warningsOf(subject: Subject): string[] {
  return subject.output.filter((line) => /"level":"warn(ing)?"/i.test(line));
}

function declared(value: string | undefined, declaration: string): Setup {
  const variables: Record<string, string> = value === undefined ? {} : { REP_PUBLIC_CHECKED: value };
  return { variables, manifest: `${MANIFEST}  CHECKED:\n    tier: public\n    ${declaration}\n` };
}

async function checkTypes(lab: Lab): Promise<void> {
  const accepted: string[] = [];
  for (const [what, setup] of Object.entries(TYPES)) {
    await lab.printsInstead(what, declared(...setup)).catch(() => accepted.push(what));
  }
  expect(accepted.length === 0, `expected no start with ${accepted.join(", ")}`);
  await lab.start(declared("TRUE", "type: boolean"));
}

async function checkPrecedence(lab: Lab): Promise<void> {
  const [flag, environment, manifest] = ["flag", "environment", "manifest"].map((name) => `https://${name}.example`);
  const settings = `${MANIFEST}  TOKEN:\n    tier: sensitive\nsettings:\n  allowed_origins:\n    - "${manifest}"\n`;
  const base = { variables: { REP_SENSITIVE_TOKEN: "x" }, envFile: ENV_FILE, manifest: settings };
  const options = { "allowed-origins": environment! };
  const setups: [Setup, string | undefined][] = [
    [{ ...base, options, flags: ["--allowed-origins", flag!] }, flag],
    [{ ...base, options }, environment],
    [base, manifest],
  ];
  for (const [setup, expected] of setups) {
    const subject = await lab.start(setup);
    const permitted = [];
    for (const origin of [flag, environment, manifest]) {
      const { status } = await subject.ask("/rep/session-key", { headers: { origin: origin! } });
      if (status === 200) permitted.push(origin);
    }
    expectEqual("the permitted origins", permitted, [expected]);
  }
}

/** Returns all numbers in a value that was JSON. */
function numbersIn(value: unknown): number[] {
  if (typeof value === "number") return [value];
  return typeof value === "object" && value !== null ? Object.values(value).flatMap(numbersIn) : [];
}
