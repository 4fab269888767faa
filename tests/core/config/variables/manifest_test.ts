import { assertEquals } from "@std/assert";
import {
  type Declaration,
  nameAt,
  parseManifest,
} from "../../../../src/core/config/variables/manifest.ts";

/** Parses a manifest that has no issues. */
function parseValid(text: string) {
  const manifest = parseManifest(text);
  assertEquals(manifest.issues, []);
  return manifest;
}

/** Parses a declaration with these fields. */
function parseDeclaration(
  fields: Record<string, unknown>,
): Declaration | undefined {
  return parseValid(withVariables({ A: fields })).variables.get("A");
}

/** Returns the issues of a manifest without their common beginning. */
function issuesOf(text: string): string[] {
  return parseManifest(text).issues.map((issue) =>
    issue.replace("Cannot use the manifest: ", "")
  );
}

/** Returns a manifest as JSON, which is YAML. */
function withVariables(variables: unknown) {
  return JSON.stringify({ version: "0.1.0", variables });
}

const MINIMAL: Declaration = {
  tier: "public",
  type: "string",
  required: false,
  default: undefined,
  description: undefined,
  pattern: undefined,
  values: undefined,
  deprecated: false,
  deprecatedMessage: undefined,
};

Deno.test("parseManifest() requires a version, variables and a tier for each of them", () => {
  assertEquals(parseValid(withVariables({ A: { tier: "public" } })), {
    name: "the manifest",
    lines: new Map(),
    variables: new Map([["A", MINIMAL]]),
    settings: {},
    issues: [],
  });
});

Deno.test("parseManifest() reads every key of a declaration", () => {
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
  assertEquals(parseDeclaration(fields), {
    tier: "sensitive",
    type: "enum",
    required: false,
    deprecated: true,
    default: "b",
    description: "What it is",
    pattern: "[ab]",
    values: ["a", "b"],
    deprecatedMessage: "Use B",
  });
});

for (const tier of ["public", "sensitive", "server"] as const) {
  Deno.test(`parseManifest() reads the tier ${tier}`, () =>
    assertEquals(parseDeclaration({ tier })?.tier, tier));
}

for (
  const type of ["string", "url", "number", "boolean", "csv", "json"] as const
) {
  Deno.test(`parseManifest() reads the type ${type}`, () => {
    assertEquals(parseDeclaration({ tier: "public", type })?.type, type);
  });
}

Deno.test("parseManifest() accepts a byte order mark", () => {
  assertEquals(parseValid(`\uFEFF${withVariables({})}`).variables.size, 0);
});

const TIER = "expected one of public, sensitive, server";
const TYPE = "expected one of string, url, number, boolean, csv, json, enum";
const KEYS =
  "expected one of tier, type, required, default, description, example, pattern, values, deprecated, deprecated_message";

const WRONG_TEXTS: Record<
  string,
  readonly [text: string, ...issues: string[]]
> = {
  "an empty text": ["", "expected a mapping at the top, got nothing"],
  "a list": ["- a", "expected a mapping at the top, got a list"],
  "a string": ["manifest", "expected a mapping at the top, got a string"],
  "two documents": [
    "version: '0.1.0'\n---\nversion: '0.1.0'",
    "it is not valid YAML at line 2, column 1: Found more than 1 document in the stream: expected a single document",
  ],
  "a key twice": [
    "version: '0.1.0'\nvariables: {}\nvariables: {}",
    "it is not valid YAML at line 3, column 1: duplicated key",
  ],
  "an unknown tag": [
    "version: !!js/function x",
    "it is not valid YAML at line 1, column 25: unknown tag",
  ],
  "endless nesting": ["[".repeat(10_000), "it is not valid YAML"],
  "no version": [
    "variables: {}",
    'version: expected a quoted version such as "0.1.0", got nothing',
  ],
  "a number as the version": [
    "version: 0.1\nvariables: {}",
    'version: expected a quoted version such as "0.1.0", got 0.1',
  ],
  "a version with two numbers": [
    'version: "0.1"\nvariables: {}',
    'version: expected a quoted version such as "0.1.0", got "0.1"',
  ],
  "no variables": [
    'version: "0.1.0"',
    "variables: expected a mapping, got nothing",
  ],
  "a list of variables": [
    'version: "0.1.0"\nvariables: []',
    "variables: expected a mapping, got an empty list",
  ],
  "empty settings": [
    'version: "0.1.0"\nvariables: {}\nsettings:',
    "settings: expected a mapping, got nothing",
  ],
  "an unknown key that may be a value": [
    '{version: "0.1.0", variables: {}, s3cret:x}',
    "…: expected one of version, variables, settings, got a key that is not shown",
  ],
  "an unknown key": [
    'version: "0.1.0"\nvariables: {}\nsetings: {}',
    "setings: expected one of version, variables, settings; did you mean settings?",
  ],
};

