import { assertEquals } from "@std/assert";
import { applyManifest } from "../../../../src/core/config/variables/apply_manifest.ts";
import { classify } from "../../../../src/core/config/variables/snapshot.ts";
import {
  type Environment,
  TIERS,
} from "../../../../src/core/config/variables/tiers.ts";
import { parseManifest } from "../../../../src/core/config/variables/manifest.ts";

const OPTIONS = { requiredTiers: TIERS };

function manifestOf(declarations: Record<string, unknown>) {
  const text = JSON.stringify({ version: "0.1.0", variables: declarations });
  const manifest = parseManifest(text);
  assertEquals(manifest.issues, []);
  return manifest;
}

async function apply(
  declarations: Record<string, unknown>,
  environment: Environment = {},
) {
  const { variables } = classify(environment);
  return await applyText(variables, manifestOf(declarations), [], OPTIONS);
}

/** Returns only the text of each issue. */
async function applyText(...args: Parameters<typeof applyManifest>) {
  const applied = await applyManifest(...args);
  return { ...applied, issues: applied.issues.map(({ text }) => text) };
}

/** Returns the issues of a PUBLIC variable V with this declaration and this value. */
function issuesFor(
  declaration: Record<string, unknown>,
  value: string,
): Promise<readonly string[]> {
  return allIssues({ V: { tier: "public", ...declaration } }, {
    REP_PUBLIC_V: value,
  });
}

async function allIssues(
  declarations: Record<string, unknown>,
  environment: Environment,
): Promise<readonly string[]> {
  return (await apply(declarations, environment)).issues;
}

Deno.test("applyManifest() adds the defaults of optional variables that are not set, and keeps all others", async () => {
  const declarations = {
    SET: { tier: "public", default: "from the manifest" },
    NOTHING: { tier: "public", default: "from the manifest" },
    UNSET: { tier: "public", default: "from the manifest" },
    EMPTY: { tier: "public", default: "" },
    SECRET: { tier: "sensitive", default: "s3cret" },
    INTERNAL: { tier: "server", default: "t0ken" },
    WITHOUT: { tier: "public" },
  };
  assertEquals(
    await apply(declarations, {
      REP_PUBLIC_SET: "from the environment",
      REP_PUBLIC_NOTHING: "",
      REP_PUBLIC_UNDECLARED: "x",
    }),
    {
      variables: [
        { name: "SET", tier: "public", value: "from the environment" },
        { name: "NOTHING", tier: "public", value: "" },
        { name: "UNDECLARED", tier: "public", value: "x" },
        { name: "UNSET", tier: "public", value: "from the manifest" },
        { name: "EMPTY", tier: "public", value: "" },
        { name: "SECRET", tier: "sensitive", value: "s3cret" },
        { name: "INTERNAL", tier: "server", value: "t0ken" },
      ],
      issues: [],
      findings: [
        {
          event: "rep.config.suspicious_name",
          name: "REP_PUBLIC_UNDECLARED",
          detail: "the manifest does not declare it",
        },
      ],
    },
  );
});

Deno.test("applyManifest() reports every required variable that is not set, by its name in the environment", async () => {
  const declarations = {
    A: { tier: "public", required: true },
    B: { tier: "sensitive", required: true },
    C: { tier: "server", required: true },
    D: { tier: "public", required: true },
    E: { tier: "public", required: false },
  };
  assertEquals((await apply(declarations, { REP_PUBLIC_D: "x" })).issues, [
    "Cannot find REP_PUBLIC_A: the manifest requires it, but it is not set",
    "Cannot find REP_SENSITIVE_B: the manifest requires it, but it is not set",
    "Cannot find REP_SERVER_C: the manifest requires it, but it is not set",
  ]);
});

