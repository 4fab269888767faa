import { assertEquals } from "@std/assert";
import { parse } from "@std/yaml/parse";
import { Ajv } from "ajv";
import * as fc from "fast-check";
import schema from "../schema/rep.schema.json" with { type: "json" };
import { parseCommandManifest } from "../src/command/options/manifest_settings.ts";
import type { Option } from "../src/command/options/option_kinds.ts";
import { OPTIONS } from "../src/command/options/option_table.ts";
import { TIERS } from "../src/core/config/variables/tiers.ts";
import { VARIABLE_TYPES } from "../src/core/config/variables/manifest.ts";
import { formatDuration } from "../src/core/values/units.ts";
import { testProperty } from "./fuzz/_property.ts";

// `strictTypes` and `strictRequired` reject schemas that are valid, such as a type with `null`.
const isValid = new Ajv({
  strict: true,
  strictTypes: false,
  strictRequired: false,
}).compile(schema);

/** Returns whether the schema and the gateway accept a manifest. */
function verdicts(yaml: string): { schema: boolean; gateway: boolean } {
  return {
    schema: isValid(parse(yaml)),
    gateway: parseCommandManifest(yaml, undefined).issues.length === 0,
  };
}

/** Returns a manifest with these declarations and settings, in JSON, which is YAML. */
function manifest(variables: unknown, settings?: unknown) {
  return JSON.stringify({
    version: "0.1.0",
    variables,
    ...(settings === undefined ? {} : { settings }),
  });
}

const { properties: declarationProperties } = schema.definitions.declaration;
const { properties: settingsProperties } = schema.properties.settings;

Deno.test("schema/rep.schema.json accepts examples/rep.yaml, and so does the gateway", async () => {
  assertEquals(verdicts(await Deno.readTextFile("examples/rep.yaml")), {
    schema: true,
    gateway: true,
  });
});

Deno.test("schema/rep.schema.json has the fields of a declaration that the gateway reads, and their values", () => {
  const [issue = ""] = parseCommandManifest(
    manifest({ A: { tier: "public", unknown: 1 } }),
    undefined,
  ).issues;
  const fields = /expected one of ([^:]+?)(?:; did|, got|$)/.exec(issue)?.[1]
    ?.split(", ");
  assertEquals(Object.keys(declarationProperties).sort(), fields?.sort());
  assertEquals(declarationProperties.tier.enum, [...TIERS]);
  assertEquals(declarationProperties.type.enum, [...VARIABLE_TYPES]);
});

Deno.test("schema/rep.schema.json has the settings of the option table, with their descriptions and defaults", () => {
  const options = Object.values(OPTIONS) as Option<unknown>[];
  const expected = options.flatMap(
    ({ manifest, help, type, expected, default: value }) => {
      if (manifest === undefined) return [];
      const isDuration = expected.startsWith("a duration");
      const text = isDuration ? formatDuration(Number(value)) : value;
      return [[manifest, {
        description: help,
        ...(type === "list" ? {} : { default: text }),
      }]];
    },
  );
  const actual = Object.entries(settingsProperties).map(
    ([name, { description, ...rest }]) => {
      return [name, {
        description,
        ...("default" in rest ? { default: rest.default } : {}),
      }];
    },
  );
  assertEquals(Object.fromEntries(actual), Object.fromEntries(expected));
});

const EXAMPLES = [
  [manifest({}), true],
  [manifest({ A: { tier: "public" } }), true],
  [
    'version: "0.1.0"\nvariables:\n  A: { tier: public, default: 10, description: }',
    true,
  ],
  [
    'version: "0.1.0"\nvariables:\n  A: { tier: public, type: enum, values: [1, true, x] }',
    true,
  ],
  ['version: "0.1.0"\nvariables: {}\nsettings: { allowed_origins: }', true],
  [
    manifest({}, {
      hot_reload: true,
      hot_reload_mode: "poll",
      hot_reload_poll_interval: "1m30s",
    }),
    true,
  ],
  [
    manifest({}, {
      allowed_origins: [],
      session_key_ttl: "20s",
      session_key_max_rate: 5_000,
    }),
    true,
  ],
  ["version: 0.1.0\nvariables: {}", true], // two dots: a string in YAML, too
  ["version: 0.1\nvariables: {}", false],
  ['version: "0.1.0"', false],
  ["variables: {}", false],
  ['version: "0.1.0"\nvariables:', false],
  ['version: "0.1.0"\nvariables: {}\nsettings:', false],
  ['version: "0.1.0"\nvariables: {}\nsetings: {}', false],
  [manifest({ A: {} }), false],
  [manifest({ "": { tier: "public" } }), false],
  [manifest({ A: { tier: "PUBLIC" } }), false],
  [manifest({ A: { tier: "public", type: "enum" } }), false],
  [manifest({ A: { tier: "public", values: [["a"]] } }), false],
  [manifest({ A: { tier: "public", required: "yes" } }), false],
  [manifest({ A: { tier: "public", required: true, default: "x" } }), true],
  [manifest({ A: { tier: "public", defualt: "x" } }), false],
  [manifest({}, { hot_reload_mode: "file" }), false],
  [manifest({}, { hot_reload_poll_interval: 30 }), false],
  [manifest({}, { allowed_origins: "https://a.example" }), false],
  [manifest({}, { allowed_origins: ["https://*.example"] }), false],
  [manifest({}, { accept_public: ["STRIPE_KEY", "REP_PUBLIC_A"] }), true],
  [manifest({}, { accept_public: ["REP_SERVER_A"] }), false],
  [manifest({}, { session_key_max_rate: 0 }), false],
  [manifest({}, { port: 80 }), false],
] as const;