for (const [what, [text, ...issues]] of Object.entries(WRONG_TEXTS)) {
  Deno.test(`parseManifest() rejects ${what}`, () =>
    assertEquals(issuesOf(text), issues));
}

/** Declarations, and what is wrong with them. */
const WRONG_DECLARATIONS: [declaration: unknown, ...issues: string[]][] = [
  [null, "variables.A: expected a mapping with a tier, got nothing"],
  ["public", "variables.A: expected a mapping with a tier, got a string"],
  [[], "variables.A: expected a mapping with a tier, got an empty list"],
  [{}, `variables.A.tier: ${TIER}, got nothing`],
  [{ tier: null }, `variables.A.tier: ${TIER}, got nothing`],
  [
    { tier: "Public" },
    `variables.A.tier: ${TIER}, got "Public"; did you mean public?`,
  ],
  [
    { tier: "pubic" },
    `variables.A.tier: ${TIER}, got "pubic"; did you mean public?`,
  ],
  [{ tier: "frontend" }, `variables.A.tier: ${TIER}, got "frontend"`],
  [{ tier: "s3cret" }, `variables.A.tier: ${TIER}, got a string`],
  [
    { teir: "server" },
    `variables.A.tier: ${TIER}, got nothing`,
    `variables.A.teir: ${KEYS}; did you mean tier?`,
  ],
  [{ tier: ["public"] }, `variables.A.tier: ${TIER}, got a list`],
  [
    { tier: "sensitive", requird: true },
    `variables.A.requird: ${KEYS}; did you mean required?`,
  ],
  [
    { tier: "sensitive", "s3cret": true },
    `variables.A.…: ${KEYS}, got a key that is not shown`,
  ],
  [
    { tier: "sensitive", AKIAABCDEFGHIJKLMNOP: true },
    `variables.A.…: ${KEYS}, got a key that is not shown`,
  ],
  [
    { tier: "AKIAABCDEFGHIJKLMNOP" },
    `variables.A.tier: ${TIER}, got a string`,
  ],
  [
    { tier: "sensitive", ["a".repeat(31)]: true },
    `variables.A.…: ${KEYS}, got a key that is not shown`,
  ],
  [
    { tier: "sensitive", type: "int" },
    `variables.A.type: ${TYPE}, got "int"`,
  ],
  [
    { tier: "server", type: "nubmer" },
    `variables.A.type: ${TYPE}, got "nubmer"; did you mean number?`,
  ],
  [
    { tier: "server", type: "int4" },
    `variables.A.type: ${TYPE}, got a string`,
  ],
  [
    { tier: "server", required: "yes" },
    "variables.A.required: expected true or false, got a string",
  ],
  [
    { tier: "sensitive", "default:x": null },
    `variables.A.…: ${KEYS}, got a key that is not shown`,
  ],
];

