import { assertEquals } from "@std/assert";
import { parseCommandManifest } from "../../../src/cli/options/manifest_settings.ts";
import type {
  Declaration,
  Manifest,
} from "../../../src/config/variables/manifest.ts";

/** Parses a manifest without issues. */
function manifestOf(text: string): Manifest {
  const manifest = parseCommandManifest(text, undefined);
  assertEquals(manifest.issues, []);
  return manifest;
}

/** Returns the issues of a manifest, without their common prefix. */
function issuesOf(text: string): string[] {
  return parseCommandManifest(text, undefined).issues.map((issue) =>
    issue.replace("Cannot use the manifest: ", "")
  );
}

/** Returns a manifest with these settings; JSON is YAML. */
function withSettings(settings: unknown): string {
  return JSON.stringify({ version: "0.1.0", variables: {}, settings });
}

const KEYS =
  "expected one of tier, type, required, default, description, example, pattern, values, deprecated, deprecated_message";
const TIER = "expected one of public, sensitive, server";
const TYPE = "expected one of string, url, number, boolean, csv, json, enum";

/** The optional fields of a declaration that has none of them. */
const UNDECLARED = {
  default: undefined,
  description: undefined,
  pattern: undefined,
  values: undefined,
  deprecated: false,
  deprecatedMessage: undefined,
} as const;

Deno.test("parseCommandManifest() parses the example of REP-RFC-0001 §6.1", () => {
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
    name: "the manifest",
    variables: new Map<string, Declaration>([
      ["API_URL", {
        ...UNDECLARED,
        tier: "public",
        type: "url",
        required: true,
        description: "Base URL for the backend API",
      }],
      ["FEATURE_FLAGS", {
        ...UNDECLARED,
        tier: "public",
        type: "csv",
        required: false,
        default: "",
      }],
      ["ANALYTICS_KEY", {
        ...UNDECLARED,
        tier: "sensitive",
        type: "string",
        required: true,
        pattern: "^UA-\\d+-\\d+$",
      }],
      ["INTERNAL_ROUTING_KEY", {
        ...UNDECLARED,
        tier: "server",
        type: "string",
        required: true,
      }],
    ]),
    settings: {
      strict_guardrails: true,
      hot_reload: true,
      hot_reload_mode: "file_watch",
      hot_reload_poll_interval: 30_000,
      session_key_ttl: 30_000,
      session_key_max_rate: 10,
      allowed_origins: [
        "https://app.example.com",
        "https://staging.app.example.com",
      ],
    },
    issues: [],
  });
});

Deno.test("parseCommandManifest() reports all issues at once", () => {
  const text = JSON.stringify({
    version: 1,
    extra: true,
    variables: {
      A: { tier: "x", type: "y", required: "z", more: 1 },
      B: 5,
      C: { tier: "server", values: [] },
    },
    settings: { hot_reload: "on", session_key_ttl: "31s", more: 1 },
  });
  assertEquals(issuesOf(text), [
    `variables.A.more: ${KEYS}`,
    `variables.A.tier: ${TIER}, got "x"`,
    `variables.A.type: ${TYPE}, got "y"`,
    "variables.A.required: expected true or false, got a string",
    "variables.B: expected a mapping with a tier, got a number",
    `variables.C.values: expected a list of at least one text, got an empty list`,
    "settings.more: expected one of strict_guardrails, hot_reload, hot_reload_mode, hot_reload_poll_interval, " +
    "allowed_origins, session_key_ttl, session_key_max_rate",
    'settings.hot_reload: expected true or false, got "on"',
    'settings.session_key_ttl: expected a duration from 1s to 30s, such as 30s, got "31s"',
    "extra: expected one of version, variables, settings",
    'version: expected a quoted version such as "0.1.0", got 1',
  ]);
});

const INVALID_SETTINGS: readonly (readonly [
  setting: string,
  expected: string,
  ...values: unknown[],
])[] = [
  ["strict_guardrails", "true or false", "true", 1, null, []],
  ["hot_reload", "true or false", "yes", 0, {}],
  ["hot_reload_mode", "one of signal, file_watch, poll", "watch", true, [
    "poll",
  ]],
  [
    "hot_reload_poll_interval",
    "a duration from 1s to 24h, such as 30s",
    30,
    "30",
    "0s",
    "25h",
    "",
  ],
  [
    "session_key_ttl",
    "a duration from 1s to 30s, such as 30s",
    30,
    "31s",
    "1m",
    "0s",
  ],
  [
    "session_key_max_rate",
    "an integer from 1 to 5000",
    "10",
    0,
    1.5,
    10_001,
    -1,
  ],
  [
    "allowed_origins",
    "origins such as https://app.example.com, without wildcards",
    "https://a.example",
    [1],
    [""],
    [["https://a.example"]],
    ["https://a.example/path"],
    ["https://a.example", "a.example"],
  ],
];

for (const [setting, expected, ...values] of INVALID_SETTINGS) {
  for (const value of values) {
    Deno.test(`parseCommandManifest() rejects ${JSON.stringify(value)} for ${setting}`, () => {
      const [issue = "", ...others] = issuesOf(
        withSettings({ [setting]: value }),
      );
      assertEquals([issue.split(", got ")[0], others], [
        `settings.${setting}: expected ${expected}`,
        [],
      ]);
    });
  }
}

Deno.test("parseCommandManifest() normalizes origins, and rejects wildcards", () => {
  const settings = { allowed_origins: ["https://A.example:443/"] };
  assertEquals(manifestOf(withSettings(settings)).settings, {
    allowed_origins: ["https://a.example"],
  });
  assertEquals(
    issuesOf(withSettings({ allowed_origins: ["https://*.example.com"] })),
    [
      "settings.allowed_origins: expected origins such as https://app.example.com, without wildcards, " +
      'got "https://*.example.com"',
    ],
  );
});

Deno.test("parseCommandManifest() accepts an empty list of origins", () => {
  assertEquals(
    manifestOf('version: "0.1.0"\nvariables: {}\nsettings: {allowed_origins: }')
      .settings,
    {
      allowed_origins: [],
    },
  );
  assertEquals(manifestOf(withSettings({ allowed_origins: [] })).settings, {
    allowed_origins: [],
  });
});
