import { assertEquals } from "@std/assert";
import { type Declaration, type Manifest, parseManifest } from "../../src/variables/manifest.ts";

/** The manifest of a text that has no fault. */
function manifestOf(text: string): Manifest {
  const { manifest, faults } = parseManifest(text);
  assertEquals(faults, []);
  return manifest;
}

/** The declaration of A with these fields. */
function declarationOf(fields: Record<string, unknown>): Declaration | undefined {
  return manifestOf(withVariables({ A: fields })).variables.get("A");
}

/** The faults of a manifest, without the words that they all begin with. */
function faultsOf(text: string): string[] {
  return parseManifest(text).faults.map((fault) => fault.replace("Cannot use the manifest: ", ""));
}

/** JSON is YAML. */
function withVariables(variables: unknown): string {
  return JSON.stringify({ version: "0.1.0", variables });
}

function withSettings(settings: unknown): string {
  return JSON.stringify({ version: "0.1.0", variables: {}, settings });
}

const MINIMAL: Declaration = { tier: "public", type: "string", required: false, deprecated: false };

Deno.test("parseManifest() reads the example of REP-RFC-0001 §6.1", () => {
  const text = `
# .rep.yaml
version: "0.1.0"

variables:
  API_URL:
    tier: public
    type: url
    required: true
    description: "Base URL for the backend API"
    example: "https://api.example.com"

  FEATURE_FLAGS:
    tier: public
    type: csv       # Comma-separated values
    required: false
    default: ""

  ANALYTICS_KEY:
    tier: sensitive
    type: string
    required: true
    pattern: "^UA-\\\\d+-\\\\d+$"

  INTERNAL_ROUTING_KEY:
    tier: server
    type: string
    required: true

settings:
  strict_guardrails: true
  hot_reload: true
  hot_reload_mode: "file_watch"      # file_watch | signal | poll
  hot_reload_poll_interval: "30s"
  session_key_ttl: "30s"
  session_key_max_rate: 10
  allowed_origins:
    - "https://app.example.com"
    - "https://staging.app.example.com"
`;
  assertEquals(manifestOf(text), {
    variables: new Map<string, Declaration>([
      ["API_URL", { tier: "public", type: "url", required: true, deprecated: false }],
      ["FEATURE_FLAGS", { tier: "public", type: "csv", required: false, deprecated: false, default: "" }],
      ["ANALYTICS_KEY", {
        tier: "sensitive",
        type: "string",
        required: true,
        deprecated: false,
        pattern: /^(?:^UA-\d+-\d+$)$/u,
      }],
      ["INTERNAL_ROUTING_KEY", { tier: "server", type: "string", required: true, deprecated: false }],
    ]),
    settings: {
      strict_guardrails: true,
      hot_reload: true,
      hot_reload_mode: "file_watch",
      hot_reload_poll_interval: 30_000,
      session_key_ttl: 30_000,
      session_key_max_rate: 10,
      allowed_origins: ["https://app.example.com", "https://staging.app.example.com"],
    },
  });
});

Deno.test("parseManifest() needs a version, variables, and a tier for each of them, and nothing else", () => {
  assertEquals(manifestOf(withVariables({ A: { tier: "public" } })), {
    variables: new Map([["A", MINIMAL]]),
    settings: {},
  });
});

Deno.test("parseManifest() takes every key of a declaration", () => {
  const fields = {
    tier: "sensitive",
    type: "enum",
    required: false,
    default: "b",
    description: "What it is",
    example: "a",
    pattern: "[ab]",
    values: ["a", "b"],
    deprecated: true,
    deprecated_message: "Use B",
  };
  assertEquals(declarationOf(fields), {
    tier: "sensitive",
    type: "enum",
    required: false,
    deprecated: true,
    default: "b",
    pattern: /^(?:[ab])$/u,
    values: ["a", "b"],
    deprecatedMessage: "Use B",
  });
});

for (const tier of ["public", "sensitive", "server"] as const) {
  Deno.test(`parseManifest() takes the tier ${tier}`, () => assertEquals(declarationOf({ tier })?.tier, tier));
}

for (const type of ["string", "url", "number", "boolean", "csv", "json"] as const) {
  Deno.test(`parseManifest() takes the type ${type}`, () => {
    assertEquals(declarationOf({ tier: "public", type })?.type, type);
  });
}

Deno.test("parseManifest() takes a manifest that begins with a byte order mark", () => {
  assertEquals(manifestOf(`\uFEFF${withVariables({})}`).variables.size, 0);
});