/** Fields of a PUBLIC variable, and what is wrong with them. */
const WRONG_FIELDS: typeof WRONG_DECLARATIONS = [
  [{ type: "int" }, `variables.A.type: ${TYPE}, got "int"`],
  [{ type: null }, `variables.A.type: ${TYPE}, got nothing`],
  [
    { required: "yes" },
    "variables.A.required: expected true or false, got a string",
  ],
  [
    { required: 1 },
    "variables.A.required: expected true or false, got a number",
  ],
  [
    { required: null },
    "variables.A.required: expected true or false, got nothing",
  ],
  [{ default: null }, `variables.A.default: expected text, got nothing`],
  [{ default: {} }, `variables.A.default: expected text, got a mapping`],
  [{ example: [5] }, `variables.A.example: expected text, got a list`],
  [
    { values: "a" },
    `variables.A.values: expected a list of at least one text, got a string`,
  ],
  [
    { values: [] },
    `variables.A.values: expected a list of at least one text, got an empty list`,
  ],
  [
    { values: [[]] },
    "variables.A.values: expected a list of at least one text, got a list",
  ],
  [
    { values: ["a", null] },
    "variables.A.values: expected a list of at least one text, got a list",
  ],
  [
    { type: "enum" },
    "variables.A.values: expected the allowed values of the enum, got nothing",
  ],
  [
    { deprecated: "no" },
    "variables.A.deprecated: expected true or false, got a string",
  ],
  [{ requird: true }, `variables.A.requird: ${KEYS}; did you mean required?`],
  [{ comment: "" }, `variables.A.comment: ${KEYS}`],
  [
    { "default=x": null },
    `variables.A.…: ${KEYS}, got a key that is not shown`,
  ],
  [
    { "defaults:x": null },
    `variables.A.…: ${KEYS}, got a key that is not shown`,
  ],
];

for (const [fields, ...issues] of WRONG_FIELDS) {
  WRONG_DECLARATIONS.push([{ tier: "public", ...fields as object }, ...issues]);
}

for (const [declaration, ...issues] of WRONG_DECLARATIONS) {
  Deno.test(`parseManifest() rejects the declaration ${JSON.stringify(declaration)}`, () => {
    assertEquals(issuesOf(withVariables({ A: declaration })), issues);
  });
}

/** Scalars as YAML writes them, and their texts. */
const SCALARS: readonly (readonly [yaml: string, text: string])[] = [
  ["10", "10"],
  ["1.0", "1.0"],
  ["010", "010"],
  ["0x1F", "0x1F"],
  ["1e3", "1e3"],
  ["true", "true"],
  ["True", "True"],
  ["2026-11-21", "2026-11-21"],
  ["'10'", "10"],
  ['"a\\tb"', "a\tb"],
  [">-\n      a\n      b", "a b"],
  ["&x 10", "10"],
  ["", ""],
];

for (const [yaml, text] of SCALARS) {
  Deno.test(`parseManifest() reads the default ${JSON.stringify(yaml)} as the text ${JSON.stringify(text)}`, () => {
    const manifest =
      `version: "0.1.0"\nvariables:\n  A:\n    tier: public\n    default: ${yaml}\n`;
    assertEquals(parseValid(manifest).variables.get("A")?.default, text);
  });
}

Deno.test("parseManifest() reads the values of an enum as text", () => {
  const manifest =
    'version: "0.1.0"\nvariables: {A: {tier: public, type: enum, values: [1.0, true, x], default: 1.0}}';
  const { values, default: defaultValue } =
    parseValid(manifest).variables.get("A") ?? {};
  assertEquals([values, defaultValue], [["1.0", "true", "x"], "1.0"]);
});

Deno.test("parseManifest() reads a merged scalar, whose text is elsewhere, from its value", () => {
  const manifest =
    'version: "0.1.0"\nvariables: {B: &b {tier: public, default: 10}, A: {<<: *b}}';
  assertEquals(parseValid(manifest).variables.get("A")?.default, "10");
});

Deno.test("parseManifest() reads keys for readers without a value as empty", () => {
  const manifest = `version: "0.1.0"
variables:
  A:
    tier: public
    description:
    example:
    deprecated_message:
`;
  const empty = { ...MINIMAL, description: "", deprecatedMessage: "" };
  assertEquals(parseValid(manifest).variables.get("A"), empty);
});

for (const null_ of ["~", "null"]) {
  Deno.test(`parseManifest() rejects ${null_} as a default`, () => {
    const manifest =
      `version: "0.1.0"\nvariables: {A: {tier: public, default: ${null_}}}`;
    assertEquals(issuesOf(manifest), [
      "variables.A.default: expected text, got nothing",
    ]);
  });
}

Deno.test("parseManifest() rejects a variable without a name", () => {
  assertEquals(issuesOf(withVariables({ "": { tier: "public" } })), [
    "variables: expected a name for every variable",
  ]);
});

const SECRET = "s3cret";