Deno.test("applyManifest() names what is set instead of a missing variable, if it is misspelled", async () => {
  const declarations = { TITLE: { tier: "public", required: true } };
  const misspelled = [
    "REP_PUBIC_TITLE",
    "REP_PUBLIC_TITEL",
    "REP_TITLE",
    "REP_public_TITLE",
  ];
  const manifest = manifestOf(declarations);
  const issue =
    "Cannot find REP_PUBLIC_TITLE: the manifest requires it, but it is not set";
  for (const name of misspelled) {
    const ignoredNames = ["REP_PUBLIC_COLOR", name];
    const { issues } = await applyText([], manifest, ignoredNames, OPTIONS);
    assertEquals(issues, [`${issue}; is it misspelled as ${name}?`]);
  }
  for (const name of ["REP_PUBLIC_MY_TITLE", "REP_PUBLIC_COLOR"]) {
    const { issues } = await applyText([], manifest, [name], OPTIONS);
    assertEquals(issues, [issue]);
  }
});

Deno.test("applyManifest() returns the variables that are not declared, with a similar name that is not set", async () => {
  const declarations = {
    TITLE: { tier: "public" },
    PLAN_1: { tier: "public" },
  };
  const { findings } = await apply(declarations, {
    REP_PUBLIC_TITEL: "x",
    REP_PUBLIC_PLAN_1: "x",
    REP_PUBLIC_PLAN_2: "x",
    REP_SERVER_OTHER: "s3cret",
  });
  const event = "rep.config.suspicious_name";
  const detail = "the manifest does not declare it";
  assertEquals(findings, [
    {
      event,
      name: "REP_PUBLIC_TITEL",
      detail: `${detail}; did you mean TITLE?`,
    },
    { event, name: "REP_PUBLIC_PLAN_2", detail },
    { event, name: "REP_SERVER_OTHER", detail },
  ]);
});

Deno.test("applyManifest() returns the required variables that are set to nothing", async () => {
  const declarations = {
    A: { tier: "public", required: true },
    B: { tier: "server", required: true },
    C: { tier: "public" },
  };
  const { findings, issues } = await apply(declarations, {
    REP_PUBLIC_A: "",
    REP_SERVER_B: "",
    REP_PUBLIC_C: "",
  });
  const event = "rep.config.empty";
  const detail = "it is required, but set to nothing";
  assertEquals([findings, issues], [[
    { event, name: "REP_PUBLIC_A", detail },
    { event, name: "REP_SERVER_B", detail },
  ], []]);
});

Deno.test("applyManifest() says of an empty value that is SENSITIVE that it is empty", async () => {
  const declarations = { A: { tier: "sensitive", type: "number" } };
  assertEquals(await allIssues(declarations, { REP_SENSITIVE_A: "" }), [
    "Cannot use REP_SENSITIVE_A: expected a number, got an empty value",
  ]);
});

Deno.test("applyManifest() returns booleans in lower case, since only these are values of their type", async () => {
  const { variables, issues } = await apply({
    A: { tier: "public", type: "boolean" },
    B: { tier: "sensitive", type: "boolean", default: "False" },
    C: { tier: "public" },
  }, { REP_PUBLIC_A: "TRUE", REP_PUBLIC_C: "TRUE" });
  assertEquals({ variables, issues }, {
    variables: [
      { name: "A", tier: "public", value: "true" },
      { name: "C", tier: "public", value: "TRUE" },
      { name: "B", tier: "sensitive", value: "false" },
    ],
    issues: [],
  });
});

Deno.test("applyManifest() reports a variable in another tier than declared, without its value", async () => {
  const declarations = {
    A: { tier: "sensitive", type: "number" },
    B: { tier: "public", type: "number" },
  };
  assertEquals(
    (await apply(declarations, {
      REP_PUBLIC_A: "s3cret",
      REP_SERVER_B: "s3cret",
    })).issues,
    [
      "Cannot use REP_PUBLIC_A: the manifest declares it as REP_SENSITIVE_A",
      "Cannot use REP_SERVER_B: the manifest declares it as REP_PUBLIC_B",
    ],
  );
});