for (const [yaml, isAccepted] of EXAMPLES) {
  Deno.test(`schema/rep.schema.json and the gateway ${isAccepted ? "accept" : "reject"} ${yaml}`, () => {
    assertEquals(verdicts(yaml), { schema: isAccepted, gateway: isAccepted });
  });
}

Deno.test("schema/rep.schema.json accepts what only the gateway can reject", () => {
  const yamls = [
    manifest({ A: { tier: "public", default: null } }), // the word `null`, which JSON does not tell from nothing
    manifest({}, { session_key_ttl: "31s" }), // the range of a duration
    manifest({}, { allowed_origins: ["https://a.example:99999"] }), // a URL
  ];
  assertEquals(
    yamls.map(verdicts),
    yamls.map(() => ({ schema: true, gateway: false })),
  );
});

/** Values of every kind. A key with `undefined` is absent. */
const ANY_VALUE = fc.oneof(
  fc.constantFrom<unknown>(
    undefined,
    "",
    "x",
    "public",
    "enum",
    true,
    false,
    0,
    1.5,
    [],
    {},
    ["a"],
    ["a", 1],
    [[]],
  ),
  fc.string(),
);

/** A value that this field accepts most of the time, so that many manifests are valid. */
function often(...values: unknown[]): fc.Arbitrary<unknown> {
  return fc.oneof({
    weight: 12,
    arbitrary: fc.constantFrom(undefined, ...values),
  }, {
    weight: 1,
    arbitrary: ANY_VALUE,
  });
}

const DECLARATION = fc.record({
  tier: fc.oneof(
    { weight: 12, arbitrary: fc.constantFrom(...TIERS) },
    ANY_VALUE,
  ),
  type: often(...VARIABLE_TYPES),
  required: often(true, false),
  default: often("x", "", 10, true),
  description: often("x"),
  example: often("x", 1),
  pattern: fc.constantFrom<unknown>(undefined, "^a+$", "", 1, true, [], {}),
  values: often(["a"], ["a", 1, true]),
  deprecated: often(true),
  deprecated_message: often("x"),
  unknown: fc.oneof(
    { weight: 20, arbitrary: fc.constant(undefined) },
    ANY_VALUE,
  ),
});

const DURATION = often("1s", "30s", "5s500ms");
const SETTINGS = fc.record({
  strict_guardrails: often(true, false),
  hot_reload: often(true, false),
  hot_reload_mode: often("signal", "file_watch", "poll"),
  hot_reload_poll_interval: DURATION,
  allowed_origins: often([], ["https://a.example"], [
    "http://LOCALHOST:80/",
    " https://b.example ",
  ]),
  accept_public: often([], ["STRIPE_KEY", " REP_PUBLIC_A"], ["REP_SERVER_A"]),
  session_key_ttl: DURATION,
  session_key_max_rate: often(1, 10, 5_000, 5_001),
});

testProperty(
  "schema/rep.schema.json and the gateway accept the same manifests",
  fc.tuple(
    fc.dictionary(
      fc.constantFrom("A", "B_2", "c.d", "__proto__", ""),
      DECLARATION,
      { maxKeys: 3 },
    ),
    SETTINGS,
  ),
  ([variables, settings]) => {
    const { schema, gateway } = verdicts(manifest(variables, settings));
    assertEquals(schema, gateway);
  },
);