/** Declarations that contain a secret. */
const LEAKED_DECLARATIONS: Record<string, unknown> = {
  "a value as the declaration": SECRET,
  "a value in a list as the declaration": [SECRET],
  "a default of another type": { tier: "sensitive", default: [SECRET] },
  "a default with an unknown tier": { tier: "x", default: [SECRET] },
  "a default without a tier": { default: { [SECRET]: SECRET } },
  "a value in values": { tier: "server", values: SECRET },
  "a value in required": { tier: "sensitive", required: SECRET },
  "a value in pattern": { tier: "sensitive", pattern: [SECRET] },
  "a value in example": { tier: "sensitive", example: [SECRET] },
  "a value as the type": { tier: "sensitive", type: SECRET },
  "a value as the tier": { tier: SECRET },
  "a value as a key of a mapping": {
    tier: "sensitive",
    [SECRET]: { [SECRET]: SECRET },
  },
};

const LEAKS: Record<string, string> = {
  "a whole env file": `REP_SENSITIVE_A=${SECRET}\nREP_SENSITIVE_B=${SECRET}`,
  "a value as the variables": `version: "0.1.0"\nvariables: ${SECRET}`,
  "a value in __proto__":
    `version: "0.1.0"\nvariables: {A: {tier: sensitive, __proto__: ${SECRET}}}`,
  "a default without a space":
    `version: "0.1.0"\nvariables: {A: {tier: sensitive, default:${SECRET}}}`,
  "a default without a space and without a tier":
    `version: "0.1.0"\nvariables: {A: {default:${SECRET}}}`,
  "a default without a space in a block":
    `version: "0.1.0"\nvariables:\n  A:\n    default:${SECRET}`,
  "a default with an equals sign":
    `version: "0.1.0"\nvariables: {A: {tier: server, default=${SECRET}}}`,
  "a value as a key":
    `version: "0.1.0"\nvariables: {A: {tier: sensitive, ${SECRET}}}`,
  "a variable without a space": `version: "0.1.0"\nvariables: {A:${SECRET}}`,
  "a variable without a space, but with a tier":
    `version: "0.1.0"\nvariables: {"A:${SECRET}": {tier: x}}`,
  "a key at the top without a space":
    `{version: "0.1.0", variables: {}, A:${SECRET}}`,
  "an open quote":
    `version: "0.1.0"\nvariables:\n  A:\n    tier: sensitive\n    default: "${SECRET}`,
  "a broken line":
    `version: "0.1.0"\nvariables:\n  A:\n    tier: sensitive\n    ${SECRET}`,
  "a tab":
    `version: "0.1.0"\nvariables:\n  A:\n    tier: sensitive\n\tdefault: ${SECRET}`,
  "an undefined alias":
    `version: "0.1.0"\nvariables:\n  A:\n    tier: sensitive\n    default: *${SECRET}`,
  "an unknown tag":
    `version: "0.1.0"\nvariables:\n  A:\n    tier: sensitive\n    default: !${SECRET} x`,
  "an alias of itself":
    `version: "0.1.0"\nvariables:\n  A: &a\n    tier: sensitive\n    default: [*a, ${SECRET}]`,
};

for (const [what, declaration] of Object.entries(LEAKED_DECLARATIONS)) {
  LEAKS[what] = withVariables({ A: declaration });
}

for (const [what, text] of Object.entries(LEAKS)) {
  Deno.test(`parseManifest() rejects ${what} without repeating it`, () => {
    const issues = issuesOf(text);
    assertEquals([issues.length > 0, issues.join().includes(SECRET)], [
      true,
      false,
    ]);
  });
}

Deno.test("parseManifest() terminates for circular aliases", () => {
  assertEquals(issuesOf('version: "0.1.0"\nvariables: &a\n  A: *a\n'), [
    `variables.A.tier: ${TIER}, got nothing`,
    `variables.A.A: ${KEYS}`,
  ]);
});

Deno.test("parseManifest() accepts names of properties that all objects have", () => {
  const text =
    'version: "0.1.0"\nvariables: {__proto__: {tier: public}, constructor: {tier: public}}';
  assertEquals(
    parseValid(text).variables,
    new Map([["__proto__", MINIMAL], ["constructor", MINIMAL]]),
  );
});

Deno.test("parseManifest() does not read a tier from __proto__", () => {
  assertEquals(
    issuesOf('version: "0.1.0"\nvariables: {A: {__proto__: {tier: public}}}'),
    [
      `variables.A.tier: ${TIER}, got nothing`,
      `variables.A.__proto__: ${KEYS}`,
    ],
  );
});