Deno.test("applyManifest() names the file in every issue that it is the cause of", async () => {
  const declarations = {
    A: { tier: "server", required: true },
    B: { tier: "server" },
    C: { tier: "server", pattern: "(" },
  };
  const text = JSON.stringify({ version: "1", variables: declarations });
  const { variables } = classify({ REP_PUBLIC_B: "x" });
  const manifest = parseManifest(text, { path: "rep.yaml" });
  const { issues } = await applyText(variables, manifest, [], OPTIONS);
  assertEquals(issues, [
    'Cannot use the manifest "rep.yaml": version: expected a quoted version such as "0.1.0", got "1"',
    'Cannot use the manifest "rep.yaml": variables.C.pattern: ' +
    "expected a regular expression in the syntax of Go, got a string: missing closing )",
    'Cannot find REP_SERVER_A: the manifest "rep.yaml" requires it, but it is not set',
    'Cannot use REP_PUBLIC_B: the manifest "rep.yaml" declares it as REP_SERVER_B',
  ]);
});

Deno.test("applyManifest() returns deprecated variables that are set, with the manifest's message", async () => {
  const declarations = {
    OLD: { tier: "public", deprecated: true, deprecated_message: "Use NEW" },
    OLDER: { tier: "sensitive", deprecated: true },
    UNSET: { tier: "public", deprecated: true },
    INJECTED: { tier: "public", deprecated: true, default: "x" },
    NEW: { tier: "public" },
  };
  const environment = {
    REP_PUBLIC_OLD: "1",
    REP_SENSITIVE_OLDER: "2",
    REP_PUBLIC_NEW: "3",
  };
  const event = "rep.config.deprecated";
  assertEquals((await apply(declarations, environment)).findings, [
    { event, name: "OLD", detail: "Use NEW" },
    { event, name: "OLDER", detail: undefined },
  ]);
});

const URI =
  "a URI with a scheme and a host (RFC 3986), such as https://example.com/a";

/** Declarations with the expectation in the message, valid values and invalid values. */
const TYPES: readonly (readonly [
  declaration: Record<string, unknown>,
  expected: string,
  valid: string[],
  invalid: string[],
])[] = [
  [{}, "", ["", "x", " ", "a\nb", "😀"], []],
  [{ type: "csv" }, "", ["", "a", "a,b", ",,"], []],
  [
    { type: "url" },
    URI,
    [
      "https://api.example.com",
      "http://localhost:3000",
      "wss://ws.example.com/x?y=1#z",
      "https://0123456789abcdef@o1.ingest.example.io/1",
      "https://user:p%40ss@[::1]:8443//a;b=c/@:$&'()*+,/%e4?d%5B0%5D=e",
      "https://xn--mnchen-3ya.example?q=/?#/?",
      "HTTPS://h:",
      "postgres://db,other/app",
    ],
    [
      "",
      "https://x/%zz",
      "https://x/%4",
      "http:///path",
      "https://@/",
      "https://:443",
      "https:/example.com",
      "https://[::g]",
      "https://example.com:99999",
      "https://192.0.2.999",
      "https://tile.example.org/{z}/{x}",
      "https://münchen.example",
      "https://example.com/a|b",
      "https://example.com\\a",
      "1https://example.com",
      "mailto:support@example.com",
      "javascript:alert(1)",
      "JavaScript://example.com/%0aalert(1)",
      "data:text/plain,a",
      "data://example.com/",
      "api.example.com",
      "/api",
      "//cdn.example.com",
      "localhost:3000",
      "api.example.com:443/v1",
      "https://",
      "https://exa mple.com",
      " https://api.example.com",
      "https://api.example.com\n",
    ],
  ],
  [
    { type: "number" },
    "a number",
    ["0", "10", "-1.5", "1e3", ".5"],
    [
      "",
      " ",
      "ten",
      "1,5",
      "1_000",
      "10px",
      "NaN",
      "Infinity",
      "-Infinity",
      "1e999",
    ],
  ],
  [
    { type: "boolean" },
    "true or false",
    ["true", "false", "TRUE", "False"],
    ["", "1", "0", "yes", "on", "true ", "truefalse", "true\n"],
  ],
  [
    { type: "json" },
    "JSON",
    ["{}", "[1,2]", '"x"', "null", "1", ' {"a": 1} '],
    ["", "{", "{a:1}", "'x'", "undefined", "[1,]"],
  ],
  [
    { type: "enum", values: ["dark", "light"] },
    "one of dark, light",
    ["dark", "light"],
    ["", "Dark", "dark ", "dark,light"],
  ],
  [
    { pattern: "^UA-\\d+-\\d+$" },
    "a value that matches ^UA-\\d+-\\d+$",
    ["UA-1-2"],
    ["", "xUA-1-2", "UA-1-2x", "UA-1-2\n", "ua-1-2"],
  ],
];