const STRING = "a string (put it in quotes)";
const TIER = "expected one of public, sensitive, server";
const TYPE = "expected one of string, url, number, boolean, csv, json, enum";
const KEYS =
  "expected one of tier, type, required, default, description, example, pattern, values, deprecated, deprecated_message";

const WRONG_TEXTS: Record<string, readonly [text: string, ...faults: string[]]> = {
  "an empty text": ["", "expected a mapping at the top, got nothing"],
  "a list": ["- a", "expected a mapping at the top, got a list"],
  "a word": ["manifest", "expected a mapping at the top, got a string"],
  "two documents": ["version: '0.1.0'\n---\nversion: '0.1.0'", "it is not valid YAML at line 2, column 1"],
  "a key twice": ["version: '0.1.0'\nvariables: {}\nvariables: {}", "it is not valid YAML at line 3, column 1"],
  "a tag that nobody knows": ["version: !!js/function x", "it is not valid YAML at line 1, column 25"],
  "nesting without an end": ["[".repeat(10_000), "it is not valid YAML"],
  "no version": ["variables: {}", 'version: expected a quoted version such as "0.1.0", got nothing'],
  "a number for a version": [
    "version: 0.1\nvariables: {}",
    'version: expected a quoted version such as "0.1.0", got 0.1',
  ],
  "a version of two numbers": [
    'version: "0.1"\nvariables: {}',
    'version: expected a quoted version such as "0.1.0", got "0.1"',
  ],
  "no variables": ['version: "0.1.0"', "variables: expected a mapping, got nothing"],
  "a list of variables": ['version: "0.1.0"\nvariables: []', "variables: expected a mapping, got an empty list"],
  "settings without any": ['version: "0.1.0"\nvariables: {}\nsettings:', "settings: expected a mapping, got nothing"],
  "another key": [
    'version: "0.1.0"\nvariables: {}\nsetings: {}',
    "setings: expected one of version, variables, settings",
  ],
};

for (const [what, [text, ...faults]] of Object.entries(WRONG_TEXTS)) {
  Deno.test(`parseManifest() refuses ${what}`, () => assertEquals(faultsOf(text), faults));
}

const WRONG_FIELDS: readonly (readonly [fields: unknown, ...faults: string[]])[] = [
  [null, "variables.A: expected a mapping with a tier, got nothing"],
  ["public", "variables.A: expected a mapping with a tier, got a string"],
  [[], "variables.A: expected a mapping with a tier, got an empty list"],
  [{}, `variables.A.tier: ${TIER}, got nothing`],
  [{ tier: null }, `variables.A.tier: ${TIER}, got nothing`],
  [{ tier: "Public" }, `variables.A.tier: ${TIER}, got "Public"`],
  [{ tier: ["public"] }, `variables.A.tier: ${TIER}, got a list`],
  [{ tier: "public", type: "int" }, `variables.A.type: ${TYPE}, got "int"`],
  [{ tier: "public", type: null }, `variables.A.type: ${TYPE}, got nothing`],
  [{ tier: "public", required: "yes" }, 'variables.A.required: expected true or false, got "yes"'],
  [{ tier: "public", required: 1 }, "variables.A.required: expected true or false, got 1"],
  [{ tier: "public", required: null }, "variables.A.required: expected true or false, got nothing"],
  [{ tier: "public", default: 5 }, `variables.A.default: expected ${STRING}, got 5`],
  [{ tier: "public", default: true }, `variables.A.default: expected ${STRING}, got true`],
  [{ tier: "public", default: null }, `variables.A.default: expected ${STRING}, got nothing`],
  [{ tier: "public", default: {} }, `variables.A.default: expected ${STRING}, got a mapping`],
  [{ tier: "public", description: 5 }, `variables.A.description: expected ${STRING}, got 5`],
  [{ tier: "public", example: [5] }, `variables.A.example: expected ${STRING}, got a list`],
  [{ tier: "public", pattern: 5 }, `variables.A.pattern: expected ${STRING}, got 5`],
  [{ tier: "public", pattern: "(" }, 'variables.A.pattern: expected a regular expression, got "("'],
  [{ tier: "public", pattern: "a)|(b" }, 'variables.A.pattern: expected a regular expression, got "a)|(b"'],
  [{ tier: "public", values: "a" }, `variables.A.values: expected a list of at least one ${STRING.slice(2)}, got "a"`],
  [
    { tier: "public", values: [] },
    `variables.A.values: expected a list of at least one ${STRING.slice(2)}, got an empty list`,
  ],
  [
    { tier: "public", values: [1] },
    `variables.A.values: expected a list of at least one ${STRING.slice(2)}, got a list`,
  ],
  [{ tier: "public", type: "enum" }, "variables.A.values: expected the allowed values of the enum, got nothing"],
  [{ tier: "public", deprecated: "no" }, 'variables.A.deprecated: expected true or false, got "no"'],
  [{ tier: "public", deprecated_message: 5 }, `variables.A.deprecated_message: expected ${STRING}, got 5`],
  [
    { tier: "public", required: true, default: "x" },
    "variables.A.default: expected no default for a required variable",
  ],
  [{ tier: "public", requird: true }, `variables.A.requird: ${KEYS}`],
];