Deno.test("parseManifest() names the file in every issue", () => {
  const { name, issues } = parseManifest("[]", { path: "app/rep.yaml" });
  assertEquals(name, 'the manifest "app/rep.yaml"');
  assertEquals(issues, [
    'Cannot use the manifest "app/rep.yaml": expected a mapping at the top, got an empty list',
  ]);
});

/** A manifest with issues of the variables in lines 3, 7 and 8, and in line 12. */
const WRONG_LINES = `version: "0.1.0"
variables:
  URL:
    # a comment
    tier: pubic
  FLAT: { tier: public, required: true }
  "OTHER": { tier: none }
  LIST:
    deprecated: 1
settings:
  strict_guardrails: true
else: 1
`;

Deno.test("parseManifest() names the line of the variable in every issue", () => {
  const manifest = parseManifest(WRONG_LINES, { path: "rep.yaml" });
  const { issues } = manifest;
  const places = issues.map((issue) =>
    /"(.*?)": ([\w.]+)/.exec(issue)?.slice(1)
  );
  assertEquals(places, [
    ["rep.yaml:3", "variables.URL.tier"],
    ["rep.yaml:7", "variables.OTHER.tier"],
    ["rep.yaml:8", "variables.LIST.tier"],
    ["rep.yaml:8", "variables.LIST.deprecated"],
    ["rep.yaml:12", "else"],
  ]);
  assertEquals(
    nameAt("FLAT", manifest),
    'the manifest "rep.yaml:6"',
  );
  assertEquals(nameAt("NONE", manifest), 'the manifest "rep.yaml"');
});

Deno.test("nameAt() names the line of a variable with a dot in its name, and not that of another", () => {
  const text =
    'version: "0.1.0"\nvariables:\n  a: {tier: public}\n  a.b: {tier: public}\n';
  const manifest = parseManifest(text, { path: "rep.yaml" });
  assertEquals(nameAt("a.b", manifest), 'the manifest "rep.yaml:4"');
});

Deno.test("parseManifest() reports a tab by its line, instead of what the parser makes of it", () => {
  const start = 'version: "0.1.0"\nvariables:\n  A:\n';
  const texts = [
    `${start}\ttier: public\n\trequired: true\n`,
    `${start}  \t  tier: public\n    required: true\n`,
  ];
  for (const text of texts) {
    assertEquals(parseManifest(text, { path: "rep.yaml" }).issues, [
      'Cannot use the manifest "rep.yaml:4": expected spaces at the beginning of line 4, got a tab',
    ]);
  }
  const valid =
    'version: "0.1.0"\nvariables: {\n\tA: { tier: public } }\n\t# x\n';
  parseValid(valid); // within braces, a tab indents nothing
});

Deno.test("parseManifest() reports why it is not YAML with the line, and none of its text", () => {
  const variable = 'version: "0.1.0"\nvariables:\n  A:\n    tier: sensitive\n';
  const reasons: Record<string, string> = {
    "   default: s3cret":
      "line 5, column 4: bad indentation of a mapping entry",
    '    default: "s3cret':
      "line 6, column 1: Unexpected end of the stream within a double quoted scalar",
    "    default: *s3cret": "line 5, column 21: unidentified alias",
    "    default: !s3cret x": "line 5, column 23: unknown tag",
    '    default: "s3cret\\d"': "line 5, column 22: unknown escape sequence",
  };
  for (const [line, reason] of Object.entries(reasons)) {
    const { issues } = parseManifest(`${variable}${line}\n`, {
      path: "a.yaml",
    });
    const [, number] = /^line (\d+)/.exec(reason) ?? [];
    assertEquals(issues, [
      `Cannot use the manifest "a.yaml:${number}": it is not valid YAML at ${reason}`,
    ]);
  }
});

Deno.test("parseManifest() reports each issue on one short line", () => {
  const [issue = ""] = issuesOf(
    withVariables({
      A: { tier: "public", type: `string\n${"x".repeat(1_000)}` },
    }),
  );
  assertEquals(
    issue,
    `variables.A.type: ${TYPE}, got a string`,
  );
});
