import { assertEquals } from "@std/assert";
import type { Declaration } from "../../src/variables/declaration.ts";
import { type Manifest, parseManifest } from "../../src/variables/manifest.ts";

/** The manifest of a text that has no fault. */
function manifestOf(text: string): Manifest {
  const { manifest, issues } = parseManifest(text);
  assertEquals(issues, []);
  return manifest;
}

/** The declaration of A with these fields. */
function declarationOf(fields: Record<string, unknown>): Declaration | undefined {
  return manifestOf(withVariables({ A: fields })).variables.get("A");
}

/** The issues of a manifest, without the words that they all begin with. */
function faultsOf(text: string): string[] {
  return parseManifest(text).issues.map((fault) => fault.replace("Cannot use the manifest: ", ""));
}

/** JSON is YAML. */
function withVariables(variables: unknown): string {
  return JSON.stringify({ version: "0.1.0", variables });
}

const MINIMAL: Declaration = { tier: "public", type: "string", required: false, deprecated: false };

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

const WRONG_TEXTS: Record<string, readonly [text: string, ...issues: string[]]> = {
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

for (const [what, [text, ...issues]] of Object.entries(WRONG_TEXTS)) {
  Deno.test(`parseManifest() refuses ${what}`, () => assertEquals(faultsOf(text), issues));
}

const WRONG_FIELDS: readonly (readonly [fields: unknown, ...issues: string[]])[] = [
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

for (const [fields, ...issues] of WRONG_FIELDS) {
  Deno.test(`parseManifest() refuses the declaration ${JSON.stringify(fields)}`, () => {
    assertEquals(faultsOf(withVariables({ A: fields })), issues);
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
    const issues = faultsOf(text);
    assertEquals([issues.length > 0, issues.join().includes(SECRET)], [true, false]);
  });
}

Deno.test("parseManifest() gets to an end with aliases that go in circles", () => {
  assertEquals(faultsOf('version: "0.1.0"\nvariables: &a\n  A: *a\n'), [
    `variables.A.A: ${KEYS}`,
    `variables.A.tier: ${TIER}, got nothing`,
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

Deno.test("parseManifest() writes issues on one line each, and short", () => {
  const [fault = ""] = faultsOf(withVariables({ A: { tier: `public\n${"x".repeat(1_000)}` } }));
  assertEquals(fault, `variables.A.tier: ${TIER}, got "public\\n${"x".repeat(51)}…`);
});