for (const [fields, ...faults] of WRONG_FIELDS) {
  Deno.test(`parseManifest() refuses the declaration ${JSON.stringify(fields)}`, () => {
    assertEquals(faultsOf(withVariables({ A: fields })), faults);
  });
}

Deno.test("parseManifest() refuses a date for a default, which YAML makes of it", () => {
  const text = 'version: "0.1.0"\nvariables:\n  A:\n    tier: public\n    default: 2026-11-21\n';
  assertEquals(faultsOf(text), [`variables.A.default: expected ${STRING}, got a date`]);
});

Deno.test("parseManifest() refuses a variable without a name", () => {
  assertEquals(faultsOf(withVariables({ "": { tier: "public" } })), [
    "variables: expected a name for every variable",
  ]);
});

Deno.test("parseManifest() tells every fault at once", () => {
  const text = JSON.stringify({
    version: 1,
    extra: true,
    variables: { A: { tier: "x", type: "y", required: "z", more: 1 }, B: 5, C: { tier: "server", values: [] } },
    settings: { hot_reload: "on", session_key_ttl: "31s", more: 1 },
  });
  assertEquals(faultsOf(text), [
    `variables.A.more: ${KEYS}`,
    `variables.A.tier: ${TIER}, got "x"`,
    `variables.A.type: ${TYPE}, got "y"`,
    "variables.A.required: expected true or false, got a string",
    "variables.B: expected a mapping with a tier, got a number",
    `variables.C.values: expected a list of at least one ${STRING.slice(2)}, got an empty list`,
    "settings.more: expected one of strict_guardrails, hot_reload, hot_reload_mode, hot_reload_poll_interval, " +
    "allowed_origins, session_key_ttl, session_key_max_rate",
    'settings.hot_reload: expected true or false, got "on"',
    'settings.session_key_ttl: expected a duration from 1s to 30s, such as 30s, got "31s"',
    "extra: expected one of version, variables, settings",
    'version: expected a quoted version such as "0.1.0", got 1',
  ]);
});

const WRONG_SETTINGS: readonly (readonly [setting: string, wanted: string, ...values: unknown[]])[] = [
  ["strict_guardrails", "true or false", "true", 1, null, []],
  ["hot_reload", "true or false", "yes", 0, {}],
  ["hot_reload_mode", "one of signal, file_watch, poll", "watch", true, ["poll"]],
  ["hot_reload_poll_interval", "a duration from 1s to 24h, such as 30s", 30, "30", "0s", "25h", ""],
  ["session_key_ttl", "a duration from 1s to 30s, such as 30s", 30, "31s", "1m", "0s"],
  ["session_key_max_rate", "an integer from 1 to 10000", "10", 0, 1.5, 10_001, -1],
  [
    "allowed_origins",
    "origins such as https://app.example.com",
    "https://a.example",
    [1],
    [""],
    [["https://a.example"]],
    ["https://a.example/"],
    ["https://a.example/path"],
    ["*"],
    ["https://a.example", "a.example"],
  ],
];

for (const [setting, wanted, ...values] of WRONG_SETTINGS) {
  for (const value of values) {
    Deno.test(`parseManifest() refuses ${JSON.stringify(value)} for ${setting}`, () => {
      const [fault = "", ...others] = faultsOf(withSettings({ [setting]: value }));
      assertEquals([fault.split(", got ")[0], others], [`settings.${setting}: expected ${wanted}`, []]);
    });
  }
}

Deno.test("parseManifest() says what was found for a setting", () => {
  const settings = { session_key_ttl: "31s", session_key_max_rate: 0, allowed_origins: ["https://a.example/", "*"] };
  assertEquals(faultsOf(withSettings(settings)), [
    'settings.allowed_origins: expected origins such as https://app.example.com, got "https://a.example/,*"',
    'settings.session_key_ttl: expected a duration from 1s to 30s, such as 30s, got "31s"',
    "settings.session_key_max_rate: expected an integer from 1 to 10000, got 0",
  ]);
});