for (const [declaration, expected, valid, invalid] of TYPES) {
  const declared = JSON.stringify(declaration);
  for (const value of valid) {
    Deno.test(`applyManifest() accepts ${JSON.stringify(value)} for ${declared}`, async () => {
      assertEquals(await issuesFor(declaration, value), []);
    });
  }
  for (const value of invalid) {
    Deno.test(`applyManifest() rejects ${JSON.stringify(value)} for ${declared}`, async () => {
      assertEquals(await issuesFor(declaration, value), [
        `Cannot use REP_PUBLIC_V: expected ${expected}, got ${
          JSON.stringify(value)
        }`,
      ]);
    });
  }
}

Deno.test("applyManifest() reports an invalid default as such, also while the environment overrides it", async () => {
  const declarations = {
    A: { tier: "public", type: "number", default: "ten" },
    B: { tier: "sensitive", type: "number", default: "s3cret" },
    C: { tier: "public", pattern: "[a-z]+", default: "1" },
    D: { tier: "public", type: "enum", values: ["x"], default: "y" },
    E: { tier: "public", type: "number", required: true, default: "ten" },
  };
  const valid = {
    REP_PUBLIC_A: "1",
    REP_SENSITIVE_B: "1",
    REP_PUBLIC_C: "c",
    REP_PUBLIC_D: "x",
    REP_PUBLIC_E: "1",
  };
  const issues = [
    'Cannot use the default of REP_PUBLIC_A in the manifest: expected a number, got "ten"',
    "Cannot use the default of REP_SENSITIVE_B in the manifest: expected a number, got a value that is not shown",
    'Cannot use the default of REP_PUBLIC_C in the manifest: expected a value that matches [a-z]+, got "1"',
    'Cannot use the default of REP_PUBLIC_D in the manifest: expected one of x, got "y"',
    'Cannot use the default of REP_PUBLIC_E in the manifest: expected a number, got "ten"',
  ];
  assertEquals(await allIssues(declarations, valid), issues);
  const { REP_PUBLIC_E } = valid;
  assertEquals(await allIssues(declarations, { REP_PUBLIC_E }), issues);
});

Deno.test("applyManifest() ignores the default of a required variable", async () => {
  const declarations = {
    A: { tier: "public", required: true, default: "default" },
  };
  const set = await apply(declarations, { REP_PUBLIC_A: "set" });
  assertEquals([set.issues, set.variables], [[], [
    { name: "A", tier: "public", value: "set" },
  ]]);
  const unset = await apply(declarations);
  assertEquals([unset.issues, unset.variables], [[
    "Cannot find REP_PUBLIC_A: the manifest requires it, but it is not set",
  ], []]);
});

for (const tier of ["sensitive", "server"]) {
  Deno.test(`applyManifest() reports neither the value of a ${tier} variable nor its allowed values`, async () => {
    const types = {
      A: { tier, type: "url" },
      B: { tier, type: "number" },
      C: { tier, type: "boolean" },
      D: { tier, type: "json" },
      E: { tier, type: "enum", values: ["s3cret", "t0ken"] },
      F: { tier, pattern: "s3cret|t0ken" },
    };
    const prefix = `REP_${tier.toUpperCase()}_`;
    const environment = Object.fromEntries(
      Object.keys(types).map((name) => [prefix + name, "hunter2"]),
    );
    assertEquals(await allIssues(types, environment), [
      `Cannot use ${prefix}A: expected ${URI}, got a value that is not shown`,
      `Cannot use ${prefix}B: expected a number, got a value that is not shown`,
      `Cannot use ${prefix}C: expected true or false, got a value that is not shown`,
      `Cannot use ${prefix}D: expected JSON, got a value that is not shown`,
      `Cannot use ${prefix}E: expected one of the values in the manifest, got a value that is not shown`,
      `Cannot use ${prefix}F: expected a value that matches the pattern in the manifest, got a value that is not shown`,
    ]);
  });
}