Deno.test("parseManifest() takes no origins for a value", () => {
  assertEquals(manifestOf(withSettings({ allowed_origins: [] })).settings, { allowed_origins: [] });
});

Deno.test("parseManifest() takes false for a value", () => {
  assertEquals(manifestOf(withSettings({ hot_reload: false })).settings, { hot_reload: false });
});

const SECRET = "s3cret";

const LEAKS: Record<string, string> = {
  "a value as the declaration": withVariables({ A: SECRET }),
  "a value in a list as the declaration": withVariables({ A: [SECRET] }),
  "a whole env file": `REP_SENSITIVE_A=${SECRET}\nREP_SENSITIVE_B=${SECRET}`,
  "a value for the variables": `version: "0.1.0"\nvariables: ${SECRET}`,
  "a default of another type": withVariables({ A: { tier: "sensitive", default: [SECRET] } }),
  "a default where the tier is not known": withVariables({ A: { tier: "x", default: [SECRET] } }),
  "a default where there is no tier": withVariables({ A: { default: { [SECRET]: SECRET } } }),
  "a value in values": withVariables({ A: { tier: "server", values: SECRET } }),
  "a value in required": withVariables({ A: { tier: "sensitive", required: SECRET } }),
  "a value in pattern": withVariables({ A: { tier: "sensitive", pattern: `(${SECRET}` } }),
  "a value in example": withVariables({ A: { tier: "sensitive", example: [SECRET] } }),
  "a value in __proto__": `version: "0.1.0"\nvariables: {A: {tier: sensitive, __proto__: ${SECRET}}}`,
  "a default of a required variable": withVariables({ A: { tier: "sensitive", required: true, default: SECRET } }),
  "an open quote": `version: "0.1.0"\nvariables:\n  A:\n    tier: sensitive\n    default: "${SECRET}`,
  "a broken line": `version: "0.1.0"\nvariables:\n  A:\n    tier: sensitive\n    ${SECRET}`,
  "a tab": `version: "0.1.0"\nvariables:\n  A:\n    tier: sensitive\n\tdefault: ${SECRET}`,
  "an alias of nothing": `version: "0.1.0"\nvariables:\n  A:\n    tier: sensitive\n    default: *${SECRET}`,
  "an unknown tag": `version: "0.1.0"\nvariables:\n  A:\n    tier: sensitive\n    default: !${SECRET} x`,
  "an alias of itself": `version: "0.1.0"\nvariables:\n  A: &a\n    tier: sensitive\n    default: [*a, ${SECRET}]`,
};

for (const [what, text] of Object.entries(LEAKS)) {
  Deno.test(`parseManifest() refuses ${what}, and does not tell it`, () => {
    const faults = faultsOf(text);
    assertEquals([faults.length > 0, faults.join().includes(SECRET)], [true, false]);
  });
}

Deno.test("parseManifest() gets to an end with aliases that go in circles", () => {
  assertEquals(faultsOf('version: "0.1.0"\nvariables: &a\n  A: *a\n'), [
    `variables.A.A: ${KEYS}`,
    `variables.A.tier: ${TIER}, got nothing`,
  ]);
  assertEquals(faultsOf('version: "0.1.0"\nvariables: {}\nsettings:\n  allowed_origins: &o [*o]\n'), [
    "settings.allowed_origins: expected origins such as https://app.example.com, got a list",
  ]);
});

Deno.test("parseManifest() takes names that objects have by themselves for names", () => {
  const text = 'version: "0.1.0"\nvariables: {__proto__: {tier: public}, constructor: {tier: public}}';
  assertEquals(manifestOf(text).variables, new Map([["__proto__", MINIMAL], ["constructor", MINIMAL]]));
});

Deno.test("parseManifest() does not find a tier in a __proto__", () => {
  assertEquals(faultsOf('version: "0.1.0"\nvariables: {A: {__proto__: {tier: public}}}'), [
    `variables.A.__proto__: ${KEYS}`,
    `variables.A.tier: ${TIER}, got nothing`,
  ]);
});

Deno.test("parseManifest() writes faults on one line each, and short", () => {
  const [fault = ""] = faultsOf(withVariables({ A: { tier: `public\n${"x".repeat(1_000)}` } }));
  assertEquals(fault, `variables.A.tier: ${TIER}, got "public\\n${"x".repeat(51)}…`);
});
